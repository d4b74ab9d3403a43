"""Consumers of streams: credit, pace, and what an ack means."""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine import frames
from tests.engine.frames import ack, nack, publish, reject
from tests.engine.session_fake import Peer
from tests.engine.slices import ended
from tests.engine.stream_world import World, numbered, offset_of

from leporid.amqp.errors import NotImplementedFault


def reader_of(world: World, prefetch: int, offset: int = 0, channel: int = 1):
    peer = Peer(world.engine, {"s": world.stream}, channels=(channel,))
    return peer, peer.channels[channel].consume_stream(world.stream, "r", prefetch, offset)


def field(name: str, value: bytes) -> bytes:
    """One header: its name, and its value with the letter of its type."""
    return bytes([len(name)]) + name.encode() + value


def test_it_gets_as_many_as_it_has_credit_for_and_an_ack_gives_more():
    world = World()
    world.send(*numbered(10))
    world.sync()
    peer, reader = reader_of(world, 3)
    assert peer.bodies() == [b"0", b"1", b"2"]
    assert peer.bodies() == []
    peer.feed(ack(1, 2, multiple=True))
    assert peer.bodies() == [b"3", b"4"]
    peer.feed(ack(1, 3))
    assert peer.bodies() == [b"5"]
    assert (reader.offset, reader.settled_offset) == (6, 3)
    peer.feed(ack(1, 0, multiple=True))
    assert reader.settled_offset == 6


@pytest.mark.parametrize(
    ("refusal", "more", "settled"),
    [
        (nack(1, 2, multiple=True, requeue=False), [b"2", b"3"], 2),
        (reject(1, 1, requeue=False), [b"2"], 1),
        (nack(1, 1), [b"2"], 0),
        (nack(1, 0, multiple=True), [b"2", b"3"], 0),
        (ack(1, 1) + reject(1, 2), [b"2", b"3"], 1),
        (reject(1, 2) + reject(1, 1), [b"2", b"3"], 0),
        (reject(1, 2) + ack(1, 1), [b"2", b"3"], 1),
    ],
)
def test_what_is_refused_gives_credit_and_does_not_come_again(refusal, more, settled):
    world = World()
    world.send(*numbered(6))
    world.sync()
    peer, reader = reader_of(world, 2)
    assert len(peer.bodies()) == 2
    peer.feed(refusal)
    assert peer.bodies() == more
    assert reader.settled_offset == settled
    peer.feed(ack(1, 0, multiple=True))
    assert peer.bodies() == [str(at).encode() for at in range(2 + len(more), 6)][:2]
    peer.feed(ack(1, 0, multiple=True))
    assert not reader.has_unsettled
    # What was to be read again is, by who comes next in that name; what was dropped is not.
    again = refusal not in (nack(1, 2, multiple=True, requeue=False), reject(1, 1, requeue=False))
    assert reader.settled_offset == (settled if again else reader.offset)
    assert not peer.session.faults


def test_what_a_stream_sent_is_not_sent_again():
    world = World()
    world.send(*numbered(4))
    world.sync()
    peer, reader = reader_of(world, 2)
    ended(peer.channels[1].recovering())
    assert len(peer.bodies()) == 2
    with pytest.raises(NotImplementedFault, match=r"basic\.recover not supported by stream queues"):
        ended(peer.channels[1].recovering())
    assert reader.settled_offset == 0


def test_other_queues_of_the_channel_take_back_as_ever():
    world = World()
    queue = world.engine.queue(0, "q", False)
    peer = Peer(world.engine, {"s": world.stream, "q": queue}, channels=(1,))
    peer.feed(publish(1, "q", b"1"))
    peer.channels[1].consume(queue, "t", False, 0, 1)
    assert peer.bodies() == [b"1"]
    peer.channels[1].consume_stream(world.stream, "r", 1, 0)
    peer.feed(nack(1, 1))
    assert peer.bodies() == [b"1"]
    ended(peer.channels[1].recovering())
    assert peer.bodies() == [b"1"]


def test_an_offset_that_is_not_there_yet_is_waited_for():
    world = World()
    world.send(*numbered(3))
    world.sync()
    peer, reader = reader_of(world, 10, 5)
    assert (reader.offset, reader.settled_offset) == (5, 5)
    assert peer.bodies() == []
    world.send(*numbered(4, start=3))
    world.sync()
    assert peer.bodies() == [b"5", b"6"]
    assert (reader.offset, reader.settled_offset) == (7, 5)


def test_readers_go_at_their_own_pace():
    world = World(segment_bytes=4096)
    world.send(*numbered(200, size=100))
    world.sync()
    slow, _ = reader_of(world, 1)
    fast, _ = reader_of(world, 1000)
    late, _ = reader_of(world, 1000, 150)
    assert len(slow.bodies()) == 1
    assert len(fast.bodies()) == 200
    assert [offset_of(event.raw) for event in late.deliveries()] == list(range(150, 200))
    world.send(b"new")
    world.sync()
    assert fast.bodies() == late.bodies() == [b"new"]
    assert slow.bodies() == []


def test_a_reader_of_what_is_next_gets_what_comes():
    world = World()
    world.send(b"old")
    world.sync()
    world.send(b"appended before it came, synced after")
    peer, _ = reader_of(world, 10, world.stream.next_offset)
    world.send(b"new")
    world.sync()
    assert peer.bodies() == [b"new"]


