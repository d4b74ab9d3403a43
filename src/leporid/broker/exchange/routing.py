"""Where a message goes that comes to an exchange: from names to the engine's queues.

Responsible for asking the topology, for what exchanges keep beside the queues, for making routes
that depend on filters once however many keys have them, and for counting the filters that were
asked here. Must not know bindings. Invariant: of such routes nothing is kept that no cache uses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias
from weakref import WeakValueDictionary

from leporid.amqp.errors import Fault
from leporid.amqp.methods import BasicPublish
from leporid.broker.connection.blame import blame
from leporid.broker.exchange.delays import DelaysState
from leporid.broker.exchange.history import CacheState, HistoryState
from leporid.broker.exchange.types import RoutedMessage
from leporid.broker.exchange.verdict_queues import VerdictQueueState
from leporid.broker.queue.queue import QueueState
from leporid.engine.routing.route_cache import BY_MESSAGE

if TYPE_CHECKING:
    from leporid.broker.exchange.exchange import ExchangeState
    from leporid.broker.exchange.topology import Reached, Topology
    from leporid.engine.engine import Engine
    from leporid.engine.queue.queue import Queue
    from leporid.engine.routing.conditional_routes import ConditionalRoute, FilterOutcomes
    from leporid.engine.selectors.filter import Filter

Target: TypeAlias = QueueState | VerdictQueueState | HistoryState | CacheState | DelaysState

Resolved: TypeAlias = object
"""What the engine takes for an answer: a list of queues, a ConditionalRoute, FilterOutcomes or
BY_MESSAGE."""

MEMBERS_MAX: Final = 250_000
"""Filters in all routes that are kept, each as often as there are routes with it that are not the
same: some 800 bytes each. A thousand filters that matter to thousands of keys, each of which leads
to a queue of its own besides, would be as many times more."""


class Routing:
    """The ways through the exchanges of one virtual host.

    Args:
        engine: the engine.
        topology: where messages go, by name.
        queues: by name.
        verdict_queues: what waits for filter classes, by the names that the topology has for it.
        kept: gives what the exchanges of these names keep or remember.
        held: gives an exchange as something that messages come to.
    """

    def __init__(
        self,
        engine: Engine,
        topology: Topology,
        queues: Mapping[str, QueueState],
        *,
        verdict_queues: Mapping[str, VerdictQueueState],
        kept: Callable[[Iterable[str]], Sequence[HistoryState | CacheState]],
        held: Callable[[ExchangeState], DelaysState],
    ) -> None:
        self._engine = engine
        self._topology = topology
        self._queues = queues
        self._verdict_queues = verdict_queues
        self._kept = kept
        self._held = held
        # By what it is made of, which it keeps: so no number is given again while it is there.
        self._forks: WeakValueDictionary[tuple[object, ...], ConditionalRoute] = (
            WeakValueDictionary()
        )
        self._members = 0
        self._decisions: WeakValueDictionary[tuple[int, ...], FilterOutcomes] = (
            WeakValueDictionary()
        )
        topology.cached_as = self._engine_of

    def resolve(self, exchange: ExchangeState, key: str, properties: bytes | None) -> Resolved:
        """Answer the engine, which asks about a message, or about all messages with one key."""
        try:
            if properties is None:
                return self._of_key(exchange, key)
            return self.route(exchange, (key,), properties)
        except Fault as fault:
            raise blame(fault, BasicPublish) from None

    def route(self, exchange: ExchangeState, keys: Sequence[str], properties: bytes) -> list[Queue]:
        """Return the engine's queues for a message, each once.

        Raises:
            PreconditionFailed: the exchange takes no such key.
        """
        return [each.engine for each in self.states(exchange, keys, properties)]

    def states(
        self, exchange: ExchangeState, keys: Sequence[str], properties: bytes
    ) -> list[Target]:
        """The same, as the rules know the queues."""
        message = RoutedMessage(keys, properties, exchange.name)
        return self._states(exchange, self._topology.resolve(exchange, message), message)

    def states_below(self, exchange: ExchangeState, message: RoutedMessage) -> list[Target]:
        """The same for a message that was not published to this exchange but comes to it."""
        if exchange.delaying and message.delay_ms:
            return [self._held(exchange)]
        return self._states(exchange, self._topology.reach(exchange, message), message)

    def beyond(
        self, exchange: ExchangeState, published_to: str, keys: Sequence[str], properties: bytes
    ) -> list[Queue]:
        """Return the queues for a message that comes to an exchange, published to it or not."""
        message = RoutedMessage(keys, properties, published_to)
        return [each.engine for each in self.states_below(exchange, message)]

    def route_due(
        self, exchange: ExchangeState, published_to: str, keys: Sequence[str], properties: bytes
    ) -> list[Queue]:
        """Return the queues for a message that waited in an exchange, and does not any more."""
        message = RoutedMessage(keys, properties, published_to)
        reached = self._topology.reach(exchange, message)
        return [each.engine for each in self._states(exchange, reached, message)]

    def alternate(
        self, exchange: ExchangeState, published_to: str, keys: Sequence[str], properties: bytes
    ) -> list[Queue]:
        """Return the queues that an alternate exchange has for a message; none without one.

        For what no queue of the exchange takes although it has some. Nothing is raised: there is
        nobody who could be told.
        """
        if exchange.alternate is None:
            return []
        below = self._topology.exchanges.get(exchange.alternate)
        try:
            return [] if below is None else self.beyond(below, published_to, keys, properties)
        except Fault:
            return []

    def _of_key(self, exchange: ExchangeState, key: str) -> Resolved:
        """Where all messages with one key go, as far as that is the same for all of them."""
        message = RoutedMessage((key,), None, exchange.name)
        reached = self._topology.resolve(exchange, message)
        if reached.by_message:
            return BY_MESSAGE
        if reached.deciding is not None:
            return self._decision(reached.deciding)
        queues = [each.engine for each in self._states(exchange, reached, message)]
        if not reached.filtered:
            return queues
        filtered = [(wanted, self._engine_of(name)) for wanted, name in reached.filtered]
        made_of = tuple(map(id, queues)), tuple((id(one), id(queue)) for one, queue in filtered)
        found = self._forks.get(made_of)
        if found is None or found.amended:
            self._count(len(filtered))
            found = self._forks[made_of] = self._engine.conditional_route(queues, filtered)
        return found

    def _count(self, members: int) -> None:
        """Forget all routes when too much was made, and so what was made for them."""
        self._members += members
        if self._members > MEMBERS_MAX:
            self._members = members
            for exchange in self._topology.exchanges.values():
                exchange.routes.forget()

    def _decision(self, filters: list[Filter]) -> FilterOutcomes:
        """One for the same filters, however many keys they matter to."""
        made_of = tuple(map(id, filters))
        found = self._decisions.get(made_of)
        if found is None:
            self._count(len(filters))
            found = self._decisions[made_of] = self._engine.filter_outcomes(filters)
        return found

    def _engine_of(self, name: str) -> Queue:
        """Return the engine's half of what the topology has among its queues."""
        return (self._verdict_queues.get(name) or self._queues[name]).engine

    def _states(
        self, exchange: ExchangeState, reached: Reached, message: RoutedMessage
    ) -> list[Target]:
        answers = message.outcomes
        if answers:
            count, passed, failed = len(answers), answers.count(1), answers.count(-1)
            self._engine.publishing.filters.note(count, count, passed, failed)
            exchange.routes.counters.note(count, count, passed, failed)
        kept = self._kept(reached.keepers)
        held = map(self._held, reached.delaying)
        return [*self._named(reached.queues), *kept, *held]

    def _named(self, names: list[str]) -> list[QueueState | VerdictQueueState]:
        """Queues by their names; one that has the message anyhow needs no verdict."""
        if not self._verdict_queues:
            return [self._queues[name] for name in names]
        waiting = [self._verdict_queues[name] for name in names if name in self._verdict_queues]
        return [
            *(self._queues[name] for name in names if name not in self._verdict_queues),
            *(each for each in waiting if each.name not in names),
        ]
