"""The delayed messages of the exchanges of one virtual host.

Responsible for the store of each exchange that has delayed messages, and for listing and cancelling
them. Must not know when a message is due or how it is stored: the engine does. Invariant: the store
of a durable exchange has an id that no queue ever had, recorded before it has a message; a store
goes with its exchange.
"""

from __future__ import annotations

import logging
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from leporid.broker.stored import StoredDelays
from leporid.engine.internal.delays import DelayTotals

if TYPE_CHECKING:
    from leporid.broker.exchange.exchange import ExchangeState
    from leporid.broker.registry import StepsTo
    from leporid.broker.stored import Recorder
    from leporid.engine.engine import Engine
    from leporid.engine.internal.delays import Delays
    from leporid.engine.queue.queue import Queue
    from leporid.engine.routing.route_cache import RouteCache

logger = logging.getLogger(__name__)

LIST_MAX: Final = 1000
"""Messages that one call lists: each is looked up in the log."""

CANCELLED_MAX: Final = 10_000
"""Ids of cancelled messages that are remembered, for who asks once more."""

_ID: Final = re.compile(r"([0-9a-f]{1,16})-([0-9a-f]{1,16})")


@dataclass(frozen=True, slots=True)
class DelayedMessage:
    """A message that waits.

    Attributes:
        id: its name, the same after a restart.
        due_ms: when it is due, in Unix time.
        came_ms: when it was published.
        exchange: that it was published to, which may be one above the exchange it waits in.
        properties: encoded, as they came.
    """

    id: str
    due_ms: int
    came_ms: int
    exchange: str
    routing_key: str
    body_bytes: int
    properties: bytes


@dataclass(frozen=True, slots=True)
class DelayedContent:
    """What is in a message that waits.

    Attributes:
        properties: encoded, as they came.
    """

    properties: bytes
    body: bytes


class DelayStatistics(NamedTuple):
    """What there is to know about the delayed messages of an exchange, or of several.

    All but `waiting` are since the start. What was fired and unroutable came to no queue.
    """

    waiting: int
    fired: int
    cancelled: int
    unroutable: int


class DelayedMessages:
    """The delayed messages of one exchange; `VirtualHost.delays` gives it."""

    def __init__(
        self, exchange: str, store: Delays | None, cancelled: OrderedDict[tuple[str, str], None]
    ) -> None:
        self.exchange = exchange
        self._store = store
        self._cancelled = cancelled

    def __repr__(self) -> str:
        return f"<DelayedMessages exchange={self.exchange!r} count={self.count}>"

    @property
    def count(self) -> int:
        """How many wait."""
        return self._store.ready_count if self._store is not None else 0

    def list(self, limit: int = 100, after: str | None = None) -> list[DelayedMessage]:
        """Return what is due next; see `numbers`."""
        found = map(self.numbered, self.numbers(limit, after))
        return [each for each in found if each is not None]

    def numbers(self, limit: int, after: str | None) -> Sequence[int]:
        """Return the numbers of what is due next, in the order in which it will be fired.

        Args:
            limit: how many at most; never more than `LIST_MAX`.
            after: the id of the last one that is known already. It may be gone; those that are
                due at nearly the same moment are listed once more then.

        Raises:
            ValueError: `after` is no id.
        """
        known = None if after is None else place_of(after)
        if self._store is None:
            return []
        if after is not None and known is None:
            raise ValueError(f"{after!r} is not the id of a delayed message")
        return self._store.upcoming(min(limit, LIST_MAX), known)

    def peek(self, message_id: str) -> DelayedMessage | None:
        """Return the message of that id; None if it does not wait, or not any more."""
        place = place_of(message_id)
        found = None if place is None else self._message(place[1])
        return found if found is not None and found.id == message_id else None

    def content(self, message_id: str) -> DelayedContent | None:
        """Return what is in the message of that id; None if it does not wait, or not any more."""
        place = place_of(message_id)
        if self.peek(message_id) is None or place is None or self._store is None:
            return None
        return DelayedContent(*self._store.content(place[1]))

    def cancel(self, message_id: str) -> bool:
        """Drop the message of that id, durably; returns whether it was there.

        It never comes from now on. Whoever has to know that a power cut cannot bring it back
        waits for the generation that `Engine.note_change` gives next.
        """
        found = self.peek(message_id)
        place = place_of(message_id)
        if found is None or place is None or self._store is None:
            return False
        self._cancelled[self.exchange, message_id] = None
        if len(self._cancelled) > CANCELLED_MAX:
            self._cancelled.popitem(last=False)
        return self._store.cancel(place[1])

    def was_cancelled(self, message_id: str) -> bool:
        """Say whether the message of that id was cancelled, as far as that is remembered."""
        return (self.exchange, message_id) in self._cancelled

    @property
    def store(self) -> Delays | None:
        """Where they wait; None if none ever did."""
        return self._store

    def numbered(self, number: int) -> DelayedMessage | None:
        """Return the message of a number of the store's; None if it does not wait any more."""
        return self._message(number)

    def statistics(self) -> DelayStatistics:
        """Count."""
        store = self._store
        if store is None:
            return DelayStatistics(0, 0, 0, 0)
        return DelayStatistics(store.ready_count, store.fired, store.cancelled, store.unroutable)

    def _message(self, number: int) -> DelayedMessage | None:
        found = None if self._store is None else self._store.message(number)
        if found is None:
            return None
        due_ms, came_ms, exchange, key, body_bytes, properties = found
        name = id_of(due_ms, number)
        return DelayedMessage(name, due_ms, came_ms, exchange, key, body_bytes, properties)


