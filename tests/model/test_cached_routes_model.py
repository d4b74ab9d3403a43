"""Routes that are found in steps, and cached, while all that they depend on changes: none is stale.

Exchanges come and go, with bindings, alternate exchanges and searches for routes under way. After
each step, each cached route is what a plain walk over the bindings gives. The bounds of what is
noted about cached routes are small here, so that they are met all the time.

The steps are drawn evenly, from seeds: hypothesis, which prefers some, found far less with as many.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, product
from random import Random
from typing import Any

import pytest
from tests.broker.fake_route_cache import FakeRouteCache

from leporid.broker.exchange import cached_ways, topology
from leporid.broker.exchange.exchange import ExchangeState
from leporid.broker.exchange.topology import Topology
from leporid.broker.exchange.types import Binding, RoutedMessage
from leporid.broker.registry import finished

EXCHANGES, QUEUES, KEYS = "abcde", "pqr", "kl"
KINDS = ["direct", "direct", "fanout"]
STEPS = 100


class CountingCache(FakeRouteCache):
    """Knows whether it has changed since a search began, as the engine's does."""

    def __init__(self) -> None:
        super().__init__()
        self.epoch = 0

    def forget(self) -> None:
        self.epoch += 1
        super().forget()

    def forget_key(self, key: str) -> None:
        self.epoch += 1
        super().forget_key(key)

    def amend(self, *arguments: Any) -> None:
        self.epoch += 1
        super().amend(*arguments)

    def retire(self) -> None:
        self.epoch += 1
        super().retire()


class Search:
    """One that is under way."""

    def __init__(self, topology: Topology, exchange: ExchangeState, key: str) -> None:
        self.cache = cache_of(exchange)
        self.key = key
        self.epoch = self.cache.epoch
        self.steps = topology.resolving(exchange, RoutedMessage((key,), None))


def cache_of(exchange: ExchangeState) -> CountingCache:
    cache: object = exchange.routes
    assert isinstance(cache, CountingCache)
    return cache


