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


def test_an_exchange_that_comes_as_an_alternate_is_told_to_those_that_keep_routes_without_it():
    world = World()
    for number in range(50):
        world.exchange(f"x{number}", alternate="ae")
    world.cache("x3", "k")
    world.exchange("top")
    world.bind("top", "x7")
    world.cache("top", "k")
    world.told()
    world.exchange("ae")
    assert world.told() == {"x3": [None], "x7": [None], "top": [None]}
    world.queues("q")
    world.bind("ae", "q")
    assert world.route("x20", "k") == ["q"]


def test_who_names_another_alternate_exchange_waits_for_the_first_no_more():
    world = World()
    exchange = world.exchange("x", alternate="first")
    world.cache("x", "k")
    world.topology.set_alternate(exchange, "second")
    world.told()
    world.exchange("first")
    assert world.told() == {}
    world.cache("x", "k")
    world.exchange("second")
    assert world.told() == {"x": [None]}


@pytest.mark.parametrize("there", [True, False])
def test_an_exchange_that_is_gone_is_kept_by_no_alternate_exchange(world: World, there: bool):
    alternate = world.exchange("ae") if there else None
    world.exchange("x", alternate="ae")
    world.cache("x", "k")
    assert alternate is None or alternate.cached_ways
    for _ in world.topology.remove_exchange("x"):
        pass
    world.told()
    alternate = alternate or world.exchange("ae")
    assert (world.told(), alternate.cached_ways) == ({}, {})
