"""Exchanges, queues and bindings of a document, compared with what is there."""

from __future__ import annotations

from typing import Any

import pytest
from tests.broker.definitions.given import all_of, binding, exchange, queue, restarted, run
from tests.broker.peer import World

from leporid.amqp.errors import PreconditionFailed
from leporid.broker.definitions.plan import DefinitionsRefused


@pytest.fixture
def world() -> World:
    return World()


def test_a_binding_with_numbers_of_another_size_is_the_same(world: World):
    peer = world.peer()
    run(world, exchanges=[exchange("x", type="headers")], queues=[queue("q")])
    from leporid.amqp.methods import QueueBind
    from leporid.amqp.tables import Int32

    peer.call(QueueBind("q", "x", "", arguments={"n": Int32(1), "x-match": "any"}))
    given = binding("x", "q", arguments={"n": 1, "x-match": "any"})
    difference = run(world, bindings=[given]).difference
    assert difference["bindings"].unchanged == 1
    assert len(world.broker.vhosts["/"].exchange("x").outgoing) == 1


def test_what_is_there_otherwise_stays_and_is_told(world: World):
    run(world, queues=[queue("q")], exchanges=[exchange("x")])
    given = {
        "queues": [queue("q", arguments={"x-max-length": 5})],
        "exchanges": [exchange("x", type="fanout")],
    }
    difference = run(world, **given).difference
    assert list(difference["queues"].conflicting) == [
        (("/", "q"), 'arguments is {} there, and {"x-max-length": 5} in the document')
    ]
    assert difference["exchanges"].conflicting[0][1].startswith('type is "topic" there')
    assert world.broker.vhosts["/"].queue("q").arguments == {}
    assert difference.is_worth_telling


def test_what_has_no_effect_is_told(world: World):
    shovel = {"name": "s", "vhost": "/", "component": "shovel", "value": {}}
    given: Any = {
        "parameters": [shovel],
        "queues": [queue("amq.mine"), queue("q", arguments={"x-nope": 1})],
        "exchanges": [exchange("amq.topic")],
        "bindings": [binding("", "q", "q")],
        "whatever": [1],
    }
    ignored = run(world, **given).difference.ignored
    assert [what for what, _ in ignored] == [
        "whatever",
        "parameter 's' of component 'shovel' in vhost '/'",
        "exchange 'amq.topic' in vhost '/'",
        "queue 'amq.mine' in vhost '/'",
        "argument 'x-nope' of queue 'q' in vhost '/'",
        "binding of queue 'q' to exchange '' in vhost '/'",
    ]


def test_memory_is_asked_for_before_anything_is_made():
    world = World(memory_bytes_max=200_000)
    with pytest.raises(DefinitionsRefused, match="cannot make queue"):
        run(world, queues=[queue(str(count)) for count in range(40)])
    assert world.broker.vhosts["/"].queue_count == 0


def test_a_binding_that_a_type_does_not_take_is_told(world: World):
    local = exchange("x", type="x-local-random")
    run(world, exchanges=[local], queues=[queue("q")], bindings=[binding("x", "q")])
    with pytest.raises(DefinitionsRefused, match="Non empty binding 'k' key not permitted"):
        run(world, bindings=[binding("x", "q", "k")])


def test_a_binding_that_cannot_be_given_what_its_exchange_keeps_is_told(world: World):
    run(world, exchanges=[exchange("x", type="x-recent-history")], queues=[queue("q2")])
    vhost = world.broker.vhosts["/"]

    def refuse(*_: object) -> None:
        raise PreconditionFailed("there is no room")

    vhost.bindings.bind = refuse  # type: ignore[method-assign, assignment]
    difference = run(world, bindings=[binding("x", "q2")]).difference
    assert difference.ignored == [("binding of 'q2' to 'x'", "there is no room")]
    assert all_of(restarted(world)) == all_of(world)
