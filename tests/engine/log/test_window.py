"""Windows: what those of streams and of queues have in common."""

from __future__ import annotations

import pytest
from tests.engine.stream_world import World, numbered

from leporid.engine.log.window import Window


def test_a_window_closes_with_its_block():
    world = World()
    world.send(*numbered(3))
    world.sync()
    with world.stream.window(0, 3, 10, 10_000) as window:
        assert isinstance(window, Window)
        assert (window.first, window.end, window.rows) == (0, 3, 3)
        # Retention may not drop a segment that somebody reads.
        assert "3" in repr(window)


def test_an_empty_window_is_of_no_use():
    with pytest.raises(NotImplementedError):
        Window().close()
