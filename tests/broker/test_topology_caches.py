"""What the route caches are told when the topology changes."""

import pytest
from tests.broker.topology_world import World

from leporid.amqp.tables import Value
from leporid.broker.topology import DEFAULT_EXCHANGE


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
    world.told()
    binding = world.bind("x", "q", "a.b")
    assert world.told() == {"x": ["a.b"], "middle": ["a.b"], "top": ["a.b"]}
    world.topology.unbind(binding)
    assert world.told() == {"x": ["a.b"], "middle": ["a.b"], "top": ["a.b"]}


def test_a_binding_under_a_pattern_makes_all_routes_forgotten_here_and_above(world: World):
    world.exchange("top", alternate="x")
    world.exchange("x", "topic")
    world.queues("q")
    world.told()
    binding = world.bind("x", "q", "a.*")
    assert world.told() == {"x": [None], "top": [None]}
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
    world.told()
    world.bind("b", "q")
    assert world.told() == {"a": [None], "b": [None], "c": [None]}


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
    world.told()
    world.topology.remove_queue("one")
    assert world.told() == {"x": ["k"], "top": ["k"], "": ["one"]}
    world.topology.remove_queue("two")
    assert world.told() == {"x": [None], "top": [None], "": ["two"]}
    world.queues("three")
    assert world.told() == {"": ["three"]}


def test_an_exchange_that_comes_or_goes_is_forgotten_above(world: World):
    world.exchange("top")
    world.exchange("x", alternate="ae")
    world.bind("top", "x")
    world.told()
    world.exchange("ae")
    assert world.told() == {"ae": [None], "x": [None], "top": [None]}
    world.topology.remove_exchange("ae")
    assert world.told() == {"ae": [None], "x": [None], "top": [None]}
    world.topology.remove_exchange("x")
    assert world.told() == {"x": [None], "top": [None]}
    world.exchange("ae")
    assert world.told() == {"ae": [None]}


def cacheable(world: World) -> set[str]:
    names = {name for name in world.topology.exchanges if world.sources[name].cacheable}
    for name, exchange in world.topology.exchanges.items():
        assert exchange.per_message is (name not in names)
    return names


def test_routes_that_pass_a_headers_exchange_are_not_cacheable(world: World):
    world.exchange("top")
    world.exchange("x", "direct")
    world.exchange("h", "headers")
    assert cacheable(world) == {"top", "x"}
    world.bind("top", "x")
    one, two = world.bind("x", "h", "1"), world.bind("x", "h", "2")
    assert cacheable(world) == set()
    world.topology.unbind(one)
    assert cacheable(world) == set()
    world.told()
    world.topology.unbind(two)
    assert cacheable(world) == {"top", "x"}
    assert None in world.sources["top"].forgotten
    assert None in world.sources["x"].forgotten


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        ("x-random", {}),
        ("x-recent-history", {}),
        ("x-consistent-hash", {"hash-header": "h"}),
        ("x-consistent-hash", {"hash-property": "timestamp"}),
    ],
)
def test_nor_are_those_that_pass_another_that_looks_at_each_message(
    world: World, kind: str, arguments: dict[str, Value]
):
    world.exchange("top")
    world.exchange("below", kind, more=arguments)
    assert cacheable(world) == {"top"}
    way = world.bind("top", "below", "1")
    assert cacheable(world) == set()
    world.topology.unbind(way)
    assert cacheable(world) == {"top"}


@pytest.mark.parametrize("kind", ["x-consistent-hash", "x-modulus-hash", "x-super-stream"])
def test_routes_that_a_key_decides_are_cacheable(world: World, kind: str):
    world.exchange("top")
    world.exchange("below", kind)
    world.bind("top", "below")
    world.queues("q", "r")
    world.told()
    world.bind("below", "q", "1")
    # Another binding may take any key from those that are there.
    assert world.told() == {"below": [None], "top": [None]}
    assert cacheable(world) == {"top", "below"}


def test_alternate_exchanges_count_for_cacheability(world: World):
    world.exchange("top")
    world.exchange("x", alternate="h")
    world.bind("top", "x")
    assert cacheable(world) == {"top", "x"}
    world.exchange("h", "headers")
    assert cacheable(world) == set()
    world.exchange("late", alternate="h")
    assert cacheable(world) == set()
    world.topology.remove_exchange("h")
    assert cacheable(world) == {"top", "x", "late"}


def test_a_cycle_does_not_keep_itself_uncacheable(world: World):
    world.exchange("a")
    world.exchange("b")
    world.exchange("h", "headers")
    world.bind("a", "b")
    world.bind("b", "a")
    way = world.bind("a", "h")
    assert cacheable(world) == set()
    world.topology.unbind(way)
    assert cacheable(world) == {"a", "b"}
    world.bind("b", "h")
    world.topology.remove_exchange("h")
    assert cacheable(world) == {"a", "b"}


def test_another_way_to_a_headers_exchange_still_counts(world: World):
    for name in ("top", "left", "right"):
        world.exchange(name)
    world.exchange("h", "headers")
    world.bind("top", "left")
    world.bind("top", "right")
    way = world.bind("left", "h")
    world.bind("right", "h")
    world.topology.unbind(way)
    assert cacheable(world) == {"left"}
