"""Streams with very many readers, and very many streams: no turn does everything."""

from __future__ import annotations

import pytest
from tests.engine.disk_fake import Disk
from tests.engine.frames import PERSISTENT, publish
from tests.engine.session_fake import Peer, make_engine
from tests.engine.slices import SOME, cut_often, steps_of, turns
from tests.engine.stream_world import World, numbered

READERS = 700


def reading(world: World, readers: int, peers: int = 2, prefetch: int = 0) -> list[Peer]:
    """Clients that read from the first message on, some consumers each."""
    found = [Peer(world.engine, {"s": world.stream}) for _ in range(peers)]
    for number in range(readers):
        found[number % peers].channel.consume_stream(world.stream, f"r{number}", prefetch, 0)
    return found


def test_a_message_comes_to_very_many_readers_over_many_turns():
    world = World()
    peers = reading(world, READERS)
    world.engine.run()
    world.send(b"m")
    world.disk.sync(world.engine)
    cut_often(world.engine)
    steps = steps_of(world.engine, lambda: world.stream.delivered)
    assert sum(steps) == READERS
    assert max(steps) <= SOME
    assert [len(peer.bodies()) for peer in peers] == [READERS // 2] * 2


def test_one_reader_gets_very_many_messages_over_many_turns():
    world = World()
    world.send(*numbered(2000))
    world.sync()
    (peer,) = reading(world, 1, peers=1)
    cut_often(world.engine)
    steps = steps_of(world.engine, lambda: world.stream.delivered)
    assert (sum(steps), max(steps) <= SOME) == (2000, True)
    assert peer.bodies() == [b"%d" % number for number in range(2000)]


def test_large_messages_count_by_their_bytes():
    world = World()
    world.send(*numbered(40, size=64 * 1024))
    world.sync()
    peers = reading(world, 40, peers=40, prefetch=1)
    cut_often(world.engine)
    steps = steps_of(world.engine, lambda: world.stream.delivered)
    assert (sum(steps), max(steps) <= 20) == (40, True)
    assert [len(peer.bodies()) for peer in peers] == [1] * 40


def test_who_had_a_turn_before_a_message_came_gets_it():
    """Messages come in the middle of a round, whose first readers have had their turn."""
    world = World()
    peers = reading(world, READERS)
    world.engine.run()
    cut_often(world.engine)
    sent = iter([b"1", b"2", b"3"])
    world.send(b"0")
    world.disk.sync(world.engine)
    for _ in turns(world.engine):
        for body in sent:
            world.send(body)
            world.disk.sync(world.engine)
            break
    assert [len(peer.bodies()) for peer in peers] == [4 * READERS // 2] * 2


@pytest.mark.parametrize("leaves", [0, READERS // 2, READERS - 1])
def test_readers_may_come_and_go_in_the_middle_of_a_round(leaves: int):
    world = World()
    peer, other = (Peer(world.engine, {"s": world.stream}) for _ in range(2))
    readers = [
        peer.channel.consume_stream(world.stream, f"r{number}", 0, 0) for number in range(READERS)
    ]
    world.engine.run()
    world.send(b"0")
    world.disk.sync(world.engine)
    cut_often(world.engine)
    world.engine.run()
    assert 0 < world.stream.delivered < READERS
    late = [other.channel.consume_stream(world.stream, f"late{n}", 0, 0) for n in range(3)]
    other.channel.cancel(late[1])
    peer.channel.cancel(readers[leaves])
    for _ in turns(world.engine):
        pass
    assert len(other.bodies()) == 2
    # Who left may have had the message before.
    assert len(peer.bodies()) in (READERS - 1, READERS)


def test_retention_looks_at_very_many_streams_over_many_turns():
    engine, disk = make_engine(), Disk()
    disk.attach(engine)
    streams = [engine.stream(number, f"s{number}") for number in range(1, READERS + 1)]
    peer = Peer(engine, {stream.name: stream for stream in streams})
    for stream in streams:
        stream.set_retention(segment_bytes=4096)
        peer.feed(b"".join(publish(1, stream.name, bytes(3000), raw=PERSISTENT) for _ in range(2)))
    disk.sync(engine)
    assert not any(stream.first for stream in streams)
    for stream in streams:
        stream.set_retention(max_bytes=1, segment_bytes=4096)
    engine.clock.now_ms += 1000
    cut_often(engine)
    steps = steps_of(engine, lambda: sum(stream.first > 0 for stream in streams))
    assert (sum(steps), max(steps) <= SOME) == (READERS, True)
