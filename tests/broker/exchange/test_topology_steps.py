"""Routes are found in steps, as clients choose how much there is to go through.

What changes between two steps is taken into account or not; nothing else is lost or added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from tests.broker.exchange.types.bindings import message
from tests.broker.topology_world import World

from leporid.amqp.tables import Value
from leporid.broker.exchange.topology import Reached
from leporid.broker.exchange.types import Binding, RoutedMessage
from leporid.broker.filter.filter_arguments import filter_of
from leporid.broker.registry import StepsTo

MANY = 1000
KEYS = [f"k{number}" for number in range(MANY)]


def in_steps(
    steps: StepsTo[Reached], meanwhile: Iterable[Callable[[], object]] = ()
) -> tuple[Reached, int]:
    """What a search comes to, and in how many steps; between two of them something is done."""
    count = 0
    changes = iter(meanwhile)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value, count
        count += 1
        next(changes, lambda: None)()


def bind(
    world: World, source: str, name: str, key: str = "", arguments: dict[str, Value] | None = None
) -> Binding:
    binding = Binding(source, name, "queue", key, arguments or {})
    assert world.topology.bind(binding, filter_of(binding.arguments))
    return binding


def of_many_keys(kind: str) -> tuple[World, RoutedMessage, list[str]]:
    world = World()
    world.exchange("x", kind)
    world.queues("q", "r")
    for name, key in (("q", KEYS[1]), ("r", KEYS[-1])):
        bind(world, "x", name, key)
    return world, message(*KEYS), ["q", "r"]


def of_many_patterns() -> tuple[World, RoutedMessage, list[str]]:
    world = World()
    world.exchange("x", "topic")
    world.queues("q", "r")
    for number in range(MANY):
        head = ".".join("*a"[number >> bit & 1] for bit in range(10))
        bind(world, "x", "q", f"#.{head}{'.*.a' * 50}.b.#")
    bind(world, "x", "r", "a.#")
    return world, message(".".join(["a"] * 120)), ["r"]


def of_many_keys_hashed() -> tuple[World, RoutedMessage, list[str]]:
    world = World()
    world.exchange("x", "x-modulus-hash")
    world.queues("q")
    bind(world, "x", "q")
    return world, message(*KEYS), ["q"]


def of_many_keys_and_partitions() -> tuple[World, RoutedMessage, list[str]]:
    world = World()
    world.exchange("x", "x-super-stream")
    world.queues("q")
    bind(world, "x", "q", "0")
    return world, message(*KEYS), ["q"]


def of_a_common_term() -> tuple[World, RoutedMessage, list[str]]:
    world = World()
    world.exchange("x", "headers")
    world.queues("q")
    for number in range(MANY):
        bind(world, "x", "q", arguments={"a": 1, "b": number})
    return world, message("k", headers={"a": 1, "b": MANY - 1}), ["q"]


def of_many_headers() -> tuple[World, RoutedMessage, list[str]]:
    world = World()
    world.exchange("x", "headers")
    world.queues("q")
    bind(world, "x", "q", arguments={"x-match": "any", "h7": 7})
    headers: dict[str, Value] = {f"h{number}": number for number in range(MANY)}
    return world, message("k", headers=headers), ["q"]


def of_a_large_header() -> tuple[World, RoutedMessage, list[str]]:
    world = World()
    world.exchange("x", "headers")
    world.queues("q")
    large: Value = [{"a": number} for number in range(MANY)]
    bind(world, "x", "q", arguments={"h": large})
    return world, message("k", headers={"h": large}), ["q"]


def of_many_queues() -> tuple[World, RoutedMessage, list[str]]:
    world = World()
    world.exchange("x")
    names = [f"q{number}" for number in range(MANY)]
    world.queues(*names)
    for name in names:
        bind(world, "x", name)
    return world, message("k"), names


def of_many_exchanges() -> tuple[World, RoutedMessage, list[str]]:
    world = World()
    world.queues("q")
    for number in range(100):
        world.exchange("x" if not number else f"x{number}")
    for number in range(1, 100):
        world.bind("x", f"x{number}")
        bind(world, f"x{number}", "q")
    return world, message("k"), ["q"]


def of_many_alternates() -> tuple[World, RoutedMessage, list[str]]:
    world = World()
    world.queues("q")
    for number in range(100):
        world.exchange("x" if not number else f"x{number}", alternate=f"x{number + 1}")
    world.exchange("x100")
    bind(world, "x100", "q")
    return world, message("k"), ["q"]


def of_many_filters() -> tuple[World, RoutedMessage, list[str]]:
    world = World()
    world.exchange("x")
    names = [f"q{number}" for number in range(MANY)]
    world.queues(*names)
    for name in names:
        bind(world, "x", name, arguments={"x-filter-sql": "n > 0"})
    return world, message("k", headers={"n": 1}), names


WORLDS = {
    "direct": lambda: of_many_keys("direct"),
    "topic": lambda: of_many_keys("topic"),
    "patterns": of_many_patterns,
    "modulus-hash": of_many_keys_hashed,
    "partitions": of_many_keys_and_partitions,
    "term": of_a_common_term,
    "headers": of_many_headers,
    "header": of_a_large_header,
    "queues": of_many_queues,
    "exchanges": of_many_exchanges,
    "alternates": of_many_alternates,
    "filters": of_many_filters,
}


@pytest.mark.parametrize("made", WORLDS.values(), ids=WORLDS)
def test_what_clients_have_many_of_is_gone_through_in_steps(made):
    world, sent, queues = made()
    reached, steps = in_steps(world.topology.resolving(world.topology.exchanges["x"], sent))
    assert sorted(reached.queues) == sorted(queues)
    assert steps >= 3


def test_the_keys_of_an_exchange_with_strict_keys_are_checked_in_steps():
    world = World()
    exchange = world.exchange("x", "fanout", strict=True)
    assert in_steps(world.topology.resolving(exchange, message(*KEYS)))[1] >= 3


def test_all_messages_with_a_key_are_resolved_in_steps_if_filters_decide():
    world, _, _ = of_many_exchanges()
    below = Binding("x", "x1", "exchange", "", {"x-filter-sql": "n > 0"})
    world.topology.bind(below, filter_of(below.arguments))
    unknown = RoutedMessage(("k",), None)
    reached, steps = in_steps(world.topology.resolving(world.topology.exchanges["x"], unknown))
    assert reached.deciding is not None
    assert len(reached.deciding) == 1
    assert steps >= 3


@pytest.mark.parametrize("made", WORLDS.values(), ids=WORLDS)
def test_everything_may_go_meanwhile(made):
    for after in range(3):
        world, sent, queues = made()
        exchange = world.topology.exchanges["x"]

        def clear(world: World = world) -> None:
            for name in [each for each in world.topology.exchanges if each != "x"]:
                list(world.topology.remove_exchange(name))
            for binding in list(world.topology.exchanges["x"].outgoing):
                world.topology.unbind(binding)

        waiting = [lambda: None] * after
        steps = world.topology.resolving(exchange, sent)
        reached, _ = in_steps(steps, [*waiting, clear])
        assert set(reached.queues) <= set(queues)
        assert in_steps(world.topology.resolving(exchange, sent))[0].queues == []


@pytest.mark.parametrize("made", WORLDS.values(), ids=WORLDS)
def test_what_comes_meanwhile_changes_nothing_else(made):
    world, sent, queues = made()
    exchange = world.topology.exchanges["x"]
    world.queues(*(f"new{number}" for number in range(MANY)))
    # A number: the exchange of partitions takes no other key; partitions change what keys meet.
    coming = [
        lambda number=number: bind(world, "x", f"new{number}", "7", {"a": "never"})
        for number in range(MANY)
    ]
    reached, _ = in_steps(world.topology.resolving(exchange, sent), coming)
    if exchange.type not in ("x-modulus-hash", "x-super-stream"):
        assert set(queues) <= set(reached.queues)


def test_a_filter_that_goes_meanwhile_lets_nothing_pass():
    world = World()
    exchange = world.exchange("x")
    names = [f"q{number}" for number in range(MANY)]
    world.queues(*names)
    bound = [bind(world, "x", name, arguments={"x-filter-sql": "n > 1"}) for name in names]
    for after in range(4):
        going = [lambda: None] * after + [lambda: world.topology.unbind(bound.pop())] * 50
        sent = message("k", headers={"n": 1})
        assert in_steps(world.topology.resolving(exchange, sent), going)[0].queues == []
