"""The log: segments that fill, are written, are read from their files, and are used again."""

from __future__ import annotations

import pytest
from tests.engine.disk_fake import Disk
from tests.engine.frames import PERSISTENT, publish
from tests.engine.session_fake import Peer, make_engine
from tests.engine.slices import ended

from leporid.engine.log.log import HEADER_BYTES


@pytest.fixture
def durable(engine, peer):
    peer.queues["d"] = queue = engine.queue(1, "d", True)
    return queue


def send(peer: Peer, size: int, count: int = 1) -> None:
    peer.feed(publish(1, "d", b"x" * size, raw=PERSISTENT) * count)


def test_segments_are_numbered_and_filled_one_after_another(engine, durable, peer):
    assert engine.logs.segments == []
    send(peer, 1000, 9)
    assert [segment.number for segment in engine.logs.segments] == [1, 2, 3]
    assert [segment.sealed for segment in engine.logs.segments] == [True, True, False]
    assert [segment.live for segment in engine.logs.segments] == [3, 3, 3]
    for segment in engine.logs.segments:
        assert HEADER_BYTES + 3000 < segment.used <= segment.capacity == 4096
        assert segment.written == 0
    assert engine.logs.durable.bytes == 3 * 4096
    assert engine.logs.durable.active is engine.logs.segments[-1]


def test_a_record_larger_than_a_segment_gets_one_of_its_size(engine, disk, durable, peer):
    for size in (10, 50_000, 3900):
        send(peer, size)
    sizes = [segment.capacity for segment in engine.logs.segments]
    assert sizes[0] == sizes[2] == 4096
    # It has no room for others, but for a fact of a few bytes.
    assert 50_000 < engine.logs.segments[1].used == sizes[1] - 48
    disk.sync(engine)
    assert [len(file) for file in disk.files.values()] == sizes
    assert [len(body) for body in peer.drain(durable)] == [10, 50_000, 3900]


def test_what_is_written_is_what_is_new_and_in_order(engine, durable, peer):
    seen: dict[int, int] = {}
    for _ in range(30):
        send(peer, 700)
        work = engine.begin_sync()
        assert work is not None
        generation, writes, drops, _ = work
        assert drops == []
        assert [write[0] for write in writes] == sorted(write[0] for write in writes)
        for number, size, offset, data in writes:
            assert offset == seen.get(number, 0)
            assert offset % 8 == 0
            seen[number] = offset + len(data)
            assert seen[number] <= size
        engine.end_sync(generation, writes)
    assert seen == {segment.number: segment.used for segment in engine.logs.segments}
    assert all(segment.written == segment.used for segment in engine.logs.segments)


def test_sealed_segments_are_read_from_their_files(engine, disk, durable, peer):
    send(peer, 1000, 8)
    disk.sync(engine)
    assert [segment.mapped for segment in engine.logs.segments] == [True, True, False]
    assert [len(body) for body in peer.drain(durable)] == [1000] * 8


def test_a_large_record_is_read_from_its_file_as_soon_as_it_is_written(engine, disk, durable, peer):
    """Not only when the next record comes: its memory is large."""
    send(peer, 50_000)
    disk.sync(engine)
    assert [segment.mapped for segment in engine.logs.segments] == [True]
    send(peer, 1000)
    assert [segment.mapped for segment in engine.logs.segments] == [True, False]
    assert [len(body) for body in peer.drain(durable)] == [50_000, 1000]


def test_what_comes_while_a_large_record_is_written_is_written_next(engine, disk, durable, peer):
    send(peer, 50_000)
    assert disk.begin(engine)
    send(peer, 3000, 2)
    disk.complete(engine)
    disk.sync(engine)
    assert [segment.written for segment in engine.logs.segments] == [
        segment.used for segment in engine.logs.segments
    ]
    assert [len(body) for body in peer.drain(durable)] == [50_000, 3000, 3000]


def test_without_files_to_map_segments_stay_in_memory(durable, engine, peer):
    disk = Disk()
    send(peer, 1000, 8)
    disk.sync(engine)

    def fail(number: int) -> bytes:
        raise OSError("too many open files")

    engine.logs.map_segment = fail
    send(peer, 1000)
    disk.sync(engine)
    assert not any(segment.mapped for segment in engine.logs.segments)
    assert len(peer.drain(durable)) == 9


def test_a_file_that_is_too_short_is_not_read_from(engine, disk, durable, peer):
    engine.logs.map_segment = lambda number: disk.files[number][:100]
    send(peer, 1000, 8)
    with pytest.raises(ValueError, match="mapping of segment 1 has 100 bytes"):
        disk.sync(engine)


def test_transient_memory_is_used_again(queue, engine, peer):
    consumer = peer.channel.consume(queue, "c", True, 0, 0)
    sizes = set()
    for _ in range(300):
        peer.feed(publish(1, "q", bytes(10_000)) * 3)
        assert len(peer.deliveries()) == 3
        sizes.add(engine.logs.transient.bytes)
    assert max(sizes) <= 4 * 65536
    peer.channel.cancel(consumer)
    assert engine.logs.segments == []


def test_transient_memory_goes_when_a_backlog_does(queue, engine, peer):
    peer.feed(publish(1, "q", bytes(10_000)) * 300)
    assert engine.logs.transient.bytes > 3_000_000
    ended(queue.purging())
    assert engine.logs.transient.bytes <= 6 * 65536
    peer.feed(publish(1, "q", b"x"))
    assert peer.drain(queue) == [b"x"]


def test_the_memory_of_a_large_transient_message_goes_with_it(queue, engine, peer):
    before = engine.logs.transient.bytes
    peer.feed(publish(1, "q", bytes(3_000_000), step=100_000))
    assert engine.logs.transient.bytes > 3_000_000
    got = peer.get(queue)
    assert got is not None
    assert len(got.body) == 3_000_000
    assert engine.logs.transient.bytes == before
    peer.feed(publish(1, "q", b"next"))
    assert peer.drain(queue) == [b"next"]


def test_one_old_message_does_not_keep_the_memory_of_all_that_came_after(queue, engine, peer):
    peer.feed(publish(1, "q", b"old"))
    assert peer.channel.get(queue, False)
    for _ in range(100):
        peer.feed(publish(1, "q", bytes(10_000)) * 10)
        ended(queue.purging())
    assert engine.logs.transient.bytes <= 7 * 65536


def test_a_message_too_large_for_any_segment_goes_when_it_is_done(queue, engine, peer):
    for _ in range(5):
        peer.feed(publish(1, "q", bytes(300_000), step=100_000))
        got = peer.get(queue)
        assert got is not None
        assert len(got.body) == 300_000
    peer.feed(publish(1, "q", b"x"))
    peer.drain(queue)
    assert engine.logs.transient.bytes <= 5 * 65536 + 303_104


def test_what_does_not_last_is_not_written(engine, disk, durable, queue, peer):
    peer.feed(publish(1, "d", b"x") + publish(1, "q", b"x", raw=PERSISTENT))
    assert not engine.logs.dirty
    assert not disk.sync(engine)
    assert engine.logs.segments == []


def test_the_header_says_which_log_it_is():
    files = []
    for seed in (7, 7, 8):
        engine = make_engine() if seed == 7 else type(make_engine())(seed)
        queue = engine.queue(1, "d", True)
        peer = Peer(engine, {"d": queue})
        disk = Disk()
        send(peer, 10)
        disk.sync(engine)
        files.append(disk.files[1][:HEADER_BYTES])
    assert files[0] == files[1] != files[2]
    assert files[0].startswith(b"LEPSEG1\n")
