"""Windows: ranges of a stream that stay in memory."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.engine.stream_world import STREAM, World, numbered

from leporid.engine.stream.window import StreamWindow
from leporid.engine.tables.arrow import columns_of


@settings(max_examples=30)
@given(
    st.lists(st.integers(0, 3000), min_size=1, max_size=60),
    st.integers(1, 20),
    st.integers(1, 8000),
    st.data(),
)
def test_windows_cover_a_range_without_gaps(sizes, rows_max, bytes_max, data):
    world = World(segment_bytes=4096)
    for number, size in enumerate(sizes):
        world.send(bytes(size))
        if number % 5 == 0:
            world.sync()
    world.sync()
    at = first = data.draw(st.integers(0, len(sizes)))
    end = data.draw(st.integers(first, len(sizes)))
    rows = 0
    while at < end:
        with world.stream.window(at, end, rows_max, bytes_max) as window:
            assert window.first == at
            assert 1 <= window.rows <= rows_max
            assert window.rows == 1 or window.bytes <= bytes_max
            assert not window.lost
            rows += window.rows
            at = window.end
    assert (at, rows) == (end, end - first)


def offsets_in(window: StreamWindow) -> list[int]:
    rows, ((_, (_, values), _),) = columns_of(window, ["offset"], stream="s")
    assert values is not None
    found = list(memoryview(values).cast("q"))
    assert len(found) == rows == window.rows
    return found


@pytest.fixture(scope="module")
def long() -> World:
    """Thousands of messages in a few segments, with facts of syncs between them."""
    world = World(segment_bytes=200_000)
    for number in range(5000):
        world.send(b"%d" % number)
        if number % 97 == 0:
            world.sync()
    world.sync()
    return world


@settings(max_examples=50)
@given(st.data())
def test_a_window_counts_the_messages_it_did_not_look_at(long, data):
    first = data.draw(st.integers(0, 5000))
    end = data.draw(st.integers(first, 5000))
    rows_max = data.draw(st.integers(1, 6000))
    bytes_max = data.draw(st.sampled_from([1, 5000, 100_000, 10**7]))
    with long.stream.window(first, end, rows_max, bytes_max) as window:
        assert offsets_in(window) == list(range(first, window.end))
        assert window.rows <= rows_max
        if bytes_max == 10**7:
            assert window.rows == min(rows_max, end - first)
        else:
            assert window.rows <= 1 or window.bytes <= bytes_max


def test_a_window_over_damage_has_what_is_left():
    world = World(segment_bytes=200_000)
    for number in range(2000):
        world.send(b"%d." % number)
        if number % 97 == 0:
            world.sync()
    world.sync()
    (number, file), *_ = world.disk.streams[STREAM].items()
    at = file.index(b"700.")
    world.disk.streams[STREAM][number] = file[:at] + b"#" + file[at + 1 :]
    world.restart()
    with world.stream.window(300, 1200, 10_000, 10**7) as window:
        assert window.lost == [(700, 701)]
        assert offsets_in(window) == [*range(300, 700), *range(701, 1200)]


def test_a_window_beyond_the_stream_is_refused():
    world = World()
    world.send(b"a")
    world.sync()
    world.send(b"not synced")
    for first, end in ((0, 2), (2, 2), (1, 0)):
        with pytest.raises(ValueError, match="offsets 0 to 1"):
            world.stream.window(first, end, 1, 1)


def test_what_a_window_shows_outlives_retention_and_mapping():
    world = World(segment_bytes=4096, max_bytes=4096)
    world.send(*numbered(5, size=100))
    world.sync()
    with world.stream.window(0, 5, 100, 10**6):
        for number in range(60):
            world.send(b"%d" % number + bytes(400))
            world.sync()
        assert world.stream.first == 0
        assert (oldest := world.stream.log.segments[0]) is not None
        assert not oldest.mapped
    world.engine.clock.now_ms += 1000  # retention looks once a second, and when a segment is full
    world.engine.run()
    assert world.stream.first > 0


def test_a_segment_that_was_read_while_others_were_mapped_is_mapped_later():
    world = World(segment_bytes=4096)
    world.send(*numbered(5, size=100))
    world.sync()
    with world.stream.window(0, 5, 100, 10**6):
        for number in range(30):
            world.send(b"%d" % number + bytes(400))
            world.sync()
        oldest, second = world.stream.log.segments[:2]
        assert oldest is not None
        assert second is not None
        assert (oldest.mapped, second.mapped) == (False, True)
    world.send(b"x")
    world.sync()
    assert oldest.mapped
