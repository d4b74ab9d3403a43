"""The ways that cached routes lead: whoever a change concerns is told, whenever it comes."""

from collections.abc import Callable
from itertools import product

import pytest
from tests.broker.topology_world import World

from leporid.broker.exchange import cached_ways, topology
from leporid.broker.exchange.exchange import ExchangeState
from leporid.broker.exchange.topology import Reached
from leporid.broker.exchange.types import RoutedMessage
from leporid.broker.registry import StepsTo, finished


@pytest.fixture
def world() -> World:
    return World()


def test_an_alternate_exchange_that_comes_is_told_to_those_that_keep_routes_without_it(
    world: World,
):
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


def test_an_alternate_exchange_that_comes_and_goes_looks_at_none_of_those_that_name_it(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    for number in range(50):
        world.exchange(f"x{number}", alternate="ae")
    looked: list[str] = []
    monkeypatch.setattr(ExchangeState, "look_at_keys", lambda self: looked.append(self.name))
    world.exchange("ae")
    list(world.topology.remove_exchange("ae"))
    assert looked == ["ae"]
    assert world.told() == {}


def test_who_names_another_alternate_exchange_waits_for_the_first_no_more(world: World):
    exchange = world.exchange("x", alternate="first")
    world.cache("x", "k")
    world.topology.set_alternate(exchange, "second")
    world.told()
    world.exchange("first")
    assert world.told() == {}
    world.cache("x", "k")
    world.exchange("second")
    assert world.told() == {"x": [None]}


def test_an_exchange_that_is_bound_to_its_alternate_keeps_the_way_when_the_binding_goes(
    world: World,
):
    world.exchange("x", "direct", alternate="ae")
    world.exchange("ae")
    world.queues("q")
    to_q = world.bind("ae", "q")
    way = world.bind("x", "ae", "k")
    world.cache("x", "k", "other")
    world.told()
    world.topology.unbind(way)
    assert world.told() == {"x": ["k"]}
    world.topology.unbind(to_q)
    assert world.told() == {"ae": [None], "x": [None]}


@pytest.mark.parametrize("there", [True, False])
def test_an_exchange_that_is_gone_is_kept_by_no_alternate_exchange(world: World, there: bool):
    if there:
        world.exchange("ae")
    world.exchange("x", alternate="ae")
    world.cache("x", "k")
    assert world.topology.ways.count == 1
    list(world.topology.remove_exchange("x"))
    world.told()
    assert world.topology.ways.count == 0


def test_the_engine_finds_routes_itself_only_where_no_alternate_exchange_is_named(world: World):
    x = world.exchange("x", "direct")
    x.look_at_keys()
    found = [x.routes.met_by is not None]
    for alternate in ("ae", None):
        world.topology.set_alternate(x, alternate)
        found.append(x.routes.met_by is not None)
    assert found == [True, False, True]


def test_of_too_many_exchanges_the_routes_of_one_make_room(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(cached_ways, "CACHES_MAX", 3)
    for number in range(4):
        world.exchange(f"x{number}", alternate="ae")
    world.cache("x0", "k")
    world.cache("x1", "k")
    world.cache("x2", "k")
    world.cache("x0", "other")
    assert world.told() == {}
    world.cache("x3", "k")
    (gone,) = world.told().items()
    assert gone[0] in ("x0", "x1", "x2")
    assert gone[1] == [None]
    world.exchange("ae")
    assert world.told() == {f"x{at}": [None] for at in range(4) if f"x{at}" != gone[0]}


def test_exchanges_that_are_used_in_turn_keep_most_routes_though_they_are_too_many(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(cached_ways, "CACHES_MAX", 100)
    names = [f"x{number}" for number in range(105)]
    for name in names:
        world.exchange(name, alternate="ae")
        world.cache(name, "k")
    world.told()
    found, forgotten = set(names), 0
    for name in names * 10:
        if name not in found:
            world.cache(name, "k")
            found.add(name)
        told = world.told().keys()
        forgotten += len(told)
        found -= told
    assert forgotten < 105 * 10 // 3


def test_routes_that_lead_through_what_makes_room_are_forgotten_with_it(
    world: World, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(cached_ways, "CACHES_MAX", 2)
    world.exchange("top", alternate="x0")
    world.exchange("x0", alternate="ae")
    world.exchange("x1", alternate="other")
    world.cache("top", "k")
    assert world.told() == {}
    world.cache("x1", "k")
    # Whichever of the two made room: a change below x0 would not reach the routes of the top.
    assert world.told()["top"] == [None]


def test_ways_have_a_limit_too(world: World, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cached_ways, "WAYS_MAX", 5)
    world.exchange("top")
    for number in range(6):
        world.exchange(f"x{number}")
        world.bind("top", f"x{number}")
    world.told()
    world.cache("top", "k")
    assert world.told() == {"top": [None]}
    assert world.topology.ways.count == 1


def changing() -> tuple[World, list[Callable[[], object]]]:
    """Exchanges that a message with the key k may pass, and what changes in them."""
    world = World()
    for name in ("top", "x", "below"):
        world.exchange(name, "direct", alternate="ae")
    world.queues("q", "r")
    world.bind("top", "x", "k")
    topology, exchanges = world.topology, world.topology.exchanges
    return world, [
        lambda: world.exchange("ae", "fanout"),
        lambda: world.bind("ae", "q"),
        lambda: world.bind("x", "ae", "other"),
        lambda: topology.unbind(world.binding("x", "ae", "other")),
        lambda: topology.unbind(world.binding("ae", "q")),
        lambda: world.bind("x", "below", "k"),
        lambda: world.bind("ae", "r"),
        lambda: topology.set_alternate(exchanges["below"], "x"),
        lambda: topology.set_alternate(exchanges["below"], "ae"),
        lambda: topology.unbind(world.binding("x", "below", "k")),
        lambda: list(topology.remove_exchange("ae")),
        lambda: world.exchange("ae", "fanout"),
        lambda: world.bind("ae", "r"),
        lambda: list(topology.remove_exchange("x")),
    ]


def test_no_kept_route_outlives_a_change_wherever_the_search_for_it_was_cut(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(topology, "BINDINGS_A_STEP", 1)
    count, checked = len(changing()[1]), 0
    for begin, cut, end in product(range(count), range(7), range(count)):
        world, changes = changing()
        for change in changes[:begin]:
            change()
        search = world.topology.resolving(
            world.topology.exchanges["top"], RoutedMessage(("k",), None)
        )
        reached = in_steps(search, cut)
        world.told()
        for change in changes[begin:end]:
            change()
        reached = reached or finished(search)
        if "top" in world.told():  # whatever key it was told of, the route is not kept
            continue
        for change in [lambda: None, *changes[max(begin, end) :]]:
            change()
            if not {None, "k"}.isdisjoint(world.told().get("top", ())):
                break
            assert reached.queues == world.route("top", "k"), (begin, cut, end)
            checked += 1
    assert checked > count


def in_steps(search: StepsTo[Reached], count: int) -> Reached | None:
    """Take so many steps of a search; returns what it came to if it has ended."""
    found: Reached | None = None
    for _ in range(count):
        try:
            next(search)
        except StopIteration as end:
            found = end.value
            break
    return found
