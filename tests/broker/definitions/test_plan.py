"""A plan: what is wrong is told together, and a trial leaves nothing behind."""

from __future__ import annotations

from typing import Any

import pytest
from tests.broker.definitions.given import all_of, binding, exchange, queue, run
from tests.broker.peer import World

from leporid.broker.definitions.plan import DefinitionsRefused


@pytest.fixture
def world() -> World:
    return World()


def test_several_problems_are_told_at_once(world: World):
    with pytest.raises(DefinitionsRefused, match=r"queues\[0\].*; queues\[1\]"):
        run(world, queues=[queue("a", vhost="x"), queue("b", vhost="y")])


def test_a_trial_says_the_same_and_changes_nothing(world: World):
    nouns: Any = {"vhosts": [{"name": "v"}], "queues": [queue("q"), queue("q", vhost="v")]}
    before = all_of(world)
    shown = run(world, trial=True, **nouns).difference.shown()
    assert [list(shown["queues"]["added"]), list(shown["vhosts"]["added"])] == [
        [{"vhost": "/", "name": "q"}, {"vhost": "v", "name": "q"}],
        [{"name": "v"}],
    ]
    assert (all_of(world), world.changes) == (before, [])
    definitions = world.broker.memory.definitions.bytes
    run(world, trial=True, **nouns)
    assert world.broker.memory.definitions.bytes == definitions


def test_bindings_find_what_the_document_makes_and_what_stands_there_twice_is_made_once(
    world: World,
):
    given = binding("x", "y", destination_type="exchange")
    difference = run(
        world,
        exchanges=[exchange("x"), exchange("y"), exchange("x", type="fanout")],
        queues=[queue("q"), queue("q")],
        bindings=[given, given, binding("x", "q")],
    ).difference
    assert difference["queues"].unchanged == 1
    assert difference["exchanges"].conflicting[0][0] == ("/", "x")
    assert len(world.broker.vhosts["/"].exchange("x").outgoing) == 2