def id_of(due_ms: int, number: int) -> str:
    """Return the id of a message that is due then, by its number in the store."""
    return f"{due_ms:x}-{number:x}"


def place_of(message_id: str) -> tuple[int, int] | None:
    """Return when a message is due, and its number; None if that is no id.

    The moment is in it because numbers may be given again after a restart that found the store
    empty.
    """
    found = _ID.fullmatch(message_id)
    return None if found is None else (int(found[1], 16), int(found[2], 16))


class DelaysState:
    """An exchange that keeps a message for some time; stands among the queues of a route.

    Attributes:
        name: For messages that say in which queues they died: none ever died here.
        engine: The engine's half.
    """

    name: Final = ""

    def __init__(self, engine: Delays) -> None:
        self.engine = engine


class DelayStores:
    """Where the exchanges of one virtual host keep what waits; made when something has to.

    Args:
        engine: the engine.
        recorder: told of stores that must be there after a restart.
        new_id: gives a number that no queue ever had.
        routing: gives the queues for a message that waited in an exchange, by what it was published
            to, its keys and its properties.
        alternate: gives those that its alternate exchange has for it.
    """

    def __init__(
        self,
        engine: Engine,
        recorder: Recorder,
        new_id: Callable[[], int],
        routing: Callable[[ExchangeState, str, Sequence[str], bytes], StepsTo[list[Queue]]],
        alternate: Callable[[ExchangeState, str, Sequence[str], bytes], list[Queue]],
    ) -> None:
        self._engine = engine
        self._recorder = recorder
        self._new_id = new_id
        self._routing = routing
        self._alternate = alternate
        self._stores: dict[str, tuple[int, Delays]] = {}
        self._cancelled: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._totals = DelayTotals()

    def prepare(self, exchange: ExchangeState, routes: RouteCache) -> None:
        """An exchange was made: the engine may ask for its store."""
        routes.delaying = exchange.delaying
        routes.make_delays = lambda: self.of(exchange)
        # Asked before a message waits: when it is routed there is nobody to be told.
        routes.check_key = exchange.router.check_published if exchange.router.strict_keys else None

    def of(self, exchange: ExchangeState) -> Delays:
        """Return the store of an exchange, made if there is none."""
        found = self._stores.get(exchange.name)
        if found is not None:
            return found[1]
        number = self._new_id() if exchange.durable else 0
        if number:
            self._recorder.put(StoredDelays(number, self._recorder.vhost, exchange.name))
        return self.restore(number, exchange)

    def held(self, exchange: ExchangeState) -> DelaysState:
        """Return an exchange as something that messages come to."""
        return DelaysState(self.of(exchange))

    def restore(self, number: int, exchange: ExchangeState) -> Delays:
        """Make the store of an exchange; nothing is recorded."""

        def routed(
            published_to: str, keys: Sequence[str], properties: bytes
        ) -> StepsTo[list[Queue]]:
            return self._routing(exchange, published_to, keys, properties)

        def elsewhere(published_to: str, keys: Sequence[str], properties: bytes) -> list[Queue]:
            return self._alternate(exchange, published_to, keys, properties)

        def count_unroutable() -> None:
            store.on_unroutable = None
            logger.warning(
                "a delayed message of exchange '%s' came to no queue when it was due, and is "
                "dropped; further ones are counted only. An alternate exchange would get them",
                exchange.name,
            )

        store = self._engine.delays(number, exchange.routes, routed, elsewhere)
        store.on_unroutable = count_unroutable
        store.count_delays_in(self._totals)
        self._stores[exchange.name] = number, store
        return store

    def close(self, exchange: ExchangeState) -> None:
        """An exchange is going, and what waits goes with it."""
        number, store = self._stores.pop(exchange.name, (0, None))
        if store is None:
            return
        store.retire()
        if number:
            self._recorder.drop(StoredDelays, number)

    def close_all(self, exchanges: Iterable[ExchangeState]) -> None:
        """All of them are going."""
        for exchange in exchanges:
            self.close(exchange)

    def look(self, exchange: str) -> DelayedMessages:
        """Return the delayed messages of an exchange, which may never have had any."""
        store = self._stores.get(exchange, (0, None))[1]
        return DelayedMessages(exchange, store, self._cancelled)

    def __iter__(self) -> Iterator[DelayedMessages]:
        return (self.look(name) for name in self._stores)

    def statistics(self) -> DelayStatistics:
        """Count those of all exchanges, also of those that are gone."""
        all_ = self._totals
        return DelayStatistics(all_.ready, all_.fired, all_.cancelled, all_.unroutable)
