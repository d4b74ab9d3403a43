"""Streams: offsets, what may be read, finding, retention, and what a crash leaves."""

from __future__ import annotations

import pytest
from tests.engine.frames import PERSISTENT, Confirm, ack, properties, publish
from tests.engine.session_fake import Peer, make_engine
from tests.engine.stream_world import STREAM, World, numbered, offset_of, skipped_in

from leporid.engine.connection.stream_consumer import StreamConsumer
from leporid.engine.engine import Engine


def test_offsets_begin_at_zero_and_are_dense():
    world = World()
    world.send(*numbered(5))
    world.sync()
    world.send(*numbered(5, 5))
    world.sync()
    assert world.read() == {number: b"%d" % number for number in range(10)}
    assert (world.stream.first, world.stream.end, world.stream.ready_count) == (0, 10, 10)


def test_nobody_reads_what_is_not_on_disk():
    world = World()
    world.send(b"a")
    world.sync()
    world.send(b"b")
    assert world.stream.next_offset == 2
    assert world.read() == {0: b"a"}
    world.sync()
    assert world.read() == {0: b"a", 1: b"b"}


def test_it_is_there_after_a_restart():
    world = World(segment_bytes=4096)
    world.send(*numbered(100, size=200))
    world.sync()
    world.restart()
    assert (world.stream.first, world.stream.end) == (0, 100)
    world.send(b"new")
    world.sync()
    assert world.read(99) == {99: b"99" + bytes(200), 100: b"new"}


def test_a_message_goes_to_queues_and_streams_alike():
    world = World()
    queue = world.engine.queue(1, "q", True)
    world.peer.session.caches["e"] = world.engine.route_cache(
        "e", lambda key, raw: [queue, world.stream], True
    )
    world.peer.feed(publish(1, "k", b"both", exchange="e", raw=PERSISTENT))
    world.sync()
    assert world.read() == {0: b"both"}
    assert world.peer.drain(queue) == [b"both"]


def test_a_confirm_waits_for_the_stream():
    world = World()
    world.peer.channel.select_confirm()
    world.peer.feed(publish(1, "s", b"transient, as far as queues go"))
    assert not any(isinstance(event, Confirm) for event in world.peer.events())
    world.sync()
    assert [event.tag for event in world.peer.events() if isinstance(event, Confirm)] == [1]


@pytest.mark.parametrize(
    "raw",
    [
        PERSISTENT,
        properties(),
        properties(delivery_mode=2, priority=3),
        b"\xe0\x00\x02ct\x02ce\x00\x00\x00\x04\x01kt\x01",
    ],
)
def test_the_rest_of_the_properties_is_as_it_was(raw):
    world = World()
    world.peer.feed(publish(1, "s", b"x", raw=raw))
    world.sync()
    reader = Peer(world.engine, {"s": world.stream})
    reader.channel.consume_stream(world.stream, "r", 1, 0)
    world.engine.run()
    (event,) = reader.deliveries()
    found = event.raw
    at = found.index(b"x-stream-offsetl") - 5
    without = found[:at] + found[at + 29 :]
    if raw[0] & 0x20:  # there were headers: their table is longer now, and had a length before
        length = int.from_bytes(found[at : at + 4], "big") - 25
        without = found[:at] + length.to_bytes(4, "big") + found[at + 29 :]
        assert without == raw
        return
    flags = int.from_bytes(without[:2], "big") & ~0x2000
    assert flags.to_bytes(2, "big") + without[2:] == raw


@pytest.mark.parametrize("segment_bytes", [4096, None])
def test_a_time_is_found_exactly(segment_bytes):
    world = World(segment_bytes)
    times = []
    for number in range(700):
        if number % 7 == 0:
            world.engine.clock.wall_ms += number % 3
        times.append(world.engine.clock.wall_ms)
        world.send(b"x" * 50)
    world.sync()
    for wanted in range(times[0] - 1, times[-1] + 2):
        expected = sum(time < wanted for time in times)
        assert world.stream.offset_for(wanted) == expected
    assert world.stream.first_timestamp_ms == times[0]
    assert world.stream.last_timestamp_ms == times[-1]


def test_time_does_not_go_back_in_a_stream():
    world = World()
    world.send(b"a")
    world.engine.clock.wall_ms -= 1000
    world.send(b"b")
    world.sync()
    assert world.stream.offset_for(world.engine.clock.wall_ms + 1000) == 0


def test_an_empty_stream():
    world = World()
    assert (world.stream.first, world.stream.end, world.stream.ready_count) == (0, 0, 0)
    assert world.stream.offset_for(0) == 0
    assert world.stream.first_timestamp_ms is None
    assert world.read() == {}
    world.restart()
    assert world.stream.end == 0


# ------------------------------------------------------------------ retention


def test_whole_segments_go_when_it_is_too_large_and_the_last_stays():
    world = World(segment_bytes=4096, max_bytes=10_000)
    for number in range(60):
        world.send(b"%d" % number + bytes(400))
        world.sync()
    assert world.stream.bytes <= 10_000 + 4096
    assert world.stream.first > 0
    found = world.read()
    assert sorted(found) == list(range(world.stream.first, 60))
    world.sync()
    assert len(world.disk.streams[STREAM]) == len([s for s in world.stream.log.segments if s])
    world.restart()
    assert world.read() == found


