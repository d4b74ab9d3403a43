"""What goes through the pipes between the broker and the process of a filter class.

    frame     kind:uint8 size:uint32 payload                         to the process
    answer    kind:uint8 size:uint32 number:uint64 payload           from the process
    LOAD      size:uint16 class name, then the source               to the process
    BATCH     count:uint32 (names:uint16 properties:uint32 body:uint32)*  and the bytes of each;
              the engine makes it (`VerdictQueue.batch`)
    READY     nothing: the class is there                            from the process
    VERDICTS  an octet for each message, 1 or 0
    FAILED    what went wrong, as text

Integers are little-endian. Answers are numbered from 0, so that one too many, of a process that has
forked or has written into its pipe, is not taken for that to the next question. Names are those of
a record: exchange and routing key, each behind the octet of its size. Must not know what a message
means. Invariant: nothing that comes from the process is more than bytes: no size it names is waited
for beyond `ANSWER_BYTES_MAX`.
"""

from __future__ import annotations

import struct
from typing import Final

LOAD: Final = 1
BATCH: Final = 2
READY: Final = 3
VERDICTS: Final = 4
FAILED: Final = 5

HEAD: Final = struct.Struct("<BI")
ANSWER_HEAD: Final = struct.Struct("<BIQ")
COUNT: Final = struct.Struct("<I")
SIZES: Final = struct.Struct("<HII")
_NAME: Final = struct.Struct("<H")

ERROR_BYTES_MAX: Final = 16 * 1024
"""Of a traceback, the end: it has the error."""

ANSWER_BYTES_MAX: Final = 64 * 1024
"""An error, or the verdicts of a batch, which has fewer messages than this."""


def load_frame(class_name: str, source: bytes) -> bytes:
    """Make the frame that brings a class to its process."""
    name = class_name.encode()
    payload = _NAME.pack(len(name)) + name + source
    return HEAD.pack(LOAD, len(payload)) + payload


def loaded(payload: bytes) -> tuple[str, bytes]:
    """Return the class name and the source of a LOAD frame."""
    (size,) = _NAME.unpack_from(payload)
    end = _NAME.size + size
    return payload[_NAME.size : end].decode(), payload[end:]


def answer_frame(kind: int, number: int, payload: bytes = b"") -> bytes:
    """Make a frame from the process."""
    return ANSWER_HEAD.pack(kind, len(payload), number) + payload


def error_text(raw: bytes) -> str:
    """Return what a FAILED frame says."""
    return raw.decode("utf-8", "replace") or "it failed, and did not say why"
