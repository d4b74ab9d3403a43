"""The recent-history exchange: a fanout that gives its last messages to whoever is bound later.

RabbitMQ's plugin rabbitmq_recent_history_exchange calls it `x-recent-history`. This module says
which messages are kept and how many; `broker.exchange.history` keeps them. Keys and arguments of
bindings do not matter. Invariant: what a message says of itself (`x-recent-history-no-store`) is
all that decides whether it is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Self

from leporid.amqp.errors import PreconditionFailed
from leporid.amqp.tables import Value
from leporid.amqp.values import erlang_text, type_name
from leporid.broker.exchange.types.fanout import FanoutRouter
from leporid.broker.exchange.types.message import RoutedMessage

LENGTH_ARGUMENT: Final = "x-recent-history-length"
NO_STORE_HEADER: Final = "x-recent-history-no-store"
LENGTH_DEFAULT: Final = 20

LENGTH_MAX: Final = 10_000
"""All of them are published again, in steps, when somebody binds: a few hundredths of a second."""

# RabbitMQ takes no unsigned ones, for no reason that shows.
_INTEGERS: Final = frozenset({"byte", "short", "signedint", "long"})


class RecentHistoryRouter(FanoutRouter):
    """All bindings, and a history."""

    description = "All bindings; a new one gets the last messages, too"
    per_message = True

    def __init__(self, *, strict_keys: bool = False, length: int = LENGTH_DEFAULT) -> None:
        super().__init__(strict_keys=strict_keys)
        self.history_length = length

    @classmethod
    def declared(
        cls, arguments: Mapping[str, Value], *, strict_keys: bool, chance: Callable[[], int]
    ) -> Self:
        """Makes the router of an exchange with these arguments.

        Raises:
            PreconditionFailed: The length is none, in RabbitMQ's words, or more than we keep.
        """
        if LENGTH_ARGUMENT not in arguments:
            return cls(strict_keys=strict_keys)
        length = arguments[LENGTH_ARGUMENT]
        if type_name(length) not in _INTEGERS or not isinstance(length, int) or length < 1:
            raise PreconditionFailed(
                f"Invalid argument {erlang_text(length)}, '{LENGTH_ARGUMENT}' must be a positive "
                "integer"
            )
        if length > LENGTH_MAX:
            raise PreconditionFailed(
                f"Invalid argument {length:d}, '{LENGTH_ARGUMENT}' must not exceed {LENGTH_MAX}"
            )
        return cls(strict_keys=strict_keys, length=length)

    def keeps(self, message: RoutedMessage) -> bool:
        """Whether a message is kept: unless it says that it should not be."""
        # Most messages do not, and need not be looked through to know it.
        return (
            NO_STORE_HEADER.encode() not in message.raw
            or message.header(NO_STORE_HEADER) is not True
        )
