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
from leporid.broker.exchange.delays import DelaysState
from leporid.broker.exchange.exchange import DEFAULT_EXCHANGE
from leporid.broker.exchange.history import CacheState, HistoryState
from leporid.broker.exchange.types import Binding, RoutedMessage
from leporid.broker.exchange.verdict_queues import VerdictQueueState
from leporid.broker.queue.queue import QueueState
from leporid.broker.registry import StepsTo, finished
from leporid.engine.bounds.sharded_dict import ShardedDict
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

NAMES_A_STEP: Final = 512
"""Queues that are found by their names; each takes 0.15 microseconds."""

FILTERS_A_STEP: Final = 32
"""Filters that are put together; each takes 4 microseconds."""

MEMBERS_MAX: Final = 250_000
"""Filters in all routes that are kept, each as often as there are routes with it that are not the
same: some 800 bytes each. A thousand filters that matter to thousands of keys, each of which leads
to a queue of its own besides, would be as many times more."""

ROUTE_MEMBERS_MAX: Final = MEMBERS_MAX // 4
"""Filters in one route that is kept. With more, all routes would be forgotten while it is made."""


def _engines(queues: list[QueueState]) -> list[Queue]:
    return [queue.engine for queue in queues]


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
        queues: ShardedDict[str, QueueState],
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
        topology.clock = engine.clock

    def resolving(
        self, exchange: ExchangeState, key: str, properties: bytes | None
    ) -> StepsTo[Resolved]:
        """Answer the engine, which asks about a message, or about all messages with one key."""
        try:
            if properties is None:
                return (yield from self._of_key(exchange, key))
            return (yield from self.routing(exchange, (key,), properties))
        except Fault as fault:
            raise fault.blame(BasicPublish) from None

    def follow_bindings(self, exchange: ExchangeState) -> None:
        """Have the engine follow bindings itself where these say all (`RouteCache.met_by`).

        A queue is its own binding to the default exchange.
        """
        if exchange.name == DEFAULT_EXCHANGE:
            exchange.routes.met_by = self._named
            exchange.routes.queues_met = _engines
        else:
            exchange.routes.queues_met = self._queues_met

    def _named(self, key: str) -> list[QueueState]:
        queue = self._queues.get(key)
        return [] if queue is None else [queue]

    def _queues_met(self, met: list[Binding]) -> list[Queue] | None:
        """Return the queues of messages that meet some bindings; None: a filter has a say in it."""
        names: dict[str, None] = {}
        for binding in met:
            if binding.filtered:
                return None
            names[binding.destination] = None
        found = [self._queues.get(name) for name in names]
        return [queue.engine for queue in found if queue is not None]

    def routing(
        self, exchange: ExchangeState, keys: Sequence[str], properties: bytes
    ) -> StepsTo[list[Queue]]:
        """Return the engine's queues for a message, each once.

        Raises:
            PreconditionFailed: the exchange takes no such key.
        """
        message = RoutedMessage(keys, properties, exchange.name)
        reached = yield from self._topology.resolving(exchange, message)
        found = yield from self._states(exchange, reached, message)
        return [each.engine for each in found]

    def finding(
        self, exchange: ExchangeState, keys: Sequence[str], properties: bytes
    ) -> StepsTo[list[Target]]:
        """The same, as the rules know the queues."""
        message = RoutedMessage(keys, properties, exchange.name)
        reached = yield from self._topology.resolving(exchange, message)
        return (yield from self._states(exchange, reached, message))

    def going_beyond(
        self, exchange: ExchangeState, published_to: str, keys: Sequence[str], properties: bytes
    ) -> StepsTo[list[Queue]]:
        """Return the queues for a message that comes to an exchange, published to it or not."""
        message = RoutedMessage(keys, properties, published_to)
        if exchange.delaying and message.delay_ms:
            return [self._held(exchange).engine]
        reached = yield from self._topology.reaching(exchange, message)
        found = yield from self._states(exchange, reached, message)
        return [each.engine for each in found if not each.engine.retired]

    def routing_due(
        self, exchange: ExchangeState, published_to: str, keys: Sequence[str], properties: bytes
    ) -> StepsTo[list[Queue]]:
        """Return the queues for a message that waited in an exchange, and does not any more."""
        message = RoutedMessage(keys, properties, published_to)
        reached = yield from self._topology.reaching(exchange, message)
        found = yield from self._states(exchange, reached, message)
        return [each.engine for each in found]

    def alternating(
        self, exchange: ExchangeState, published_to: str, keys: Sequence[str], properties: bytes
    ) -> StepsTo[list[Queue]]:
        """Return the queues that an alternate exchange has for a message; none without one.

        For what no queue of the exchange takes although it has some. Nothing is raised: there is
        nobody who could be told.
        """
        if exchange.alternate is None:
            return []
        below = self._topology.exchanges.get(exchange.alternate)
        if below is None:
            return []
        try:
            return (yield from self.going_beyond(below, published_to, keys, properties))
        except Fault:
            return []

    def alternate(
        self, exchange: ExchangeState, published_to: str, keys: Sequence[str], properties: bytes
    ) -> list[Queue]:
        """The same in one go."""
        return finished(self.alternating(exchange, published_to, keys, properties))

    def _of_key(self, exchange: ExchangeState, key: str) -> StepsTo[Resolved]:
        """Where all messages with one key go, as far as that is the same for all of them."""
        message = RoutedMessage((key,), None, exchange.name)
        changes = self._topology.changes
        reached = yield from self._topology.resolving(exchange, message)
        if reached.by_message:
            return BY_MESSAGE
        if reached.deciding is not None:
            if len(reached.deciding) > ROUTE_MEMBERS_MAX:
                return BY_MESSAGE
            return (yield from self._decision(reached.deciding))
        found = yield from self._states(exchange, reached, message)
        queues = [each.engine for each in found]
        some = reached.filtered
        if not some:
            return queues
        if len(some) > ROUTE_MEMBERS_MAX:
            return BY_MESSAGE
        if changes != self._topology.changes:
            some = [each for each in some if self._is_there(each[1])]
        filtered = [(wanted, self._engine_of(name)) for wanted, name in some]
        # Of this exchange only: what is bound to it later becomes a part of it.
        made_of = (
            id(exchange),
            tuple(map(id, queues)),
            tuple((id(one), id(queue)) for one, queue in filtered),
        )
        fork = self._forks.get(made_of)
        if fork is None or fork.amended:
            self._count(len(filtered))
            fork = self._engine.conditional_route(queues, filtered[:FILTERS_A_STEP])
            for at in range(FILTERS_A_STEP, len(filtered), FILTERS_A_STEP):
                yield None
                fork.extend(filtered[at : at + FILTERS_A_STEP])
        if changes != self._topology.changes and (
            any(queue.retired for queue in queues) or any(queue.retired for _, queue in filtered)
        ):
            return BY_MESSAGE  # this one: what has changed is not kept
        self._forks[made_of] = fork
        return fork

    def _count(self, members: int) -> None:
        """Forget all routes when too much was made, and so what was made for them."""
        self._members += members
        if self._members > MEMBERS_MAX:
            self._members = members
            for exchange in self._topology.exchanges.values():
                exchange.routes.forget()

    def _decision(self, filters: list[Filter]) -> StepsTo[FilterOutcomes]:
        """One for the same filters, however many keys they matter to."""
        made_of = tuple(map(id, filters))
        found = self._decisions.get(made_of)
        if found is None:
            self._count(len(filters))
            found = self._engine.filter_outcomes(filters[:FILTERS_A_STEP])
            for at in range(FILTERS_A_STEP, len(filters), FILTERS_A_STEP):
                yield None
                found.extend(filters[at : at + FILTERS_A_STEP])
            self._decisions[made_of] = found
        return found

    def _engine_of(self, name: str) -> Queue:
        """Return the engine's half of what the topology has among its queues."""
        return (self._verdict_queues.get(name) or self._queues[name]).engine

    def _is_there(self, name: str) -> bool:
        return name in self._verdict_queues or name in self._queues

    def _states(
        self, exchange: ExchangeState, reached: Reached, message: RoutedMessage
    ) -> StepsTo[list[Target]]:
        """What a message comes to, without what was deleted while that was found."""
        answers = message.outcomes
        if answers:
            count, passed, failed = len(answers), answers.count(1), answers.count(-1)
            self._engine.publishing.filters.note(count, count, passed, failed)
            exchange.routes.counters.note(count, count, passed, failed)
        found: list[Target] = []
        waiting: list[VerdictQueueState] = []
        names = reached.queues
        for at in range(0, len(names), NAMES_A_STEP):
            if at:
                yield None
            for name in names[at : at + NAMES_A_STEP]:
                queue = self._queues.get(name)
                if queue is not None:
                    found.append(queue)
                elif name in self._verdict_queues:
                    waiting.append(self._verdict_queues[name])
        if waiting:
            # One that has the message anyhow needs no verdict.
            having = frozenset(names)
            found += [each for each in waiting if each.name not in having]
        found += self._kept(reached.keepers)
        found += [self._held(each) for each in reached.delaying if not each.deleted]
        return found