def test_old_segments_go_although_nobody_writes():
    world = World(segment_bytes=4096, max_age_ms=60_000)
    world.send(*numbered(40, size=400))
    world.sync()
    world.engine.clock.now_ms += 50_000
    world.engine.clock.wall_ms += 50_000
    world.engine.run()
    assert world.stream.first == 0
    world.engine.clock.now_ms += 20_000
    world.engine.clock.wall_ms += 20_000
    world.engine.run()
    assert 0 < world.stream.first < 40
    world.sync()
    assert len(world.disk.streams[STREAM]) == 1


def test_nothing_goes_that_a_reader_is_on():
    world = World(segment_bytes=4096, max_bytes=5_000)
    world.send(*numbered(3, size=100))
    world.sync()
    slow = Peer(world.engine, {"s": world.stream})
    reader = slow.channel.consume_stream(world.stream, "slow", 1, 0)
    for number in range(60):
        world.send(b"%d" % number + bytes(400))
        world.sync()
    assert world.stream.first == 0
    slow.channel.cancel(reader)
    world.engine.clock.now_ms += 5000
    world.engine.run()
    assert world.stream.first > 0


def slow_world(percent: int = 50, **limits: int) -> tuple[World, Peer, StreamConsumer]:
    """A stream whose only consumer takes one message and settles nothing."""
    world = World(segment_bytes=4096, **limits)
    world.engine.streams.set_hold(percent)
    world.send(*numbered(3, size=100))
    world.sync()
    slow = Peer(world.engine, {"s": world.stream})
    return world, slow, slow.channel.consume_stream(world.stream, "slow", 1, 0)


def test_a_slow_consumer_holds_a_stream_up_to_a_share_of_its_limit():
    world, slow, reader = slow_world(max_bytes=20_000)
    skips: list[tuple[StreamConsumer, int, int]] = []
    world.stream.on_skipped = skips.extend
    assert slow.bodies() == [b"0" + bytes(100)]
    number, largest = 3, 0
    while not world.stream.first:
        assert number < 200, "retention waits for the consumer"
        world.send(b"%d" % number + bytes(400))
        number += 1
        largest = world.stream.bytes
        world.sync()
    # The segment that it reads does not count.
    assert 30_000 < largest <= 30_000 + 2 * 4096
    assert world.stream.bytes <= 20_000
    first = world.stream.first
    assert skips == [(reader, 1, first)]
    assert (reader.offset, reader.skipped, world.engine.streams.skipped_messages) == (
        first,
        first - 1,
        first - 1,
    )
    slow.feed(ack(1, 1))
    (delivery,) = slow.deliveries()
    assert (offset_of(delivery.raw), skipped_in(delivery.raw)) == (first, first - 1)
    assert delivery.body == b"%d" % first + bytes(400)
    # It is told once.
    slow.feed(ack(1, 2))
    (delivery,) = slow.deliveries()
    assert (offset_of(delivery.raw), skipped_in(delivery.raw)) == (first + 1, 0)


def test_a_slow_consumer_holds_a_stream_for_a_share_of_its_age():
    world, _, reader = slow_world(max_age_ms=60_000)
    world.send(*numbered(40, start=3, size=400))
    world.sync()
    for passed_ms, is_held in ((89_000, True), (2_000, False)):
        world.engine.clock.now_ms += passed_ms
        world.engine.clock.wall_ms += passed_ms
        world.engine.run()
        assert (world.stream.first == 0) == is_held
    assert reader.offset == world.stream.first


@pytest.mark.parametrize("percent", [0, 1000])
def test_how_much_a_slow_consumer_holds_can_be_set(percent: int):
    world, _, reader = slow_world(percent, max_bytes=5000)
    for number in range(100):
        world.send(b"%d" % number + bytes(400))
        world.sync()
    assert (world.stream.first, reader.skipped) == (0, 0)


def test_a_hold_of_more_than_ten_times_the_limit_is_refused():
    with pytest.raises(ValueError, match="invalid percentage 1001: it is at most 1000"):
        World().engine.streams.set_hold(1001)


def test_a_consumer_that_waits_for_what_is_to_come_misses_nothing():
    world, _, _ = slow_world(max_bytes=5000)
    later = Peer(world.engine, {"s": world.stream})
    waiting = later.channel.consume_stream(world.stream, "later", 1, 100)
    for number in range(3, 101):
        world.send(b"%d" % number + bytes(400))
        world.sync()
    assert (world.stream.first > 0, waiting.skipped) == (True, 0)
    (delivery,) = later.deliveries()
    assert (offset_of(delivery.raw), skipped_in(delivery.raw)) == (100, 0)


def test_offsets_go_on_after_retention_and_a_restart():
    world = World(segment_bytes=4096, max_bytes=4096)
    world.send(*numbered(100, size=400))
    world.sync()
    world.send(b"last")
    world.sync()
    first = world.stream.first
    assert first > 0
    world.restart()
    assert (world.stream.first, world.stream.end) == (first, 101)


# ------------------------------------------------------------------ the end of one


def test_a_deleted_stream_leaves_nothing():
    world = World()
    world.send(b"a")
    world.sync()
    world.send(b"b")
    assert world.disk.begin(world.engine)
    world.stream.retire()
    world.disk.complete(world.engine)
    world.disk.sync(world.engine)
    assert STREAM not in world.disk.streams


def test_incarnations_differ():
    engine: Engine = make_engine()
    engine.streams.incarnation_prefix = "d1"
    assert engine.stream(5, "s").incarnation == "d1-5"
    assert engine.stream(6, "s").incarnation == "d1-6"
