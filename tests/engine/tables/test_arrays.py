"""Buffers of columns: read only, and there as long as anybody looks."""

import gc

import pytest
from tests.engine.stream_world import World

from leporid.engine.tables.arrays import Buffer
from leporid.engine.tables.arrow import columns_of


def bodies(world: World) -> list[Buffer | None]:
    with world.stream.window(0, world.stream.end, 100, 10**6) as window:
        _, ((_, buffers, _),) = columns_of(window, ["body"], stream="s")
    return buffers


def test_a_buffer_outlives_what_it_was_made_of():
    world = World()
    world.send(b"one", b"two")
    world.sync()
    _, offsets, data = bodies(world)
    assert offsets is not None
    assert data is not None
    view = memoryview(data)
    del world, data
    gc.collect()
    assert bytes(view) == b"onetwo"
    assert memoryview(offsets).tobytes() == b"\0\0\0\0\x03\0\0\0\x06\0\0\0"
    assert len(offsets) == 12


def test_it_cannot_be_written_to():
    world = World()
    world.send(b"one")
    world.sync()
    data = bodies(world)[2]
    assert data is not None
    with pytest.raises(TypeError, match="read-only"):
        memoryview(data)[0] = 1


def test_no_bytes_are_a_buffer_too():
    world = World()
    world.send(b"")
    world.sync()
    data = bodies(world)[2]
    assert data is not None
    assert bytes(memoryview(data)) == b""
