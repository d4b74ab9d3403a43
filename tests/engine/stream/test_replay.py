"""Streams after a crash, from files that are cut, flipped or missing sectors."""

from __future__ import annotations

import pytest
from tests.engine.stream_world import STREAM, World, numbered


def test_a_cut_write_takes_only_what_nobody_was_told_of():
    world = World(segment_bytes=4096)
    world.send(*numbered(5))
    world.sync()
    world.send(*numbered(30, 5, size=150))
    assert world.disk.begin(world.engine)
    ((_, writes, _),) = world.disk.stream_work
    files = world.disk.streams[STREAM]
    for cut in range(0, sum(len(data) for *_, data in writes), 61):
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
        assert again.stream.end >= 5
        assert again.lost == []
        assert list(again.read()) == list(range(again.stream.end))
        again.send(b"next")
        again.sync()
        assert again.read()[again.stream.end - 1] == b"next"
        again.restart()
        assert again.read()[again.stream.end - 1] == b"next"
    assert files is world.disk.streams[STREAM]


def test_a_sector_that_was_not_written_ends_the_stream_there():
    """Power went: what is behind the loss was never confirmed, and its offsets are given again."""
    world = World(segment_bytes=4096)
    world.send(*numbered(5))
    world.sync()
    world.send(*numbered(30, 5, size=150))
    before = world.disk.copy()
    world.sync()
    after = world.disk.streams[STREAM]
    for number, file in after.items():
        old = before.streams[STREAM].get(number, bytes(len(file)))
        for at in range(0, len(file), 512):
            if file[at : at + 512] == old[at : at + 512]:
                continue
            left = world.disk.copy()
            left.streams[STREAM][number] = file[:at] + old[at : at + 512] + file[at + 512 :]
            again = World(segment_bytes=4096)
            again.restart(left)
            assert again.stream.end >= 5
            assert again.lost == []
            assert list(again.read()) == list(range(again.stream.end))
            again.send(b"next")
            again.sync()
            last = again.stream.end - 1
            assert again.read()[last] == b"next"
            again.restart()
            assert again.stream.end == last + 1
            assert again.read()[last] == b"next"


def test_a_flipped_bit_costs_one_message_and_no_number():
    world = World(segment_bytes=4096)
    for number in range(8):
        world.send(b"%d" % number)
        world.sync()
    (file,) = world.disk.streams[STREAM].values()
    for at in range(64, 1100, 3):
        left = world.disk.copy()
        left.streams[STREAM][1] = file[:at] + bytes([file[at] ^ 4]) + file[at + 1 :]
        again = World(segment_bytes=4096)
        again.restart(left)
        found = again.read()
        missing = set(range(again.stream.end)) - set(found)
        assert len(missing) <= 1
        assert all(found[offset] == b"%d" % offset for offset in found)
        assert again.stream.end >= 7
        if missing - {0} and again.stream.end == 8:
            assert again.lost == [(min(missing), min(missing) + 1)]
            with again.stream.window(0, 8, 100, 10**6) as window:
                assert window.lost == again.lost
                assert window.rows == 7


@pytest.mark.parametrize("syncs", [1, 8])
def test_damage_in_what_was_written_last_costs_no_other_message(syncs):
    """No later sync says that the write had finished, but what is damaged is not unwritten."""
    world = World(segment_bytes=4096)
    for number in range(24):
        world.send(b"%d" % number)
        if number % (24 // syncs) == 24 // syncs - 1:
            world.sync()
    (file,) = world.disk.streams[STREAM].values()
    newest = world.stream.log.active
    assert newest is not None
    for at in range(64, newest.used, 7):
        left = world.disk.copy()
        left.streams[STREAM][1] = file[:at] + bytes([file[at] ^ 4]) + file[at + 1 :]
        again = World(segment_bytes=4096)
        again.restart(left)
        assert again.stream.end == 24
        missing = set(range(again.stream.first, 24)) - set(again.read())
        assert len(missing) <= 1
        assert again.stream.first <= 1
        assert again.lost == [(offset, offset + 1) for offset in missing]


def test_offsets_of_a_newest_segment_that_cannot_be_read_are_not_given_again():
    world = World(segment_bytes=4096)
    world.send(*numbered(60, size=200))
    world.sync()
    newest = max(world.disk.streams[STREAM])
    left = world.disk.copy()
    left.streams[STREAM][newest] = b"garbage" * 100
    again = World(segment_bytes=4096)
    again.missing = True
    again.restart(left)
    assert again.stream.end >= 60
    assert again.stream.next_offset > 60
    again.sync()
    again.missing = False
    end = again.stream.end
    again.restart()
    assert again.stream.end == end
