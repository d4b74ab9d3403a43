"""Frames that are wrong, in every way a peer can get them wrong: what it costs, and whom."""

from __future__ import annotations

import struct

import pytest
from tests.engine import frames
from tests.engine.frames import (
    ack,
    basic_publish,
    bodies,
    content_header,
    frame,
    method,
    properties,
    publish,
)
from tests.engine.session_fake import CHANNEL_CLOSE_OK, Peer, make_engine

TOO_LARGE = "PRECONDITION_FAILED - message size {} is larger than configured max size 1000"
LONG_WITHOUT_END = (
    "FRAME_ERROR - type 1, first 16 octets = <<0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15>>: "
    "{invalid_frame_end_marker,1}"
)
FLOW = method(1, frames.CHANNEL, 20, b"\x01")

# ------------------------------------------------------------------ faults of a connection

FRAMES_NOT_UNDERSTOOD = {
    "too large": (
        struct.pack(">BHI", 3, 1, 8192),
        "FRAME_ERROR - type 3, all octets = <<>>: {frame_too_large,8192,4088}",
    ),
    "one octet too large": (
        struct.pack(">BHI", 2, 1, 4097),
        "FRAME_ERROR - type 2, all octets = <<>>: {frame_too_large,4097,4088}",
    ),
    "as large as can be said": (
        struct.pack(">BHI", 1, 0, 2**32 - 1),
        "FRAME_ERROR - type 1, all octets = <<>>: {frame_too_large,4294967295,4088}",
    ),
    "without its end": (
        frame(1, 0, b"\x00\x0a\x00\x0b", end=b"\x00"),
        "FRAME_ERROR - type 1, all octets = <<0,10,0,11>>: {invalid_frame_end_marker,0}",
    ),
    "long and without its end": (
        frame(1, 0, bytes(range(20)), end=b"\x01"),
        LONG_WITHOUT_END,
    ),
    "of no known type": (
        frame(9, 1, b""),
        "FRAME_ERROR - type 9, all octets = <<>>: unknown_frame",
    ),
    "of type 0": (
        frame(0, 0, b"\x01"),
        "FRAME_ERROR - type 0, all octets = <<1>>: unknown_frame",
    ),
}


@pytest.mark.parametrize("name", FRAMES_NOT_UNDERSTOOD)
def test_frames_that_cannot_be_told_apart(name):
    data, text = FRAMES_NOT_UNDERSTOOD[name]
    engine = make_engine()
    queue = engine.queue(0, "q", False)
    peer = Peer(engine, {"q": queue}, frame_max=4096)
    other = Peer(engine, {"q": queue})
    other.feed(basic_publish(1, "q"))
    peer.feed(publish(1, "q", b"before") + data + publish(1, "q", b"after"))
    ((channel, fault),) = peer.session.faults
    assert (channel, fault.code, str(fault)) == (0, 501, text)
    assert (fault.class_id, fault.method_id) == (0, 0)
    assert peer.connection.broken
    peer.feed(publish(1, "q", b"after") * 3)
    assert queue.ready_count == 1
    other.feed(content_header(1, 1) + bodies(1, b"x"))
    assert queue.ready_count == 2


def contents_not_understood() -> dict[str, tuple[bytes, int, str, tuple[int, int]]]:
    header = "expected content header for class 60, got "
    body = "expected content body, got non content body frame instead"
    none = "non content header frame instead"
    begun = basic_publish(1, "q")
    of_publish = (frames.BASIC, 40)
    return {
        "a method for a header": (begun + FLOW, 505, header + none, of_publish),
        "a body for a header": (begun + bodies(1, b"x"), 505, header + none, of_publish),
        "a publish for a header": (begun + begun, 505, header + none, of_publish),
        "a header of another class": (
            begun + content_header(1, 0, class_id=10),
            505,
            header + "one for class 10 instead",
            of_publish,
        ),
        "a weight": (begun + content_header(1, 0, weight=1), 505, header + none, of_publish),
        "a header for a body": (begun + content_header(1, 1) * 2, 505, body, of_publish),
        "a method for a body": (begun + content_header(1, 1) + FLOW, 505, body, of_publish),
        "a method for the rest of a body": (
            begun + content_header(1, 5) + bodies(1, b"1234") + FLOW,
            505,
            body,
            of_publish,
        ),
        "a body that is too long": (
            begun + content_header(1, 3) + bodies(1, b"1234"),
            505,
            body,
            of_publish,
        ),
        "a rest that is too long": (
            begun + content_header(1, 3) + bodies(1, b"12") + bodies(1, b"34"),
            505,
            body,
            of_publish,
        ),
        "a header for nothing": (
            content_header(1, 1),
            505,
            "expected method frame, got non method frame instead",
            (0, 0),
        ),
        "a body for nothing": (
            publish(1, "q", b"x") + bodies(1, b"y"),
            505,
            "expected method frame, got non method frame instead",
            (0, 0),
        ),
        "a heartbeat on a channel": (
            frame(frames.HEARTBEAT, 1, b""),
            505,
            "type 8, all octets = <<>>",
            (0, 0),
        ),
    }


