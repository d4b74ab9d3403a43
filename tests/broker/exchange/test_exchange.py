"""An exchange, and whether its routes may be kept."""

import pytest
from tests.broker.engine_fake import as_engine
from tests.broker.topology_world import World

from leporid.amqp.errors import PreconditionFailed
from leporid.amqp.tables import Value
from leporid.broker.exchange.exchange import ExchangeState


@pytest.fixture
def world() -> World:
    return World()


def test_an_exchange_shows_what_it_was_declared_with(world: World):
    exchange = world.exchange("x", "topic", alternate="y", strict=True)
    assert "name='x', type='topic'" in repr(exchange)
    assert exchange.alternate == "y"
    assert exchange.router.strict_keys
    assert not exchange.in_use
    assert exchange.routes is as_engine(world.sources["x"])


def test_an_exchange_with_invalid_arguments_cannot_be_made():
    with pytest.raises(PreconditionFailed, match="for arg 'x-strict-keys'"):
        ExchangeState("x", "topic", False, False, False, {"x-strict-keys": 1}, as_engine(None))


def test_an_exchange_is_in_use_while_a_binding_leads_from_it(world: World):
    x, y = world.exchange("x"), world.exchange("y")
    binding = world.bind("x", "y")
    assert x.in_use
    assert not y.in_use
    assert list(x.outgoing) == list(y.incoming) == [binding]


def test_an_exchange_is_not_in_use_without_one(world: World):
    x, y = world.exchange("x"), world.exchange("y")
    world.topology.unbind(world.bind("x", "y"))
    assert not x.in_use
    assert not y.incoming


def cacheable(world: World) -> set[str]:
    """The exchanges of which a route can be kept."""
    return {name for name in world.topology.exchanges if world.cache(name, "1")}


def test_routes_that_pass_a_random_exchange_are_not_cacheable(world: World):
    world.exchange("top")
    world.exchange("x", "direct")
    world.exchange("h", "x-random")
    assert cacheable(world) == {"top", "x"}
    world.bind("top", "x")
    one, two = world.bind("x", "h", "1"), world.bind("x", "h", "2")
    assert cacheable(world) == set()
    world.told()
    world.topology.unbind(one)
    assert world.told() == {"x": ["1"], "top": ["1"]}
    assert cacheable(world) == {"top", "x"}
    assert not world.cache("top", "2")
    world.topology.unbind(two)
    assert world.cache("top", "2")


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        ("x-random", {}),
        ("x-local-random", {}),
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
    world.cache("top", "1")
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
    world.exchange("h", "x-random")
    assert cacheable(world) == set()
    world.exchange("late", alternate="h")
    assert cacheable(world) == set()
    list(world.topology.remove_exchange("h"))
    assert cacheable(world) == {"top", "x", "late"}


def test_a_cycle_does_not_keep_itself_uncacheable(world: World):
    world.exchange("a")
    world.exchange("b")
    world.exchange("h", "x-random")
    world.bind("a", "b")
    world.bind("b", "a")
    way = world.bind("a", "h")
    assert cacheable(world) == set()
    world.topology.unbind(way)
    assert cacheable(world) == {"a", "b"}
    world.bind("b", "h")
    list(world.topology.remove_exchange("h"))
    assert cacheable(world) == {"a", "b"}


def test_another_way_to_a_random_exchange_still_counts(world: World):
    for name in ("top", "left", "right"):
        world.exchange(name)
    world.exchange("h", "x-random")
    world.bind("top", "left")
    world.bind("top", "right")
    way = world.bind("left", "h")
    world.bind("right", "h")
    world.topology.unbind(way)
    assert cacheable(world) == {"left"}


def test_a_change_costs_as_much_as_the_routes_that_it_concerns(world: World):
    """Not as much as there are exchanges above."""
    world.exchange("x", "direct")
    world.queues("q", "r")
    for number in range(300):
        world.exchange(f"above {number}", "direct")
        world.bind(f"above {number}", "x", "k")
    world.bind("x", "q", "other")
    for number in range(2):
        world.cache(f"above {number}", "k")
    world.told()
    world.bind("x", "q", "k")
    assert world.told() == {"x": ["k"], "above 0": ["k"], "above 1": ["k"]}
    for number in range(300):
        world.cache(f"above {number}", "k")
    world.bind("x", "r", "k")
    assert len(world.told()) == 301
    # What was forgotten is not forgotten again until there are routes again.
    world.bind("x", "r", "l")
    assert world.told() == {"x": ["l"]}


def test_an_exchange_that_is_gone_is_not_told(world: World):
    world.exchange("x")
    for _ in range(3):
        world.exchange("above")
        world.bind("above", "x")
        world.cache("above", "k")
        list(world.topology.remove_exchange("above"))
    way = world.bind(world.exchange("y").name, "x")
    world.cache("y", "k")
    world.topology.unbind(way)
    assert not world.topology.ways.count
