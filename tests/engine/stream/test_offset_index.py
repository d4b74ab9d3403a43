"""The offset index of a stream, and what is kept about tags."""

from __future__ import annotations

import pytest
from tests.engine.stream_world import World, numbered
from tests.engine.tagged import Wanting, of_tags, send

BATCH = 256


def test_a_stream_without_tags_keeps_nothing_about_them():
    world = World()
    send(world, [{"n": 1}, None] * BATCH)
    world.send(*numbered(BATCH))
    world.sync()
    assert world.stream.offsets.summary_bytes == 0
    world.restart()
    assert world.stream.offsets.summary_bytes == 0


@pytest.mark.parametrize("header", ["x-tag", "x-stream-filter-value"])
def test_at_most_half_a_byte_a_message(header):
    world = World()
    send(world, ({header: f"{number}"} for number in range(40 * BATCH)))
    assert world.stream.offsets.summary_bytes == 40 * BATCH / 2
    world.sync()
    world.restart()
    assert world.stream.offsets.summary_bytes == 40 * BATCH / 2


def test_the_first_tag_may_come_late():
    world = World()
    send(world, [None] * (3 * BATCH + 7))
    send(world, [{"x-tag": "a"}])
    send(world, [None] * BATCH)
    world.sync()
    wanting = Wanting(world, of_tags(b"a"))
    wanting.turns()
    assert wanting.got == [3 * BATCH + 7]
    assert world.stream.filtering == (4, BATCH, 1, 0)


@pytest.mark.parametrize("restarted", [False, True])
def test_as_many_tags_as_messages_leave_most_batches_out(restarted):
    world = World()
    send(world, ({"x-tag": f"tag-{number}"} for number in range(40 * BATCH)))
    world.sync()
    if restarted:
        world.restart()
    wanting = Wanting(world, of_tags(b"tag-5000"))
    wanting.turns()
    assert wanting.got == [5000]
    # One in seven for nothing, on average.
    assert world.stream.filtering[0] > 25


def test_a_tag_that_is_no_text_may_be_equal_to_any():
    world = World()
    send(world, [{"x-tag": 5}])
    send(world, [{"x-tag": "a"}] * (2 * BATCH))
    world.sync()
    wanting = Wanting(world, of_tags(b"b"))
    wanting.turns()
    assert wanting.got == []
    # Only the batch of the 5 is read.
    assert world.stream.filtering[:2] == (2, BATCH)


def test_places_move_when_the_oldest_go():
    world = World(segment_bytes=4096, max_bytes=40_000)
    for turn in range(40):
        send(world, ({"x-tag": f"{turn}"} for _ in range(50)), size=50)
        world.sync()
    assert world.stream.first > 0
    for turn in (38, 39):
        wanting = Wanting(world, of_tags(b"%d" % turn))
        wanting.turns()
        assert wanting.got == list(range(50 * turn, 50 * turn + 50))
