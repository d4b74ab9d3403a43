"""What a document makes is found by what follows in it."""

from __future__ import annotations

from tests.broker.definitions.given import binding, exchange, queue, run
from tests.broker.peer import World


def test_bindings_find_what_the_document_makes_and_what_stands_there_twice_is_made_once():
    world = World()
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
