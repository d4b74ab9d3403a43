"""What a group retries: messages that its members gave back, until one of them settles them.

Responsible for the options of retries, for the headers of retried messages, and for dead-lettering
those that came back too often. Must not know members, nor how a message is stored and held (the
engine does). Invariant: the engine's half has an id that no queue ever had, recorded before it has
a message.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from leporid.broker.queue.dead_letters import DeadLetters
from leporid.broker.queue.queue_types import STREAM
from leporid.broker.settings.values import Arguments, plain
from leporid.engine.wire.headers import (
    header_of,
    number_in,
    number_value,
    text_in,
    text_value,
    with_headers,
)

if TYPE_CHECKING:
    from leporid.broker.registry import StepsTo
    from leporid.broker.vhost import VirtualHost
    from leporid.engine.connection.group_retries import GroupRetries

logger = logging.getLogger(__name__)

LIMIT: Final = "x-delivery-limit"
MIN: Final = "x-delayed-retry-min"
MAX: Final = "x-delayed-retry-max"
EXCHANGE: Final = "x-dead-letter-exchange"
KEY: Final = "x-dead-letter-routing-key"

RETRY_ARGUMENTS: Final = (LIMIT, MIN, MAX, EXCHANGE, KEY)
"""Arguments of consumers; a group with one of them has retries. All members have the same."""

DELIVERY_LIMIT: Final = 16
"""Retries of a message, where nothing else is said and there is a dead-letter exchange for it after
them: as many as RocketMQ has. Without that exchange a limit would lose messages, so there is
none."""

MIN_MS: Final = 10_000
MAX_MS: Final = 600_000
"""How long a message is held for each time that it came back, and at most. The 16 retries take 23
minutes with these."""

STREAM_NAME: Final = b"x-stream-name"
OFFSET: Final = b"x-stream-offset"
COUNT: Final = b"x-delivery-count"


@dataclass(frozen=True, slots=True)
class RetryOptions:
    """What the arguments of a group's members say of retries.

    Attributes:
        limit: how often a message is delivered again; None for no limit.
        min_ms: for how long it is held, for each time that it came back.
        max_ms: at most.
        exchange: where it goes after that; None for nowhere.
        key: what takes the place of its routing key then; None for nothing.
    """

    limit: int | None
    min_ms: int
    max_ms: int
    exchange: str | None
    key: str | None


def options_of(arguments: Arguments) -> RetryOptions | None:
    """Return what arguments, checked one by one, say of retries; None if they do not."""
    if not any(key in arguments for key in RETRY_ARGUMENTS):
        return None
    exchange, key = (
        plain(arguments[name]) if name in arguments else None for name in (EXCHANGE, KEY)
    )
    limit = _whole(arguments, LIMIT)
    if limit is None:
        limit = DELIVERY_LIMIT if exchange is not None else -1
    least, most = _whole(arguments, MIN), _whole(arguments, MAX)
    if least is None:
        least = MIN_MS if most is None else min(MIN_MS, most)
    if most is None:
        most = max(least, MAX_MS)
    return RetryOptions(limit if limit >= 0 else None, least, most, exchange, key)


def _whole(arguments: Arguments, name: str) -> int | None:
    value = arguments.get(name)
    return int(value) if isinstance(value, int) else None


class GroupRetriesState:
    """The retries of one group.

    Args:
        vhost: where dead letters go.
        title: of the group, for texts.
        number: what it is recorded under.
        engine: what keeps the messages.
    """

    def __init__(self, vhost: VirtualHost, title: str, number: int, engine: GroupRetries) -> None:
        self.number = number
        self.engine = engine
        self._vhost = vhost
        self._title = title
        self._dead_letters: GroupDeadLetters | None = None
        # Of options that were replaced.
        self._dead_lettered = 0
        engine.set_stamps(stamped, count_of)

    def __repr__(self) -> str:
        return f"<GroupRetries of {self._title} waiting={self.engine.waiting}>"

    @property
    def dead_lettered(self) -> int:
        """Messages that became dead letters, since the start."""
        current = self._dead_letters
        return self._dead_lettered + (0 if current is None else current.count)

    def set(self, options: RetryOptions | None) -> None:
        """Do from now on what the members ask for; None: what waits is delivered, without limit."""
        if options is None:
            options = RetryOptions(None, MIN_MS, MAX_MS, None, None)
        self._dead_lettered, self._dead_letters = self.dead_lettered, None
        if options.exchange is not None:
            self._dead_letters = GroupDeadLetters(
                self._vhost, self._title, options.exchange, options.key
            )
        self.engine.dead_letters = self._dead_letters
        self.engine.set_delivery_limit(options.limit, True)
        self.engine.set_retries("all", options.min_ms, options.max_ms)


def stamped(properties: bytes, stream: str | None, offset: int, count: int) -> bytes:
    """Return properties with where a message is from, and how often it came back.

    Without a stream both stay as they are; a count of 0 is left out. Raises nothing: the engine is
    in the middle of a queue.
    """
    try:
        changes: dict[bytes, bytes | None] = {}
        if stream is not None:
            changes[STREAM_NAME], changes[OFFSET] = text_value(stream), number_value(offset)
        changes[COUNT] = number_value(count) if count else None
        return with_headers(properties, changes)
    except Exception:
        logger.exception("defect: headers of a message that is retried stay as they were")
        return properties


def count_of(properties: bytes) -> int:
    """Read what `stamped` wrote; 1 if that is damaged."""
    try:
        count = number_in(header_of(properties, COUNT))
    except Exception:
        logger.exception("defect: headers of a message that is retried cannot be read")
        return 1
    return count if count is not None and count > 0 else 1


class GroupDeadLetters(DeadLetters):
    """Where messages of one group go that it gives up: they died in the stream they are from.

    Args:
        vhost: where the exchange is looked up.
        title: of the group, for texts.
        exchange: its name.
        key: what takes the place of the routing key, if anything does.
    """

    def __init__(self, vhost: VirtualHost, title: str, exchange: str, key: str | None) -> None:
        super().__init__(
            vhost,
            title=title,
            name="",
            module=STREAM.module,
            wall_ms=lambda: vhost.engine.clock.wall_ms,
            exchange=exchange,
            key=key,
        )
        self.count = 0

    def __call__(
        self, reason: str, exchange: str, key: str, properties: bytes, body: bytes
    ) -> StepsTo[None]:
        """A message is given up."""
        self.count += 1
        return super().__call__(reason, exchange, key, stamped(properties, None, 0, 0), body)

    def _died_in(self, properties: bytes) -> str:
        try:
            return text_in(header_of(properties, STREAM_NAME)) or ""
        except ValueError:
            return ""
