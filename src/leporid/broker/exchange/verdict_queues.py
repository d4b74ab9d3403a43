"""Verdict queues: one for each binding of a virtual host that has a filter class.

Responsible for making and dropping them. Must not know who judges, nor what a class decides.
Invariant: the verdict queue of a durable binding has an id that no queue ever had, recorded before
it has a message; it goes with its destination, or after its binding when the last message was
judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from leporid.broker.exchange.exchange import ExchangeState
from leporid.broker.filter.filter_arguments import class_of
from leporid.broker.queue.queue import QueueState
from leporid.broker.stored import StoredVerdictQueue

if TYPE_CHECKING:
    from leporid.broker.exchange.types import Binding
    from leporid.broker.registry import StepsTo
    from leporid.broker.stored import Recorder
    from leporid.broker.vhost import VirtualHost
    from leporid.engine.internal.verdict_queue import VerdictQueue
    from leporid.engine.queue.queue import Queue

K = TypeVar("K")

PREFIX: Final = "\udc00"
"""Before the names of these places: no client can say it, as it is not UTF-8."""


@dataclass(eq=False)
class VerdictQueueState:
    """Where messages of a binding wait for verdicts; it is one of the queues of a route.

    Attributes:
        binding: whose messages wait.
        key: its name for the topology.
        id: its number in the definitions, 0 without one.
        engine: the engine's half.
    """

    binding: Binding
    key: str
    id: int
    engine: VerdictQueue

    @property
    def name(self) -> str:
        """The queue that messages are on their way to; empty where that is an exchange."""
        return self.binding.destination if self.binding.destination_kind == "queue" else ""


class VerdictQueues:
    """The places of one virtual host.

    Args:
        vhost: it.
        recorder: told of places that must be there after a restart.
        new_id: gives a number that no queue ever had.
    """

    def __init__(self, vhost: VirtualHost, recorder: Recorder, new_id: Callable[[], int]) -> None:
        self._vhost = vhost
        self._recorder = recorder
        self._new_id = new_id
        self._by_binding: dict[Binding, VerdictQueueState] = {}
        self._by_key: dict[str, VerdictQueueState] = {}
        self._by_class: dict[str, dict[VerdictQueueState, None]] = {}
        self._by_destination: dict[tuple[str, str], dict[VerdictQueueState, None]] = {}
        # Whose bindings are not there, or not any more.
        self._leaving: dict[VerdictQueueState, None] = {}
        self._made = 0

    def __iter__(self) -> Iterator[VerdictQueueState]:
        return iter(self._by_binding.values())

    @property
    def by_key(self) -> Mapping[str, VerdictQueueState]:
        """All of them, by their names for the topology."""
        return self._by_key

    def begin(
        self, binding: Binding, source: ExchangeState, destination: ExchangeState | QueueState
    ) -> VerdictQueueState | None:
        """A binding is made: return where its messages wait; None if it asks no class.

        What still waits for a verdict from when there was such a binding before is judged first.
        """
        if class_of(binding.arguments) is None:
            return None
        found = self._by_binding.get(binding)
        if found is None:
            number = self._new_id() if source.durable and destination.durable else 0
            if number:
                self._recorder.put(StoredVerdictQueue.of(number, self._vhost.name, binding))
            found = self.restore(number, binding, destination)
        self._leaving.pop(found, None)
        return found

    def restore(
        self, number: int, binding: Binding, destination: ExchangeState | QueueState
    ) -> VerdictQueueState:
        """Make the place of a binding; nothing is recorded. It leaves unless `begin` is called."""
        name = class_of(binding.arguments) or ""
        routing = self._vhost.routing
        to_queue = binding.destination_kind == "queue"

        def elsewhere(published_to: str, keys: Sequence[str], properties: bytes) -> list[Queue]:
            # By its name: it may be gone while something of the binding waits.
            asked = self._vhost.find_exchange(binding.source) if to_queue else destination
            if not isinstance(asked, ExchangeState):
                return []
            return routing.alternate(asked, published_to, keys, properties)

        if isinstance(destination, QueueState):
            engine = self._vhost.engine.verdict_queue(
                number, name, destination.engine, None, elsewhere
            )
        else:
            exchange = destination

            def routed(
                published_to: str, keys: Sequence[str], properties: bytes
            ) -> StepsTo[list[Queue]]:
                return routing.going_beyond(exchange, published_to, keys, properties)

            engine = self._vhost.engine.verdict_queue(number, name, None, routed, elsewhere)
        self._made += 1
        found = VerdictQueueState(binding, f"{PREFIX}{self._made}", number, engine)
        self._leaving[found] = None
        self._by_binding[binding] = self._by_key[found.key] = found
        self._by_class.setdefault(name, {})[found] = None
        goal = binding.destination_kind, binding.destination
        self._by_destination.setdefault(goal, {})[found] = None
        return found

    def end(self, binding: Binding) -> None:
        """A binding is gone: its verdict queue goes when all its messages were judged."""
        found = self._by_binding.get(binding)
        if found is not None:
            self._leaving[found] = None
            self._settle(found)

    def destination_gone(self, destination: ExchangeState | QueueState) -> None:
        """A queue or exchange is gone: so are the verdict queues that lead there."""
        kind = "queue" if isinstance(destination, QueueState) else "exchange"
        for found in list(self._by_destination.get((kind, destination.name), ())):
            self._drop(found)

    def settle(self) -> None:
        """Drop the empty ones among those whose binding is gone."""
        for found in list(self._leaving):
            self._settle(found)

    def _settle(self, found: VerdictQueueState) -> None:
        if not found.engine.ready_count + found.engine.unacked_count:
            self._drop(found)

    def close_all(self) -> None:
        """The virtual host is going."""
        for found in list(self):
            self._drop(found)

    def of(self, name: str) -> list[VerdictQueueState]:
        """Return those of one class."""
        return list(self._by_class.get(name, ()))

    def leaves(self, found: VerdictQueueState) -> bool:
        """Say whether the binding of one is gone, and only what waits in it is judged."""
        return found in self._leaving

    def _drop(self, found: VerdictQueueState) -> None:
        del self._by_binding[found.binding], self._by_key[found.key]
        self._leaving.pop(found, None)
        _discard(self._by_class, found.engine.name, found)
        goal = found.binding.destination_kind, found.binding.destination
        _discard(self._by_destination, goal, found)
        found.engine.retire()
        if found.id:
            self._recorder.drop(StoredVerdictQueue, found.id)


def _discard(
    index: dict[K, dict[VerdictQueueState, None]], key: K, found: VerdictQueueState
) -> None:
    """Take a place out of an index, and the key with its last place."""
    others = index[key]
    del others[found]
    if not others:
        del index[key]
