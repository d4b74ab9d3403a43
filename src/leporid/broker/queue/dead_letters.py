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
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from leporid.amqp.errors import Fault, PreconditionFailed
from leporid.amqp.properties import decode_properties, encode_properties
from leporid.amqp.tables import MAX_TABLE_BYTES, Timestamp, Value
from leporid.engine.internal.delays import delay_of
from leporid.engine.wire.rewrites import DelayTooLong

if TYPE_CHECKING:
    from leporid.broker.exchange.exchange import ExchangeState
    from leporid.broker.exchange.routing import Target
    from leporid.broker.registry import StepsTo
    from leporid.broker.vhost import VirtualHost
    from leporid.engine.queue.queue import Queue

logger = logging.getLogger(__name__)

REJECTED: Final = "rejected"

COUNT_MAX: Final = 2**63 - 1
"""A publisher may claim any number of deaths; this is the highest that has an encoding."""


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

        What is not finished was not published: the message was purged meanwhile.
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
        queue = self._vhost.find_queue(self._name or self._origin(properties))
        if queue is not None:
            target = DeadLetterKey(reason, self._exchange, self._key)
            queue.dead_lettered.add(target, dropped=cause is not None)

    def _origin(self, properties: bytes) -> str:
        """Return the name of the queue that a message died in, for queues of several."""
        try:
            return self._died_in(decode_properties(properties).headers or {})
        except Fault:
            return ""

    def _publish(
        self, reason: str, exchange: str, key: str, properties: bytes, body: bytes
    ) -> StepsTo[str | None]:
        """Publish a letter in the last step; returns why it came to no queue, or None."""
        target = self._vhost.find_exchange(self._exchange)
        if target is None:
            self._tell()
            return "no_exchange"
        self._told = False
        letter = decode_properties(properties)
        headers: dict[str, Value] = dict(letter.headers or {})
        copies = [each for each in _array(headers.get("CC")) if isinstance(each, str)]
        death: dict[str, Value] = {
            "reason": reason,
            "queue": self._died_in(headers),
            "time": Timestamp(self._wall_ms() // 1000),
            "exchange": exchange,
            "routing-keys": [key, *copies],
        }
        if letter.expiration is not None:
            death["original-expiration"] = letter.expiration
        deaths = _with_death(headers, death)
        keys = [key, *copies]
        if self._key is not None:
            keys = [self._key]
            headers.pop("CC", None)
        changed = encode_properties(replace(letter, headers=headers, expiration=None))
        if len(changed) > MAX_TABLE_BYTES:
            # It died in so many queues that nobody could read its headers any more.
            return "too_large"
        try:
            found = yield from self._route(target, keys, changed)
        except DelayTooLong:
            return "delay_too_long"
        except PreconditionFailed:
            return "invalid_key"  # of an exchange with strict keys
        again = reason == REJECTED
        queues = [each.engine for each in found if again or not _is_cycle(each.name, deaths)]
        first = self._key if self._key is not None else key

        def elsewhere() -> list[Queue]:
            found = self._vhost.routing.alternate(target, self._exchange, keys, changed)
            return [each for each in found if again or not _is_cycle(each.name, deaths)]

        if self._vhost.engine.publish(
            queues, self._exchange, first, changed, body, elsewhere=elsewhere
        ):
            return None
        if queues:
            return "refused"
        return "cycle" if found else "no_queue"

    def _died_in(self, _headers: Mapping[str, Value]) -> str:
        """Return the name of the queue that a message with these headers died in."""
        return self._name

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


def _array(value: Value) -> Sequence[Value]:
    return value if isinstance(value, list) else ()


def _with_death(headers: dict[str, Value], death: dict[str, Value]) -> list[Value]:
    """Enter a death into the headers: most recent first, one entry for each queue and reason."""
    known = headers.get("x-death")
    if not isinstance(known, list):
        headers["x-first-death-reason"] = death["reason"]
        headers["x-first-death-queue"] = death["queue"]
        headers["x-first-death-exchange"] = death["exchange"]
        known = []
    headers["x-last-death-reason"] = death["reason"]
    headers["x-last-death-queue"] = death["queue"]
    headers["x-last-death-exchange"] = death["exchange"]
    known = _folded(known)
    same = [each for each in known if _is_same(each, death)]
    others = [each for each in known if not _is_same(each, death)]
    entry: dict[str, Value] = {"count": 1, **death}
    if same and isinstance(same[0], dict):
        count = same[0].get("count")
        before = count if isinstance(count, int) else 0
        entry = {**same[0], "count": min(before, COUNT_MAX - 1) + 1}
    deaths: list[Value] = [entry, *others]
    headers["x-death"] = deaths
    return deaths


def _folded(deaths: Sequence[Value]) -> list[Value]:
    """Make one entry of those of a queue and reason, as RabbitMQ 3 does when there are several.

    The first one stays. If it has no count, it gets the number of its entries, which is 1 for most.
    """
    found: list[Value] = []
    places: dict[str, int] = {}
    entries: Counter[str] = Counter()
    if len(deaths) < 2:
        return list(deaths)
    for death in deaths:
        key = ""
        if isinstance(death, dict):
            # A publisher may claim a queue that is no text, nor anything that has a hash.
            key = repr((death.get("queue"), death.get("reason")))
            entries[key] += 1
        if key not in places:
            found.append(death)
        if key:
            places.setdefault(key, len(found) - 1)
    for key, place in places.items():
        entry = found[place]
        if isinstance(entry, dict) and "count" not in entry:
            found[place] = {**entry, "count": entries[key]}
    return found


def _is_same(entry: Value, death: Mapping[str, Value]) -> bool:
    return (
        isinstance(entry, dict)
        and entry.get("queue") == death["queue"]
        and entry.get("reason") == death["reason"]
    )


def _is_cycle(queue: str, deaths: Sequence[Value]) -> bool:
    """Whether the message died in that queue before, and nobody has rejected it since."""
    for death in deaths:
        if not isinstance(death, dict):
            continue
        if death.get("reason") == REJECTED:
            return False
        if death.get("queue") == queue:
            return True
    return False
