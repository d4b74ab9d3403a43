"""Notices of the broker (events, traced messages) that wait to be published.

Responsible for how many may wait, and for publishing them in later turns, in order, a slice at a
time: whoever notes something is in the middle of it. Must not know what they say. Invariants: what
waits has limits, beyond which messages are dropped and counted; the log says so once until all that
waited is published; nothing is raised to who notes something.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from leporid.amqp.properties import Properties, encode_properties
from leporid.amqp.tables import MAX_TABLE_BYTES
from leporid.engine.bounds.jobs import AWAITS
from leporid.engine.wire.headers import header_of

if TYPE_CHECKING:
    from leporid.broker.exchange.exchange import ExchangeState
    from leporid.broker.registry import Steps
    from leporid.broker.vhost import VirtualHost
    from leporid.engine.engine import Engine

logger = logging.getLogger(__name__)

MESSAGES_MAX: Final = 10_000
"""Some tenths of a second's work."""

BYTES_MAX: Final = 16 * 1024 * 1024
"""Of what messages copy, and of what they take besides."""

MESSAGE_BYTES: Final = 1024
"""What a message takes beside what it copies."""


class Notice(NamedTuple):
    """A message to be published.

    Attributes:
        exchange: a system exchange of the virtual host.
        properties: those of a traced message are encoded.
        size: bytes that it copies.
    """

    vhost: VirtualHost
    exchange: ExchangeState
    key: str
    properties: Properties | bytes
    body: bytes
    size: int


class Outbox:
    """Messages of one kind.

    Args:
        engine: where they are published.
        title: what they are called in the log.

    Attributes:
        dropped: how many there was no room for since the start.
        published: how many were published, or came to no queue.
    """

    def __init__(self, engine: Engine, title: str) -> None:
        self.dropped = 0
        self.published = 0
        self._engine = engine
        self._title = title
        self._waiting: deque[Notice] = deque()
        self._bytes = 0
        self._sending = False
        self._told = False

    def __repr__(self) -> str:
        return f"<Outbox of {self._title}: {len(self._waiting)} wait, {self.dropped} dropped>"

    def admits(self, size: int) -> bool:
        """Whether there is room for a message that copies so many bytes; if not, it is counted."""
        room = len(self._waiting) < MESSAGES_MAX
        if room and self._bytes + size + MESSAGE_BYTES <= BYTES_MAX:
            return True
        self.drop("too many wait to be published")
        return False

    def drop(self, why: str) -> None:
        """Count a message that is not published; the log says why, the first time."""
        self.dropped += 1
        if not self._told:
            self._told = True
            logger.warning("%s are dropped: %s; further ones are counted only", self._title, why)

    def put(self, notice: Notice) -> None:
        """Have a message published, for which `admits` said that there is room."""
        self._waiting.append(notice)
        self._bytes += notice.size + MESSAGE_BYTES
        if not self._sending:
            self._sending = True
            self._engine.jobs.start(self._publishing())

    def _publishing(self) -> Steps:
        yield AWAITS  # not now: whoever noted it may be in the middle of a queue
        while self._waiting:
            notice = self._waiting.popleft()
            self._bytes -= notice.size + MESSAGE_BYTES
            try:
                yield from self._publish(notice)
            except Exception:
                logger.exception("defect: one of %s was not published", self._title)
            yield None
        self._sending = self._told = False

    def _publish(self, notice: Notice) -> Steps:
        exchange, key, routing = notice.exchange, notice.key, notice.vhost.routing
        if exchange.deleted:
            return
        properties = _encoded(notice.properties)
        if properties is None:
            self.drop("their headers are too large or too deep")
            return
        found = yield from routing.finding(exchange, [key], properties)
        queues = [each.engine for each in found if not each.engine.retired]
        storing = self._engine.storing(queues, exchange.name, key, properties, notice.body)
        queues, body = yield from storing
        if queues:
            self._engine.publish(queues, exchange.name, key, properties, body)
        self.published += 1


def _encoded(properties: Properties | bytes) -> bytes | None:
    """Encode properties; None if nobody could read them.

    A traced message's own headers, which may be nearly as large and as deep as there are, stand
    inside.
    """
    try:
        raw = properties if isinstance(properties, bytes) else encode_properties(properties)
        header_of(raw, b"")
    except ValueError:
        return None
    return raw if len(raw) <= MAX_TABLE_BYTES else None
