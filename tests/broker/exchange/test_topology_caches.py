"""What the route caches are told when the topology changes."""

import pytest
from tests.broker.topology_world import World

from leporid.broker.exchange.exchange import DEFAULT_EXCHANGE


@pytest.fixture
def world() -> World:
    return World()


def test_a_binding_under_a_plain_key_is_forgotten_alone_here_and_above(world: World):
    for name in ("top", "middle", "aside"):
        world.exchange(name)
    world.exchange("x", "topic")
    world.exchange("below")
    world.queues("q")
    world.bind("top", "middle")
    world.bind("middle", "x")
    world.bind("x", "below", "#")
    world.cache("top", "a.b")
    world.told()
    binding = world.bind("x", "q", "a.b")
    assert world.told() == {"x": ["a.b"], "middle": ["a.b"], "top": ["a.b"]}
    world.topology.unbind(binding)
    assert world.told() == {"x": ["a.b"], "middle": ["a.b"], "top": ["a.b"]}


def test_a_binding_under_a_pattern_makes_all_routes_forgotten_here_and_above(world: World):
    world.exchange("top", alternate="x")
    world.exchange("x", "topic")
    world.queues("q")
    world.cache("top", "a.b")
    world.told()
    binding = world.bind("x", "q", "a.*")
    assert world.told() == {"x": [None], "top": [None]}
    world.bind("top", "x")
    world.cache("top", "a.b")
    world.told()
    world.topology.unbind(binding)
    assert world.told() == {"x": [None], "top": [None]}


def test_nothing_is_forgotten_when_nothing_changed(world: World):
    world.exchange("x")
    world.queues("q")
    binding = world.bind("x", "q")
    world.told()
    assert not world.topology.bind(binding)
    assert not world.topology.unbind(world.binding("x", "q", "other"))
    assert world.told() == {}


def test_cycles_are_told_once(world: World):
    for name in ("a", "b", "c"):
        world.exchange(name)
    world.queues("q")
    for above, below in [("a", "b"), ("b", "c"), ("c", "a")]:
        world.bind(above, below)
    world.cache("a", "k")
    world.told()
    world.bind("b", "q")
    told = world.told()
    assert told.pop("b") in ([None], [None, None])
    assert told == {"a": [None], "c": [None]}


def test_a_queue_that_goes_is_forgotten_wherever_it_was_bound(world: World):
    world.exchange(DEFAULT_EXCHANGE, "direct")
    world.exchange("top")
    world.exchange("x", "direct")
    world.exchange("aside", "direct")
    world.queues("one", "two")
    world.bind("top", "x")
    world.bind("x", "one", "k")
    world.bind("x", "two", "k")
    world.bind("x", "two", "l")
    world.cache("top", "k", "l")
    world.told()
    list(world.topology.remove_queue("one"))
    assert world.told() == {"x": ["k"], "top": ["k"], "": ["one"]}
    list(world.topology.remove_queue("two"))
    assert world.told() == {"x": ["k", "l"], "top": ["k", "l"], "": ["two"]}
    world.queues("three")
    assert world.told() == {"": ["three"]}


def test_an_exchange_that_comes_or_goes_is_forgotten_above(world: World):
    world.exchange("top")
    world.exchange("x", alternate="ae")
    world.bind("top", "x")
    world.cache("top", "k")
    world.told()
    world.exchange("ae")
    assert world.told() == {"x": [None], "top": [None]}
    world.cache("top", "k")
    list(world.topology.remove_exchange("ae"))
    assert set(world.told()) == {"x", "top"}
    world.cache("top", "k")
    list(world.topology.remove_exchange("x"))
    assert set(world.told()) == {"top"}
    world.exchange("ae")
    assert world.told() == {}


def test_no_route_is_kept_through_an_exchange_that_is_being_deleted(world: World):
    for name in ("top", "middle", "x"):
        world.exchange(name)
    world.queues("q", "r")
    world.bind("top", "middle")
    world.bind("middle", "x")
    world.bind("x", "q")
    world.bind("x", "r")
    assert world.cache("top", "k")
    steps = world.topology.remove_exchange("x")
    next(steps)
    assert not world.cache("top", "k")
    list(steps)
    assert world.cache("top", "k")
