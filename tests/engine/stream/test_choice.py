"""What a reader wants: which batches may be left out for it."""

from __future__ import annotations

import pytest
from tests.engine.stream_world import World
from tests.engine.tagged import Wanting, of_tags, send

from leporid.amqp.tables import Value
from leporid.engine.selectors.filter import Filter
from leporid.engine.selectors.tags import Tags
from leporid.engine.stream.choice import Choice

BATCH = 256
TABLES: tuple[dict[str, Value], ...] = (
    {"x-tag": "a"},
    {"x-stream-filter-value": "b"},
    {"x-tag": "a", "x-stream-filter-value": "b"},
    {"x-tag": "c"},
)


@pytest.mark.parametrize(
    ("groups", "unfiltered", "read"),
    [
        ([], None, (0, 1, 2, 3)),
        ([[b"a"]], None, (0, 2)),
        ([[b"b"]], None, (1, 2)),
        ([[b"a", b"b"]], None, (0, 1, 2)),
        ([[b"a"], [b"b"]], None, (2,)),
        ([[]], None, ()),
        ([], [b"b"], (0, 1, 2, 3)),
        ([[b"c"]], [], (3,)),
        ([], [], (0, 3)),
    ],
)
def test_batches_that_are_read(groups, unfiltered, read):
    world = World()
    for table in TABLES:
        send(world, [table] * BATCH)
    world.sync()
    wanting = Wanting(world, Choice(Filter(), groups, unfiltered=unfiltered))
    wanting.turns()
    assert sorted({offset // BATCH for offset in wanting.got}) == list(read)
    assert world.stream.filtering[0] == len(TABLES) - len(read)


def test_the_filter_alone_decides_what_matches():
    world = World()
    send(world, [TABLES[0], TABLES[3]])
    world.sync()
    choice = of_tags(b"a")
    assert isinstance(choice.filter, Tags)
    wanting = Wanting(world, choice)
    wanting.turns()
    assert wanting.got == [0]
    assert repr(choice).startswith("<Choice by <leporid.engine.selectors.tags.Tags")


def test_a_choice_needs_a_filter():
    with pytest.raises(TypeError):
        Choice(None)  # type: ignore[arg-type]
