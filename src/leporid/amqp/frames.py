"""Frames, written.

    type:uint8 channel:uint16 size:uint32 payload end:uint8 (0xCE)

Reading is the engine's, because it is done in place. Must not know what was negotiated: who
writes keeps to the peer's frame_max. Invariant: what is returned is one whole frame.
"""

import struct
from typing import Final

from leporid.amqp.constants import FRAME_END, FRAME_METHOD
from leporid.amqp.methods import Method

_HEAD: Final = struct.Struct(">BHI")
_END: Final = bytes((FRAME_END,))


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    """Wraps a payload in a frame."""
    return _HEAD.pack(kind, channel, len(payload)) + payload + _END


def method_frame(channel: int, method: Method) -> bytes:
    """Encodes a method as a frame."""
    return frame(FRAME_METHOD, channel, method.encode())
