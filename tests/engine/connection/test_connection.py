"""Frames in, cut anywhere and interleaved; methods out; how a connection begins and ends."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

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
from tests.engine.session_fake import Peer, make_engine

from leporid.amqp.errors import FrameError

FLOW = method(1, frames.CHANNEL, 20, b"\x01")
HEARTBEAT = frame(frames.HEARTBEAT, 0, b"")
RICH = properties(
    headers=frames.table(
        text=frames.longstr("x" * 20),
        list=frames.array(b"t\x01", b"I\x00\x00\x00\x05", b"V"),
        nested=b"F" + frames.table(deep=b"d" + bytes(8)),
    ),
    delivery_mode=1,
    priority=9,
    message_id="number one",
    timestamp=1_700_000_000,
)
INTERLEAVED = b"".join(
    [
        basic_publish(1, "q"),
        basic_publish(2, "q"),
        content_header(2, 4),
        HEARTBEAT,
        content_header(1, 6, RICH),
        bodies(1, b"one"),
        bodies(2, b"2222"),
        method(3, frames.CHANNEL, 20, b"\x00"),
        bodies(1, b"ONE"),
    ]
)
STREAMS = {
    "a message": publish(1, "q", b"body", raw=RICH),
    "without a body": publish(1, "q") + publish(1, "q", b"x"),
    "many body frames": publish(1, "q", bytes(range(40)), step=7),
    "an empty body frame": basic_publish(1, "q")
    + content_header(1, 3)
    + frame(frames.BODY, 1, b"")
    + bodies(1, b"abc"),
    "interleaved channels": INTERLEAVED,
    "methods and messages": FLOW + publish(1, "q", b"a") + FLOW + publish(2, "q", b"b") + HEARTBEAT,
    "returned": publish(1, "gone", b"back", mandatory=True) + publish(1, "gone", b"lost"),
    "a fault of one channel": publish(1, "q", b"x", exchange="none")
    + publish(1, "q", b"ignored")
    + publish(2, "q", b"counts"),
    "a method of a server": method(
        1, frames.BASIC, 60, b"\x01c" + struct.pack(">Q", 1) + b"\x00\x00\x00"
    )
    + content_header(1, 2)
    + bodies(1, b"??")
    + publish(1, "q", b"after"),
    "a frame error": publish(1, "q", b"x") + frame(9, 1, b"?") + publish(1, "q", b"never"),
}


def outcome(chunks: Iterator[bytes]) -> tuple[Any, ...]:
    """All that can be seen of what a peer sent."""
    engine = make_engine()
    queue = engine.queue(0, "q", False)
    peer = Peer(engine, {"q": queue}, channels=(1, 2, 3), greet=False)
    peer.connection.output.frame_max = 4096
    for chunk in chunks:
        peer.feed(chunk)
    session = peer.session
    assert not session.defects
    events = peer.events()
    reader = Peer(engine)
    return (
        session.greetings,
        session.methods,
        [
            (channel, str(fault), fault.class_id, fault.method_id)
            for channel, fault in session.faults
        ],
        session.contents,
        events,
        [(got.raw, got.body) for got in iter(lambda: reader.get(queue), None)],
        peer.connection.received_bytes,
    )


# ------------------------------------------------------------------ cut anywhere


@pytest.mark.parametrize("name", STREAMS)
def test_bytes_one_by_one_mean_what_they_mean_together(name):
    stream = frames.HEADER + STREAMS[name]
    whole = outcome(iter([stream]))
    assert outcome(bytes((byte,)) for byte in stream) == whole


@pytest.mark.parametrize("name", STREAMS)
def test_a_cut_anywhere_changes_nothing(name):
    stream = frames.HEADER + STREAMS[name]
    whole = outcome(iter([stream]))
    for at in range(1, len(stream)):
        assert outcome(iter([stream[:at], stream[at:]])) == whole, at


@pytest.mark.parametrize("name", [name for name in STREAMS if "frame error" not in name])
def test_trailing_bytes_wait(name):
    stream = frames.HEADER + STREAMS[name]
    *whole, received = outcome(iter([stream]))
    for trail in (b"\x01", FLOW[:-1], basic_publish(3, "q"), publish(3, "q", b"x")[:-1]):
        *found, all_received = outcome(iter([stream + trail]))
        assert found == whole
        assert all_received == received + len(trail)


def test_the_largest_message_in_three_frames_waits_for_its_last_octet():
    """The input buffer has room for all of it, as large as each frame is tolerated."""
    frame_max = 131072
    engine = make_engine()
    queue = engine.queue(0, "q", False)
    peer = Peer(engine, {"q": queue}, frame_max=frame_max)
    empty = properties(headers=frames.table(filler=frames.longstr("")))
    filler = "f" * (frame_max - 12 - len(empty))
    raw = properties(headers=frames.table(filler=frames.longstr(filler)))
    message = publish(1, "q", bytes(frame_max), raw=raw)
    assert len(message) == len(basic_publish(1, "q")) + 2 * (frame_max + 8)
    peer.feed(message[:-1])
    assert queue.ready_count == 0
    peer.feed(message[-1:])
    assert (queue.ready_count, peer.session.faults) == (1, [])


def test_what_the_server_calls():
    engine = make_engine()
    queue = engine.queue(0, "q", False)
    peer = Peer(engine, {"q": queue})
    stream = publish(1, "q", bytes(1000)) * 300
    engine.clock.now_ms = 5000
    while stream:
        view = peer.connection.read_view()
        count = min(len(view), len(stream), 1500)
        view[:count] = stream[:count]
        view.release()
        peer.connection.received(count)
        stream = stream[count:]
    assert queue.ready_count == 300
    assert peer.connection.last_received_ms == 5000
    peer.connection.read_view().release()
    peer.connection.received(0)
    assert queue.ready_count == 300


# ------------------------------------------------------------------ the protocol header


def test_a_header_is_greeted_once():
    engine = make_engine()
    for header in (b"AMQP\x00\x00\x09\x01", b"AMQP\x01\x01\x00\x09"):
        peer = Peer(engine, greet=False)
        peer.feed(header[:7])
        assert peer.session.greetings == 0
        peer.feed(header[7:] + FLOW)
        assert peer.session.greetings == 1
        assert peer.session.methods == [(1, FLOW[7:-1])]


@pytest.mark.parametrize(
    "header", [b"AMQP\x00\x01\x00\x00", b"AMQP\x00\x00\x09\x02", b"GET / HT", bytes(8), b"\xff" * 8]
)
def test_another_header_is_answered_with_ours(header):
    peer = Peer(make_engine(), greet=False)
    peer.feed(header + FLOW)
    assert peer.connection.finished
    assert not peer.connection.reading
    assert peer.take() == frames.HEADER
    assert peer.session.greetings == 0
    assert peer.session.strangers == [header]
    assert peer.session.methods == []


def test_properties_of_all_kinds_are_delivered_as_they_came():
    values = frames.table(
        **{
            letter: letter.encode() + bytes(size)
            for letter, size in zip(
                "tbBsuIifDlLdTV", (1, 1, 1, 2, 2, 4, 4, 4, 5, 8, 8, 8, 8, 0), strict=True
            )
        },
        x=b"x\x00\x00\x00\x02\xff\xfe",
        S=frames.longstr(b"\xff not UTF-8"),
        F=b"F" + frames.table(a=b"V"),
        A=frames.array(b"V", frames.array(), b"F" + frames.table()),
    )
    raw = struct.pack(">H", 0xFFFC) + b"".join(
        [
            b"\x04text",
            b"\x00",
            values,
            b"\x02",
            b"\x05",
            b"\x01c",
            b"\x01r",
            b"\x0560000",
            b"\x01m",
            bytes(8),
            b"\x01t",
            b"\x00",
            b"\x01a",
            b"\x01z",
        ]
    )
    engine = make_engine()
    queue = engine.queue(0, "q", False)
    peer = Peer(engine, {"q": queue})
    peer.feed(publish(1, "q", b"x", raw=raw))
    got = peer.get(queue)
    assert got is not None
    assert got.raw == raw


# ------------------------------------------------------------------ endings


def test_after_shut_only_the_connections_own_methods_are_heard():
    engine = make_engine()
    queue = engine.queue(0, "q", False)
    peer = Peer(engine, {"q": queue})
    peer.feed(publish(1, "q", b"a"))
    assert peer.channel.get(queue, False)
    peer.connection.shut()
    assert queue.ready_count == 1
    close_ok = method(0, frames.CONNECTION, 51)
    peer.feed(FLOW + publish(1, "q", b"x") + bodies(5, b"x") + ack(1, 77) + close_ok)
    assert peer.session.methods == [(0, close_ok[7:-1])]
    assert peer.faults == []
    assert queue.ready_count == 1


def test_after_finish_nothing_is_heard():
    engine = make_engine()
    peer = Peer(engine)
    peer.connection.send(1, b"last")
    peer.connection.finish()
    peer.feed(FLOW + b"garbage")
    assert not peer.connection.reading
    assert peer.session.methods == []
    assert peer.connection in engine.connections.take_touched()
    assert peer.take() == frame(frames.METHOD, 1, b"last")


def test_lost_is_said_once_and_gives_everything_back():
    engine = make_engine()
    queue = engine.queue(0, "q", False)
    peer = Peer(engine, {"q": queue})
    peer.feed(publish(1, "q", b"a") + basic_publish(1, "q"))
    peer.channel.consume(queue, "c", False, 0, 0)
    engine.run()
    peer.connection.lost()
    peer.connection.lost()
    assert peer.session.losses == 1
    assert (queue.ready_count, queue.unacked_count, queue.consumer_count) == (1, 0, 0)
    assert peer.connection.is_lost
    assert not peer.connection.reading
    assert peer.connection.channels == {}


def test_a_method_and_a_method_with_content(peer):
    peer.connection.send(1, b"\x00\x14\x00\x0b\x00\x00\x00\x00")
    peer.connection.output.frame_max = 4096
    peer.connection.send_content(
        2, b"\x00\x3c\x00\x32\x01\x38\x02no\x00\x01k", frames.PERSISTENT, bytes(5000)
    )
    opened, returned = peer.events()
    assert opened == frames.Method(1, 20, 11, bytes(4))
    assert returned == frames.Returned(2, "", "k", frames.PERSISTENT, bytes(5000), 2, 312, "no")


def test_a_heartbeat(peer):
    peer.connection.send_heartbeat()
    assert peer.take() == frame(frames.HEARTBEAT, 0, b"")


def test_channels_are_known_by_number(peer):
    assert set(peer.connection.channels) == {1, 2}
    assert peer.connection.channels[1] is peer.channel
    assert peer.channel.number == 1
    third = peer.connection.open_channel(3)
    assert peer.connection.channels[3] is third
    peer.connection.refuse_channel(3)
    assert third.closing
    assert third.closed
    assert peer.connection.channels[3] is third
    peer.connection.close_channel(3)
    assert 3 not in peer.connection.channels
    peer.connection.refuse_channel(9)
    peer.connection.close_channel(9)


def test_nothing_is_sent_to_one_that_is_lost(peer):
    peer.connection.lost()
    peer.connection.send(1, b"1234")
    assert peer.take() == b""


def test_the_output_of_one_that_is_lost_goes_at_once(peer):
    peer.connection.send(1, bytes(100_000))
    assert peer.connection.output.pending_bytes > 100_000
    peer.connection.lost()
    assert peer.connection.output.pending_bytes == 0
    assert peer.connection.output.outgoing() is None


def test_who_sends_more_than_it_may_is_ended(peer):
    said = peer.connection.received_bytes
    peer.connection.received_max = said + len(HEARTBEAT)
    peer.feed(HEARTBEAT[:-1])
    peer.feed(HEARTBEAT[-1:])
    assert not peer.connection.finished
    peer.feed(HEARTBEAT[:1])
    assert peer.connection.finished
    ((_, fault),) = peer.session.faults
    assert isinstance(fault, FrameError)
    assert f"more than {said + len(HEARTBEAT)} bytes" in fault.text


def test_what_was_received_may_end_its_own_limit(peer):
    def unlimited(_: int) -> None:
        peer.connection.received_max = 0

    peer.connection.received_max = peer.connection.received_bytes + 1
    peer.session.on[(frames.CHANNEL, 20)] = unlimited
    peer.feed(FLOW + HEARTBEAT * 1000)
    assert not peer.connection.finished
