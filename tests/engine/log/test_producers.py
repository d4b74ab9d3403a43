"""Producers: what is published again is left out, also after restarts and crashes."""

from __future__ import annotations

import pytest
from tests.engine.frames import PERSISTENT
from tests.engine.restarts import Broker
from tests.engine.stream_world import STREAM, World

REFERENCE = b"query/0"


def produce(world: World | Broker, *sequences: int, reference: bytes = REFERENCE) -> list[bool]:
    target = world.stream if isinstance(world, World) else world.queues["q"]
    return [
        world.engine.publish([target], "", "s", PERSISTENT, b"%d" % number, reference, number)
        for number in sequences
    ]


def test_a_repetition_is_left_out():
    world = World()
    assert produce(world, 0, 1, 1, 0, 2) == [True, True, False, False, True]
    assert produce(world, 0, reference=b"another") == [True]
    world.sync()
    assert list(world.read().values()) == [b"0", b"1", b"2", b"0"]


@pytest.mark.parametrize("others", [0, 300])
def test_it_is_known_after_a_restart_and_after_its_segment_has_gone(others):
    world = World(segment_bytes=4096, max_bytes=4096)
    produce(world, 0, 5)
    world.sync()
    for _ in range(others):
        world.send(bytes(200))
        world.sync()
    assert bool(others) == (world.stream.first > 0)
    world.restart()
    assert world.stream.producers.next_sequence(REFERENCE) == 6
    assert produce(world, 4, 5, 6) == [False, False, True]


def test_a_queue_knows_too_although_its_messages_have_gone():
    broker = Broker()
    assert produce(broker, 0, 1, 1) == [True, True, False]
    for number in range(60):
        broker.send("q", b"%d" % number + bytes(200))
        broker.disk.sync(broker.engine)
    broker.peer.drain(broker.queues["q"])
    broker.disk.settle(broker.engine)
    assert 1 not in [segment.number for segment in broker.engine.logs.segments]
    broker.restart()
    assert produce(broker, 1, 2) == [False, True]


def test_each_log_leaves_out_what_it_has():
    """A stream that was bound after the first attempt gets what the others have already."""
    world = World()
    queue = world.engine.queue(1, "q", True)
    more = world.engine.stream(STREAM + 1, "more")
    arguments = ("", "k", PERSISTENT, b"x", REFERENCE, 0)
    assert world.engine.publish([queue, world.stream], *arguments)
    assert world.engine.publish([queue, world.stream, more], *arguments)
    assert not world.engine.publish([queue, world.stream, more], *arguments)
    assert queue.ready_count == world.stream.next_offset == more.next_offset == 1


def test_what_a_crash_took_may_come_again():
    world = World(segment_bytes=4096)
    produce(world, *range(3))
    world.sync()
    produce(world, *range(3, 40))
    assert world.disk.begin(world.engine)
    ((_, writes, _),) = world.disk.stream_work
    for cut in range(0, sum(len(data) for *_, data in writes), 37):
        left = world.disk.copy()
        room = cut
        for number, size, offset, data in writes:
            part = data[:room]
            room -= len(part)
            if part:
                file = left.streams[STREAM].get(number, bytes(size))
                left.streams[STREAM][number] = file[:offset] + part + file[offset + len(part) :]
        again = World(segment_bytes=4096)
        again.restart(left)
        produce(again, *range(40))
        again.sync()
        assert list(again.read().values()) == [b"%d" % number for number in range(40)]


def test_a_power_cut_that_keeps_later_sectors_loses_and_doubles_nothing():
    world = World(segment_bytes=4096)
    produce(world, *range(3))
    world.sync()
    produce(world, *range(3, 40))
    before = world.disk.copy()
    world.sync()
    for number, file in world.disk.streams[STREAM].items():
        old = before.streams[STREAM].get(number, bytes(len(file)))
        for at in range(0, len(file), 512):
            left = world.disk.copy()
            left.streams[STREAM][number] = file[:at] + old[at : at + 512] + file[at + 512 :]
            again = World(segment_bytes=4096)
            again.restart(left)
            produce(again, *range(40))
            again.sync()
            assert list(again.read().values()) == [b"%d" % body for body in range(40)], at


def test_there_is_a_limit_and_the_oldest_is_forgotten():
    world = World()
    for number in range(1001):
        produce(world, 7, reference=b"%d" % number)
    assert len(world.stream.producers) == 1000
    assert produce(world, 7, reference=b"0") == [True]
    assert produce(world, 7, reference=b"1000") == [False]


def test_a_reference_has_a_limit():
    world = World()
    with pytest.raises(ValueError, match="at most 255"):
        produce(world, 1, reference=bytes(256))
    assert world.stream.next_offset == 0