@pytest.mark.parametrize("name", contents_not_understood())
def test_contents_in_the_wrong_order(name):
    data, code, reason, blamed = contents_not_understood()[name]
    engine = make_engine()
    queue = engine.queue(0, "q", False)
    peer = Peer(engine, {"q": queue}, channels=(1, 2))
    other = Peer(engine, {"q": queue})
    peer.feed(data + publish(2, "q", b"after"))
    ((_, fault),) = peer.session.faults
    assert fault.code == code
    assert str(fault).partition(" - ")[2] == reason
    assert (fault.class_id, fault.method_id) == blamed
    assert fault.closes_connection
    assert queue.ready_count == ("publish" not in name and name == "a body for nothing")
    other.feed(publish(1, "q", b"x"))
    assert other.session.faults == []


TOO_DEEP = frames.table(a=b"t\x01")
for _ in range(40):
    TOO_DEEP = frames.table(a=b"F" + TOO_DEEP)
ARRAYS_TOO_DEEP = frames.array()
for _ in range(40):
    ARRAYS_TOO_DEEP = frames.array(ARRAYS_TOO_DEEP)
MALFORMED = {
    "no flags": b"",
    "half of the flags": b"\x80",
    "a value that is not there": b"\x80\x00",
    "a string that is cut": b"\x80\x00\x05abc",
    "bytes after the last value": b"\x00\x00x",
    "bytes after a value": b"\x10\x00\x02\x02",
    "a timestamp that is cut": b"\x00\x40" + bytes(7),
    "headers that are cut": b"\x20\x00\x00\x00\x00\x09\x01a",
    "headers of a size that is cut": b"\x20\x00\x00\x00",
    "headers larger than can be": b"\x20\x00\xff\xff\xff\xff",
    "a name that is cut": properties(headers=b"\x00\x00\x00\x02\x05a"),
    "a name without a value": properties(headers=b"\x00\x00\x00\x02\x01a"),
    "a value of no type": properties(headers=frames.table(a=b"Z")),
    "a string longer than its table": properties(headers=frames.table(a=b"S\x00\x00\x00\x09abc")),
    "a string of all lengths": properties(headers=frames.table(a=b"S\xff\xff\xff\xffabc")),
    "a table longer than its table": properties(headers=frames.table(a=b"F\x00\x00\x00\x09")),
    "an array longer than its table": properties(headers=frames.table(a=b"A\x00\x00\x00\x09")),
    "an array that ends in a value": properties(
        headers=frames.table(a=b"A\x00\x00\x00\x02I\x00", b=b"t\x01")
    ),
    "a number that is cut": properties(headers=frames.table(a=b"l" + bytes(7))),
    "a number that is none": properties(headers=frames.table(a=b"d\x7f\xf8" + bytes(6))),
    "a number without end": properties(headers=frames.table(a=b"f\xff\x80\x00\x00")),
    "tables too deep": properties(headers=TOO_DEEP),
    "arrays too deep": properties(headers=frames.table(a=ARRAYS_TOO_DEEP)),
}


@pytest.mark.parametrize("in_pieces", [False, True])
@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_properties(name, in_pieces):
    engine = make_engine()
    queue = engine.queue(0, "q", False)
    peer = Peer(engine, {"q": queue})
    peer.feed(publish(1, "q", b"body", raw=MALFORMED[name], step=1 if in_pieces else None))
    ((channel, fault),) = peer.session.faults
    assert fault.code in (501, 502)
    assert fault.closes_connection
    assert (channel, fault.class_id, fault.method_id) == (1, frames.BASIC, 40)
    assert queue.ready_count == 0


METHODS_THAT_DO_NOT_PARSE = {
    "a publish cut short": (method(1, 60, 40, b"\x00\x00"), 40),
    "a publish without its bits": (method(1, 60, 40, b"\x00\x00\x00\x01q"), 40),
    "a publish and more": (method(1, 60, 40, b"\x00\x00\x00\x01q\x00\x00"), 40),
    "a publish with a long exchange": (method(1, 60, 40, b"\x00\x00\xff\x01q\x00"), 40),
    "a publish with a long key": (method(1, 60, 40, b"\x00\x00\x00\xffq\x00"), 40),
    "an ack cut short": (method(1, 60, 80, bytes(8)), 80),
    "an ack and more": (method(1, 60, 80, bytes(10)), 80),
    "a reject cut short": (method(1, 60, 90, b""), 90),
    "a nack and more": (method(1, 60, 120, bytes(10)), 120),
}


@pytest.mark.parametrize("name", METHODS_THAT_DO_NOT_PARSE)
def test_methods_that_do_not_parse(name):
    data, method_id = METHODS_THAT_DO_NOT_PARSE[name]
    peer = Peer(make_engine())
    peer.feed(data)
    ((_, fault),) = peer.session.faults
    assert fault.code == 501  # as RabbitMQ: a frame error
    assert (fault.class_id, fault.method_id) == (60, method_id)