class World:
    """Changes a topology, and finds routes in it."""

    def __init__(self, random: Random, patches: pytest.MonkeyPatch) -> None:
        self.random = random
        patches.setattr(topology, "BINDINGS_A_STEP", 1)
        patches.setattr(cached_ways, "WAYS_MAX", random.choice([65536, 7, 4]))
        patches.setattr(cached_ways, "CACHES_MAX", random.choice([2048, 3, 2]))
        patches.setattr(cached_ways, "FORGOTTEN_ONE_BY_ONE_MAX", random.choice([64, 2, 1]))
        self.topology = Topology()
        self.removals: dict[str, Iterator[object]] = {}
        self.searches: list[Search] = []
        for name in QUEUES:
            self.topology.add_queue(name)
        for _ in EXCHANGES:
            self.add_exchange()
            self.bind()

    def end(self) -> None:
        """Nothing is left of exchanges that are gone."""
        for search in self.searches:
            finished(search.steps)
        for removal in self.removals.values():
            list(removal)
        for exchange in tuple(self.topology.exchanges.values()):
            list(self.topology.remove_exchange(exchange.name))
        assert self.topology.ways.count == 0

    def one_of_all(self) -> str:
        return self.random.choice(EXCHANGES)

    def find(self, name: str) -> ExchangeState | None:
        found = self.topology.exchanges.get(name)
        return None if found is None or found.deleted else found

    # ------------------------------------------------------------- steps

    def add_exchange(self) -> None:
        name, alternate = self.one_of_all(), self.random.choice([None, *EXCHANGES])
        if name not in self.topology.exchanges:
            kind = self.random.choice(KINDS)
            arguments = {} if alternate is None else {"alternate-exchange": alternate}
            cache: Any = CountingCache()
            self.topology.add_exchange(
                ExchangeState(name, kind, False, False, False, arguments, cache)
            )

    def remove_exchange(self) -> None:
        name = self.one_of_all()
        if self.find(name) is not None:
            self.removals[name] = iter(self.topology.remove_exchange(name))
            self.remove_more()

    def remove_more(self) -> None:
        steps = self.random.choice([1, 100])
        for name, removal in tuple(self.removals.items()):
            if len(list(islice(removal, steps))) < steps:
                del self.removals[name]

    def bind(self) -> None:
        source, destination = self.one_of_all(), self.random.choice(EXCHANGES + QUEUES)
        kind: Any = "queue" if destination in QUEUES else "exchange"
        there = destination in QUEUES or self.find(destination) is not None
        if there and self.find(source) is not None:
            key = self.random.choice(KEYS)
            self.topology.bind(Binding(source, destination, kind, key, {}))

    def unbind(self) -> None:
        exchange = self.find(self.one_of_all())
        bindings = [] if exchange is None else sorted(exchange.outgoing, key=str)
        if bindings:
            self.topology.unbind(self.random.choice(bindings))

    def set_alternate(self) -> None:
        exchange = self.find(self.one_of_all())
        if exchange is not None:
            self.topology.set_alternate(exchange, self.random.choice([None, *EXCHANGES]))

    def search(self) -> None:
        self.begin_search(self.one_of_all(), self.random.choice(KEYS))

    def begin_search(self, name: str, key: str) -> None:
        exchange = self.find(name)
        if exchange is not None and key not in cache_of(exchange).routes:
            self.searches.append(Search(self.topology, exchange, key))

    def search_more(self) -> None:
        if self.searches:
            self.go_on(self.random.choice(self.searches))

    def find_all(self) -> None:
        for name, key in product(EXCHANGES, KEYS):
            before = len(self.searches)
            self.begin_search(name, key)
            while len(self.searches) > before:
                self.go_on(self.searches[before])

    def go_on(self, search: Search) -> None:
        """What is found is cached, unless the cache has changed meanwhile."""
        try:
            next(search.steps)
        except StopIteration as end:
            self.searches.remove(search)
            if search.cache.epoch == search.epoch and not end.value.by_message:
                search.cache.routes[search.key] = end.value.queues

    # ------------------------------------------------------------- what holds

    def walk(self, start: str, key: str) -> set[str]:
        """Where messages go, by a plain walk."""
        seen: set[str] = set()
        found: set[str] = set()
        pending = [start]
        while pending:
            exchange = self.find(pending.pop())
            if exchange is None or exchange.name in seen:
                continue
            seen.add(exchange.name)
            met = [
                each for each in exchange.outgoing if exchange.type == "fanout" or each.key == key
            ]
            found |= {each.destination for each in met if each.destination_kind == "queue"}
            pending += [each.destination for each in met if each.destination_kind == "exchange"]
            if not met and exchange.alternate is not None:
                pending.append(exchange.alternate)
        return found

    def check(self) -> None:
        assert self.topology.ways.count <= cached_ways.WAYS_MAX
        if self.removals:
            return  # what is being removed is followed or not
        for exchange in self.topology.exchanges.values():
            for key, queues in cache_of(exchange).routes.items():
                assert set(queues or ()) == self.walk(exchange.name, key)


ACTS = (
    World.add_exchange,
    World.remove_exchange,
    World.remove_more,
    World.bind,
    World.unbind,
    World.set_alternate,
    World.search,
    World.search_more,
    World.find_all,
)


def play(seeds: range) -> None:
    for seed in seeds:
        with pytest.MonkeyPatch.context() as patches:
            random = Random(seed)
            world = World(random, patches)
            for _ in range(STEPS):
                random.choice(ACTS)(world)
                world.check()
            world.end()


def test_no_cached_route_is_stale() -> None:
    play(range(100))


@pytest.mark.slow
def test_no_cached_route_is_stale_for_longer() -> None:
    play(range(100, 1000))
