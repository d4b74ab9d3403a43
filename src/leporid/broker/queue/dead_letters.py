"""Dead letters: what becomes of a message that leaves a queue without being acknowledged.

Responsible for the headers that say where it died and for where it goes next, both as RabbitMQ
writes them (x-death, x-first-death-* and x-last-death-*). Must not know why the engine let it go;
the reason is a word. Invariant: a message that would only go round among queues by itself, with no
consumer ever rejecting it, is dropped; whatever a publisher has written into the headers, nothing
is raised; and every letter is counted, with the cause if it comes to no queue.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from leporid.amqp.errors import PreconditionFailed
from leporid.amqp.tables import MAX_TABLE_BYTES
from leporid.engine.internal.delays import delay_of
from leporid.engine.wire.headers import (
    Deaths,
    array_value,
    expiration_of,
    header_of,
    number_value,
    table_value,
    text_value,
    texts_in,
    with_headers,
)
from leporid.engine.wire.rewrites import DelayTooLong

if TYPE_CHECKING:
    from leporid.broker.exchange.exchange import ExchangeState
    from leporid.broker.exchange.routing import Target
    from leporid.broker.registry import StepsTo
    from leporid.broker.vhost import VirtualHost
    from leporid.engine.queue.queue import Queue

logger = logging.getLogger(__name__)

REJECTED: Final = "rejected"


@dataclass(slots=True)
class DeadLetterCounts:
    """How many messages died since the broker started, where there was somewhere to send them."""

    deaths: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By reason, and module of the type of queue, as RabbitMQ calls it."""
    dropped: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Those of them that came to no queue, by reason and cause."""


TARGETS_MAX: Final = 100
"""Of one queue, that are counted one by one; clients and policies may name any number."""

OTHER_TARGETS: Final = "(others)"
"""The exchange under which the dead letters for all further targets are counted."""


class DeadLetterKey(NamedTuple):
    """What dead letters of one queue are counted by.

    Attributes:
        exchange: where they went.
        key: the routing key that took the place of their own; None: nothing did.
    """

    reason: str
    exchange: str
    key: str | None


@dataclass(slots=True)
class DeadLetterCount:
    """How many messages died for one reason on the way to one target; and came to no queue."""

    letters: int = 0
    dropped: int = 0


class DeadLetterTotals:
    """The dead letters of one queue since the broker started.

    Attributes:
        by_reason: how many died, whatever their targets.
    """

    __slots__ = ("_counts", "by_reason")

    def __init__(self) -> None:
        self.by_reason: Counter[str] = Counter()
        self._counts: dict[DeadLetterKey, DeadLetterCount] = {}

    def __repr__(self) -> str:
        return f"<DeadLetterTotals {sum(each.letters for each in self._counts.values())}>"

    def add(self, key: DeadLetterKey, *, dropped: bool) -> None:
        """Count one more."""
        self.by_reason[key.reason] += 1
        found = self._counts.get(key)
        if found is None:
            if len(self._counts) >= TARGETS_MAX:
                key = DeadLetterKey(key.reason, OTHER_TARGETS, None)
            found = self._counts.setdefault(key, DeadLetterCount())
        found.letters += 1
        found.dropped += dropped

    def items(self) -> list[tuple[DeadLetterKey, DeadLetterCount]]:
        """Return what was counted, as of now."""
        return list(self._counts.items())

    def __len__(self) -> int:
        return len(self._counts)


class DeadLetters:
    """Where the dead letters of one queue go; the engine calls it for each.

    Args:
        vhost: where its exchange is looked up, each time: it may come later than the queue.
        name: of the queue that messages die in.
        title: of that queue, for texts.
        module: of its type, as RabbitMQ calls it.
        wall_ms: the time now, for the headers.
        exchange: its name.
        key: what takes the place of the routing key, if anything does.
    """

    def __init__(
        self,
        vhost: VirtualHost,
        *,
        name: str,
        title: str,
        module: str,
        wall_ms: Callable[[], int],
        exchange: str,
        key: str | None,
    ) -> None:
        self._vhost = vhost
        self._name = name
        self._title = title
        self._module = module
        self._wall_ms = wall_ms
        self._exchange = exchange
        self._key = key
        self._told = False

    def __call__(
        self, reason: str, exchange: str, key: str, properties: bytes, body: bytes
    ) -> StepsTo[None]:
        """A message died; in the last step, publish it to the dead-letter exchange, if it is there.

        What is not finished was not published: the message was purged meanwhile. A large body is no
        bytes, but the engine's memory with it.
        Raises nothing: the engine is in the middle of a queue, and one message must not stall
        others. A message that defeats us is dropped, and that is logged as the defect it is.
        """
        counts = self._vhost.dead_letter_counts
        try:
            cause = yield from self._publish(reason, exchange, key, properties, body)
        except Exception:
            logger.exception("defect: a dead letter of %s was dropped", self._title)
            cause = "defect"
        counts.deaths[reason, self._module] += 1
        if cause is not None:
            counts.dropped[reason, cause] += 1
        queue = self._vhost.find_queue(self._died_in(properties))
        if queue is not None:
            target = DeadLetterKey(reason, self._exchange, self._key)
            queue.dead_lettered.add(target, dropped=cause is not None)

    def _publish(
        self, reason: str, exchange: str, key: str, properties: bytes, body: bytes
    ) -> StepsTo[str | None]:
        """Publish a letter in the last step; returns why it came to no queue, or None."""
        target = self._vhost.find_exchange(self._exchange)
        if target is None:
            self._tell()
            return "no_exchange"
        self._told = False
        keys, changed, circle = self._letter(reason, exchange, key, properties)
        if len(changed) > MAX_TABLE_BYTES:
            # It died in so many queues that nobody could read its headers any more.
            return "too_large"
        try:
            found = yield from self._route(target, keys, changed)
        except DelayTooLong:
            return "delay_too_long"
        except PreconditionFailed:
            return "invalid_key"  # of an exchange with strict keys
        queues = [each.engine for each in found if each.name not in circle]
        first = self._key if self._key is not None else key
        engine, routing = self._vhost.engine, self._vhost.routing
        others: list[Queue] = []
        if target.alternate is not None and any(each.overflow for each in queues):
            # No queue may take the letter: where it goes then may take as long to find.
            others = yield from routing.alternating(target, self._exchange, keys, changed)
            queues = [each for each in queues if not each.retired]

        def elsewhere() -> list[Queue]:
            return [each for each in others if each.name not in circle and not each.retired]

        left, stored = yield from engine.storing(queues, self._exchange, first, changed, body)
        in_streams = len(left) < len(queues)
        if in_streams and not left:
            return None
        if (
            engine.publish(
                left,
                self._exchange,
                first,
                changed,
                stored,
                elsewhere=None if in_streams else elsewhere,
            )
            or in_streams
        ):
            return None
        if queues:
            return "refused"
        return "cycle" if found else "no_queue"

    def _letter(
        self, reason: str, exchange: str, key: str, properties: bytes
    ) -> tuple[list[str], bytes, AbstractSet[str]]:
        """Write a letter.

        Returns:
            Its routing keys, its properties, and the names of the queues that it must not go to: it
            would only go round.
        """
        copies = texts_in(header_of(properties, b"CC"))
        died_in = self._died_in(properties)
        deaths = Deaths(header_of(properties, b"x-death"), died_in, reason)
        keys = [key, *copies]
        changes: dict[bytes, bytes | None] = {}
        text = {b"reason": reason, b"queue": died_in, b"exchange": exchange}
        for which in (b"first", b"last") if deaths.first else (b"last",):
            for name, value in text.items():
                changes[b"x-%s-death-%s" % (which, name)] = text_value(value)
        death = deaths.own
        if death is None:
            death = self._death(properties, text, keys)
        changes[b"x-death"] = array_value([death, deaths.others])
        if self._key is not None:
            keys = [self._key]
            changes[b"CC"] = None
        changed = with_headers(properties, changes, expires=False)
        return keys, changed, frozenset() if reason == REJECTED else deaths.before | {died_in}

    def _died_in(self, _properties: bytes) -> str:
        """Return the name of the queue that a message with these properties died in."""
        return self._name

    def _death(self, properties: bytes, text: Mapping[bytes, str], keys: Sequence[str]) -> bytes:
        """Return an entry of x-death for the first death in a queue for a reason."""
        death = {
            b"count": number_value(1),
            b"reason": text_value(text[b"reason"]),
            b"queue": text_value(text[b"queue"]),
            b"time": number_value(self._wall_ms() // 1000, b"T"),
            b"exchange": text_value(text[b"exchange"]),
            b"routing-keys": array_value([text_value(each) for each in keys]),
        }
        expiration = expiration_of(properties)
        if expiration is not None:
            death[b"original-expiration"] = text_value(expiration)
        return table_value(death)

    def _route(
        self, target: ExchangeState, keys: Sequence[str], properties: bytes
    ) -> StepsTo[list[Target]]:
        if target.delaying and delay_of(properties):
            for key in keys:
                target.router.check_published(key)
            return [self._vhost.delay_stores.held(target)]
        found = yield from self._vhost.routing.finding(target, keys, properties)
        # Between two steps, a queue may be deleted.
        return [each for each in found if not each.engine.retired]

    def _tell(self) -> None:
        """Say once that letters are lost: it may be a spelling mistake."""
        if not self._told:
            self._told = True
            logger.warning(
                "dead letters of %s are dropped: there is no exchange '%s'",
                self._title,
                self._exchange,
            )
