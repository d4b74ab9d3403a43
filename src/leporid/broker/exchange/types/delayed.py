"""The exchange type `x-delayed-message`: routes as another type does, some messages later.

RabbitMQ's delayed-message plugin brought it. Responsible for which type that is; the bindings are
that type's. Must not know how messages wait (`broker.exchange.delays`). Invariant: the type it
routes by is never itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from leporid.amqp.errors import PreconditionFailed
from leporid.amqp.tables import Value

DELAYED_MESSAGE: Final = "x-delayed-message"
DELAYED_TYPE_ARGUMENT: Final = "x-delayed-type"
DELAYED_DESCRIPTION: Final = "As the type of x-delayed-type, after the time in the header x-delay"


def routed_as(exchange_type: str, arguments: Mapping[str, Value]) -> str:
    """Return the type that says how an exchange routes: its own, or the one it delays for.

    Raises:
        PreconditionFailed: The argument names none, in the plugin's words.
    """
    if exchange_type != DELAYED_MESSAGE:
        return exchange_type
    wanted = arguments.get(DELAYED_TYPE_ARGUMENT)
    if wanted == DELAYED_MESSAGE:
        raise PreconditionFailed(
            f"Invalid argument, '{DELAYED_MESSAGE}' can't be used for '{DELAYED_TYPE_ARGUMENT}'"
        )
    if not isinstance(wanted, str):
        raise PreconditionFailed(
            f"Invalid argument, '{DELAYED_TYPE_ARGUMENT}' must be an existing exchange type"
        )
    return wanted
