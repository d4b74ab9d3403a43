"""Frames as they go out."""

from leporid.amqp.constants import FRAME_BODY, FRAME_HEARTBEAT, FRAME_OVERHEAD
from leporid.amqp.frames import frame, method_frame
from leporid.amqp.methods import ChannelFlow


def test_frame():
    assert frame(FRAME_BODY, 0x0102, b"body") == b"\x03\x01\x02\x00\x00\x00\x04body\xce"


def test_heartbeat_is_all_overhead():
    octets = frame(FRAME_HEARTBEAT, 0, b"")
    assert octets == b"\x08\x00\x00\x00\x00\x00\x00\xce"
    assert len(octets) == FRAME_OVERHEAD


def test_method_frame():
    octets = method_frame(7, ChannelFlow(active=True))
    assert octets == b"\x01\x00\x07\x00\x00\x00\x05\x00\x14\x00\x14\x01\xce"