@pytest.mark.parametrize("channel", [0, 1, 9])
@pytest.mark.parametrize("payload", [b"", b"\x00", b"\x00\x3c\x00"])
def test_a_method_frame_without_a_method(channel, payload):
    peer = Peer(make_engine())
    peer.feed(frame(frames.METHOD, channel, payload) + FLOW)
    assert [code for _, code in peer.faults] == [501]
    assert peer.session.methods == []


def test_contents_on_channels_that_are_not_open():
    peer = Peer(make_engine())
    peer.feed(content_header(7, 1) + bodies(7, b"x") + bodies(0, b"y") + FLOW)
    assert peer.session.contents == [(7, 2), (7, 3), (0, 3)]
    assert len(peer.session.methods) == 1


# ------------------------------------------------------------------ faults of a channel


def faults_of_a_channel() -> dict[str, tuple[bytes, str, int]]:
    return {
        "no such exchange": (
            publish(1, "q", b"x", exchange="none"),
            "NOT_FOUND - no exchange 'none' in vhost '/'",
            40,
        ),
        "an unknown delivery tag": (
            ack(1, 3),
            "PRECONDITION_FAILED - unknown delivery tag 3",
            80,
        ),
        "somebody else's name": (
            publish(1, "q", b"x", raw=properties(user_id="root")),
            "PRECONDITION_FAILED - user_id property set to 'root' but authenticated user was 'me'",
            40,
        ),
        "an expiration that is none": (
            publish(1, "q", b"x", raw=properties(expiration="soon")),
            "PRECONDITION_FAILED - invalid expiration 'soon': no_integer",
            40,
        ),
        "a reply to nobody": (
            publish(1, "q", b"x", raw=properties(reply_to="amq.rabbitmq.reply-to")),
            "PRECONDITION_FAILED - fast reply consumer does not exist",
            40,
        ),
        "a body larger than allowed": (
            basic_publish(1, "q") + content_header(1, 1001) + bodies(1, bytes(1001), 100),
            TOO_LARGE.format(1001),
            40,
        ),
        "a body larger than can be": (
            basic_publish(1, "q") + content_header(1, 2**64 - 1) + bodies(1, bytes(10)),
            TOO_LARGE.format(2**64 - 1),
            40,
        ),
    }


@pytest.mark.parametrize("name", faults_of_a_channel())
def test_a_fault_of_one_channel_leaves_the_others_alone(name):
    data, text, method_id = faults_of_a_channel()[name]
    engine = make_engine()
    engine.connections.message_bytes_max = 1000
    queue = engine.queue(0, "q", False)
    peer = Peer(engine, {"q": queue}, channels=(1, 2))
    peer.connection.user_id = b"me"
    peer.feed(basic_publish(2, "q"))
    peer.feed(data + publish(1, "q", b"ignored") + FLOW + ack(1, 9))
    ((channel, fault),) = peer.session.faults
    assert (channel, str(fault)) == (1, text)
    assert (fault.class_id, fault.method_id) == (60, method_id)
    assert not fault.closes_connection
    assert peer.session.methods == []
    peer.feed(content_header(2, 4) + bodies(2, b"fine"))
    assert peer.drain(queue) == [b"fine"]
    # Only after close-ok the number is free again.
    peer.feed(frame(frames.METHOD, 1, CHANNEL_CLOSE_OK) + method(1, frames.CHANNEL, 10, b"\x00"))
    peer.feed(publish(1, "q", b"again"))
    peer.channels[1] = peer.connection.channels[1]
    assert peer.drain(queue) == [b"again"]
    assert len(peer.faults) == 1


def test_immediate_is_refused_before_the_exchange_is_asked_for():
    peer = Peer(make_engine())
    peer.feed(publish(1, "q", b"x", exchange="none", immediate=True))
    assert peer.faults == [(1, 540)]
    assert peer.session.asked == []


def test_a_refused_channel_gives_back_what_it_has():
    engine = make_engine()
    queue = engine.queue(0, "q", False)
    peer, other = Peer(engine, {"q": queue}), Peer(engine, {"q": queue})
    peer.feed(publish(1, "q", b"a") + publish(1, "q", b"b"))
    peer.channel.consume(queue, "c", False, 0, 0)
    assert len(peer.deliveries()) == 2
    peer.feed(ack(1, 9))
    assert queue.consumer_count == 0
    assert [(got.body, got.redelivered) for got in iter(lambda: other.get(queue), None)] == [
        (b"a", True),
        (b"b", True),
    ]


def test_defects_cost_one_connection():
    engine = make_engine()
    queue = engine.queue(0, "q", False)
    peer, other = Peer(engine, {"q": queue}), Peer(engine, {"q": queue})

    def fail(channel: int) -> None:
        raise RuntimeError("a mistake of ours")

    peer.session.on[frames.CHANNEL, 20] = fail
    peer.feed(FLOW + publish(1, "q", b"never"))
    assert [str(error) for error in peer.session.defects] == ["a mistake of ours"]
    other.feed(publish(1, "q", b"x"))
    assert queue.ready_count == 1
