"""A topology with fake caches, and short ways to build in it, for tests."""

from collections.abc import Mapping

from tests.broker.engine_fake import as_engine
from tests.broker.exchange.types.bindings import message
from tests.broker.fake_route_cache import FakeRouteCache

from leporid.amqp.tables import Value
from leporid.broker.exchange.exchange import ExchangeState
from leporid.broker.exchange.topology import Reached, Topology
from leporid.broker.exchange.types import Binding, RoutedMessage
from leporid.broker.registry import finished


class World:
    """A topology with fake caches, and short ways to build in it."""

    def __init__(self) -> None:
        self.topology = Topology()
        self.sources: dict[str, FakeRouteCache] = {}

    def exchange(
        self,
        name: str,
        kind: str = "fanout",
        alternate: str | None = None,
        strict: bool = False,
        more: Mapping[str, Value] | None = None,
    ) -> ExchangeState:
        arguments = dict(more or {})
        if alternate is not None:
            arguments["alternate-exchange"] = alternate
        if strict:
            arguments["x-strict-keys"] = True
        self.sources[name] = FakeRouteCache()
        exchange = ExchangeState(
            name, kind, False, False, False, arguments, as_engine(self.sources[name])
        )
        self.topology.add_exchange(exchange)
        return exchange

    def queues(self, *names: str) -> None:
        for name in names:
            self.topology.add_queue(name)

    def bind(self, source: str, destination: str, key: str = "") -> Binding:
        binding = self.binding(source, destination, key)
        assert self.topology.bind(binding)
        return binding

    def binding(self, source: str, destination: str, key: str = "") -> Binding:
        if destination in self.topology.exchanges:
            return Binding(source, destination, "exchange", key, {})
        return Binding(source, destination, "queue", key, {})

    def route(
        self, exchange: str, *keys: str, headers: Mapping[str, Value] | None = None
    ) -> list[str]:
        return self.resolve(exchange, *keys, headers=headers).queues

    def resolve(
        self, exchange: str, *keys: str, headers: Mapping[str, Value] | None = None
    ) -> Reached:
        return finished(
            self.topology.resolving(
                self.topology.exchanges[exchange], message(*keys, headers=headers)
            )
        )

    def cache(self, exchange: str, *keys: str) -> bool:
        """Have the cache of an exchange keep the routes of keys; False: no route can be kept."""
        found = self.topology.exchanges[exchange]
        kept = [
            self.sources[exchange].cacheable
            and not finished(self.topology.resolving(found, RoutedMessage((key,), None))).by_message
            for key in keys
        ]
        return all(kept)

    def told(self) -> dict[str, list[str | None]]:
        """What each cache was told to forget since the last time, if anything."""
        told = {name: source.told() for name, source in self.sources.items()}
        return {name: what for name, what in told.items() if what}
