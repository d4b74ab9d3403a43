"""The deduplication exchange: a fanout that takes no message twice.

The community's plugin rabbitmq-message-deduplication calls it `x-message-deduplication`. This
module says how much is remembered, and asks before it routes; `broker.exchange.history` makes the
memory, and the engine keeps it. Keys and arguments of bindings do not matter. A duplicate goes to
the alternate exchange, if there is one, as what meets no binding does.

Invariant: a message without the header is never remembered, nor taken for a duplicate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, Self

from leporid.amqp.errors import PreconditionFailed
from leporid.amqp.tables import Value
from leporid.broker.exchange.types.base import Binding
from leporid.broker.exchange.types.fanout import FanoutRouter
from leporid.broker.exchange.types.message import RoutedMessage

if TYPE_CHECKING:
    from leporid.engine.queue.exchange_cache import ExchangeCache

SIZE_ARGUMENT: Final = "x-cache-size"
TTL_ARGUMENT: Final = "x-cache-ttl"
PERSISTENCE_ARGUMENT: Final = "x-cache-persistence"
HEADER: Final = b"x-deduplication-header"

SIZE_MAX: Final = 1_000_000
"""Each message that is remembered takes some 200 bytes of memory."""

TTL_MS_MAX: Final = 315_360_000_000
"""Ten years, as for anything that expires."""


class DeduplicationRouter(FanoutRouter):
    """All bindings, for messages that did not come before.

    Attributes:
        cache: What came before; None until it is made.
        ttl_ms: How long a message is remembered; None as long as there is room.
        lasting: Whether the memory of a durable exchange is on disk.
    """

    description = "All bindings, for messages that did not come before"
    per_message = True

    def __init__(
        self,
        *,
        strict_keys: bool = False,
        size: int = SIZE_MAX,
        ttl_ms: int | None = None,
        lasting: bool = True,
    ) -> None:
        super().__init__(strict_keys=strict_keys)
        self.cache_size = size
        self.ttl_ms = ttl_ms
        self.lasting = lasting
        self.cache: ExchangeCache | None = None

    @classmethod
    def declared(
        cls, arguments: Mapping[str, Value], *, strict_keys: bool, chance: Callable[[], int]
    ) -> Self:
        """Makes the router of an exchange with these arguments.

        Raises:
            PreconditionFailed: One is missing or invalid, in the plugin's words; or too large.
        """
        size = _number(arguments, SIZE_ARGUMENT, SIZE_MAX, "Missing or invalid argument")
        if size is None:
            raise PreconditionFailed(
                f"Missing or invalid argument, '{SIZE_ARGUMENT}' must be an integer greater than 0"
            )
        ttl_ms = _number(arguments, TTL_ARGUMENT, TTL_MS_MAX, "Invalid argument")
        persistence = arguments.get(PERSISTENCE_ARGUMENT, "disk")
        if persistence not in ("disk", "memory"):
            raise PreconditionFailed(
                f"Invalid argument, '{PERSISTENCE_ARGUMENT}' must be either 'disk' or 'memory'"
            )
        return cls(strict_keys=strict_keys, size=size, ttl_ms=ttl_ms, lasting=persistence == "disk")

    def match(self, message: RoutedMessage) -> Iterable[Binding]:
        """Returns all bindings, or none."""
        if self.cache is not None and self.cache.has(message.raw):
            return ()
        return super().match(message)

    def keeps(self, message: RoutedMessage) -> bool:
        """Whether a message is to be remembered: the engine looks closer."""
        return HEADER in message.raw


def _number(arguments: Mapping[str, Value], name: str, most: int, complaint: str) -> int | None:
    """Reads a whole number, which may be written as a text; None if it is not there."""
    value = arguments.get(name)
    if name not in arguments:
        return None
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise PreconditionFailed(f"{complaint}, '{name}' must be an integer greater than 0")
    if value > most:
        raise PreconditionFailed(f"{complaint}, '{name}' must not exceed {most}")
    return value