def test_a_reader_waits_at_the_end_of_an_empty_stream():
    world = World()
    peer, _ = reader_of(world, 10)
    assert peer.bodies() == []
    world.send(b"first")
    # Somebody reads: it is not kept waiting for the idle sync.
    assert world.engine.logs.awaited  # noqa: PGH005
    world.sync()
    assert peer.bodies() == [b"first"]


def test_a_cancelled_reader_gets_nothing_more():
    world = World()
    world.send(*numbered(4))
    world.sync()
    peer, reader = reader_of(world, 2)
    assert len(peer.bodies()) == 2
    peer.channels[1].cancel(reader)
    peer.feed(ack(1, 0, multiple=True))
    assert peer.bodies() == []
    assert world.stream.consumer_count == 0


def test_a_channel_that_closes_leaves_the_stream_as_it_is():
    world = World()
    world.send(*numbered(4))
    world.sync()
    peer, _ = reader_of(world, 4)
    assert len(peer.bodies()) == 4
    peer.connection.close_channel(1)
    assert world.stream.consumer_count == 0
    assert len(world.read()) == 4


def test_who_is_told_of_a_lost_connection_can_see_what_was_settled():
    world = World()
    world.send(*numbered(4))
    world.sync()
    peer, reader = reader_of(world, 3)
    assert len(peer.bodies()) == 3
    peer.feed(ack(1, 1))
    settled: list[int] = []
    peer.session.on_lost = lambda: settled.append(reader.settled_offset)
    peer.connection.lost()
    assert settled == [1]
    assert world.stream.consumer_count == 0


def test_the_limit_of_the_channel_counts():
    world = World()
    world.send(*numbered(10))
    world.sync()
    peer, _ = reader_of(world, 8)
    peer.channels[1].prefetch_global = 2
    assert len(peer.bodies()) == 2
    peer.feed(ack(1, 1))
    assert len(peer.bodies()) == 1


def test_a_peer_that_does_not_read_gets_no_more_than_its_output_holds():
    world = World()
    world.send(*numbered(300, size=10_000))
    world.sync()
    peer, reader = reader_of(world, 60_000)
    world.engine.run()
    assert peer.connection.output.pending_bytes < 1_000_000
    assert reader.offset < 100
    found = len(list(frames.events_of(peer.take(), 131072)))
    while bodies := peer.bodies():
        found += len(bodies)
    assert found == 300


@pytest.mark.parametrize(
    "table",
    [
        field("x-stream-offset", b"S\0\0\0\4mine") + field("k", b"t\1"),
        field("k", b"t\1") + field("x-stream-offset", b"l" + bytes(8)),
        2 * field("x-stream-offset", b"V") + field("k", b"t\1") + field("x-stream-offset", b"t\1"),
    ],
)
def test_the_offset_is_ours_whatever_the_publisher_wrote(table: bytes):
    world = World()
    # content-type, headers, delivery-mode
    head, tail = b"\xb0\x00\x02ab", b"\x02"
    raw = head + len(table).to_bytes(4, "big") + table + tail
    world.peer.feed(publish(1, "s", b"body", raw=raw))
    world.sync()
    peer, _ = reader_of(world, 1)
    (event,) = peer.deliveries()
    ours = field("x-stream-offset", b"l" + bytes(8)) + field("k", b"t\1")
    assert event.raw == head + len(ours).to_bytes(4, "big") + ours + tail
    assert event.body == b"body"


class Ack(NamedTuple):
    """What a client does next: settle the unsettled delivery at this place of all, or those up to
    it."""

    at: int
    multiple: bool


class Ask(NamedTuple):
    """Ask where a reader is."""

    reader: int


class Send(NamedTuple):
    """A message for each of the readers."""


STEPS = st.one_of(
    st.builds(Ack, st.integers(0, 30), st.booleans()),
    st.builds(Ask, st.integers(0, 2)),
    st.just(Send()),
)


@given(st.lists(STEPS, max_size=60))
def test_where_several_readers_of_one_channel_are(steps: list[Ack | Ask | Send]):
    """Below the first of its own deliveries that is not settled, whatever others have, and whenever
    that is asked."""
    world = World()
    peer = Peer(world.engine, {"s": world.stream})
    readers = [peer.channel.consume_stream(world.stream, f"r{at}", 0, 0) for at in range(3)]
    unsettled: dict[int, tuple[int, int]] = {}  # by tag: the reader, and the offset
    for step in steps:
        if isinstance(step, Send):
            world.send(b"m")
            world.sync()
            for event in peer.deliveries():
                unsettled[event.tag] = int(event.consumer[1:]), offset_of(event.raw)
        elif isinstance(step, Ack) and unsettled:
            tags = sorted(unsettled)
            at = step.at % len(tags)
            peer.feed(ack(1, tags[at], multiple=step.multiple))
            for tag in tags[: at + 1] if step.multiple else [tags[at]]:
                del unsettled[tag]
        elif isinstance(step, Ask):
            offsets = [offset for reader, offset in unsettled.values() if reader == step.reader]
            reader = readers[step.reader]
            assert reader.settled_offset == min(offsets, default=world.stream.end)
            assert reader.has_unsettled == bool(offsets)
