"""A declaration that differs from what is there: refused, let pass with a warning, or adopted.

Responsible for what the setting `redeclare` says of queues and exchanges. Must not know how an
argument takes effect. Invariant: what cannot change while a queue or exchange is there (whether it
lasts, its type, how messages stand in it) is refused whatever the setting says, and nobody gets by
a second declaration what the first one would have refused.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from itertools import chain
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from leporid.amqp.errors import PreconditionFailed
from leporid.broker.exchange.exchange import ALTERNATE_ARGUMENT
from leporid.broker.names import SYSTEM_PREFIX, exchange_in
from leporid.broker.settings.equivalence import (
    Difference,
    check_same,
    check_same_arguments,
    differing,
    differing_arguments,
)
from leporid.broker.settings.table import COMPARED, KEYS
from leporid.broker.settings.values import exchange_name

if TYPE_CHECKING:
    from leporid.amqp.methods import ExchangeDeclare, QueueDeclare
    from leporid.broker.connection.session import ConnectionState
    from leporid.broker.exchange.exchange import ExchangeState
    from leporid.broker.queue.queue import QueueState
    from leporid.broker.settings.values import Arguments

logger = logging.getLogger(__name__)

Redeclare: TypeAlias = Literal["strict", "warn", "adopt"]

LOGGED_CHARACTERS_MAX: Final = 100
"""Of one value in the log line about a declaration that differs."""

DEAD_LETTER_EXCHANGE: Final = "x-dead-letter-exchange"

_TYPE: Final = ("x-queue-type",)


def redeclare_queue(session: ConnectionState, queue: QueueState, method: QueueDeclare) -> None:
    """Agree that a queue is there already, as it is or as it is to be.

    Raises:
        ResourceLocked: it is exclusive to somebody else, or to nobody, and should not be.
        PreconditionFailed: it differs, and stays as it is.
        AccessRefused: the user may not have what is new.
    """
    owner = session if method.exclusive else None
    durable = method.durable and not method.exclusive
    try:
        queue.check_same(
            durable=durable,
            auto_delete=method.auto_delete,
            arguments=method.arguments,
            owner=owner,
        )
    except PreconditionFailed:
        mode = session.vhost.governor.redeclare
        if mode == "strict":
            raise
        _check_lasting(queue, durable, method.arguments, _TYPE)
        session.vhost.check_queue(
            queue.name,
            durable=durable,
            auto_delete=method.auto_delete,
            exclusive=method.exclusive,
            arguments=method.arguments,
        )
        differences = chain(
            differing("auto_delete", queue.auto_delete, method.auto_delete),
            differing_arguments(queue.arguments, method.arguments, queue.type.queue_arguments),
        )
        if mode == "warn":
            _warn(session, queue.title, differences)
            return
        _check_lasting(queue, durable, method.arguments, _built_in(queue))
        check_dead_letter_exchange(session, queue.name, queue.title, method.arguments)
        _say_adopted(session, queue.title, differences)
        session.vhost.governor.adopt_queue(queue, method.arguments, auto_delete=method.auto_delete)


def check_dead_letter_exchange(
    session: ConnectionState, name: str, title: str, arguments: Arguments
) -> None:
    """Check that the user may read the queue and write to its dead-letter exchange, if it has one.

    Raises:
        AccessRefused: one of them is not allowed.
        PreconditionFailed: the argument is no name.
    """
    exchange = exchange_name(arguments, DEAD_LETTER_EXCHANGE, title)
    if exchange is not None:
        session.check("read", "queue", name)
        session.check("write", "exchange", exchange)


def redeclare_exchange(
    session: ConnectionState, exchange: ExchangeState, method: ExchangeDeclare
) -> None:
    """Agree that an exchange is there already, as it is or as it is to be.

    Raises what `redeclare_queue` raises.
    """
    title = exchange_in(session.vhost.name, exchange.name)

    def check(keys: Iterable[str]) -> None:
        check_same(title, "type", exchange.type, method.type)
        check_same(title, "durable", exchange.durable, method.durable)
        if ALTERNATE_ARGUMENT in keys:
            check_same(title, "auto_delete", exchange.auto_delete, method.auto_delete)
        check_same(title, "internal", exchange.internal, method.internal)
        check_same_arguments(title, exchange.arguments, method.arguments, keys)

    try:
        check(COMPARED)
    except PreconditionFailed:
        mode = session.vhost.governor.redeclare
        if mode == "strict" or exchange.name.startswith(SYSTEM_PREFIX):
            raise
        _fixed(lambda: check([key for key in COMPARED if key != ALTERNATE_ARGUMENT]))
        check_alternate_exchange(session, exchange.name, title, method.arguments)
        differences = chain(
            differing("auto_delete", exchange.auto_delete, method.auto_delete),
            differing_arguments(exchange.arguments, method.arguments, COMPARED),
        )
        if mode == "warn":
            _warn(session, title, differences)
            return
        _say_adopted(session, title, differences)
        session.vhost.governor.adopt_exchange(
            exchange, method.arguments, auto_delete=method.auto_delete
        )


def check_alternate_exchange(
    session: ConnectionState, name: str, title: str, arguments: Arguments
) -> None:
    """Check that the user may read the exchange and write to its alternate, if it has one.

    Raises what `check_dead_letter_exchange` raises.
    """
    alternate = exchange_name(arguments, ALTERNATE_ARGUMENT, title)
    if alternate is not None:
        session.check("read", "exchange", name)
        session.check("write", "exchange", alternate)


def _built_in(queue: QueueState) -> list[str]:
    """Return the arguments that a queue keeps for ever: those that no policy can change."""
    return [key for key in queue.type.queue_arguments if key.removeprefix("x-") not in KEYS]


def _check_lasting(
    queue: QueueState, durable: bool, arguments: Arguments, keys: Iterable[str]
) -> None:
    _fixed(lambda: check_same(queue.title, "durable", queue.durable, durable))
    _fixed(lambda: check_same_arguments(queue.title, queue.arguments, arguments, keys))


def _fixed(check: Callable[[], None]) -> None:
    """Run a check; who fails it is told that no setting would help."""
    try:
        check()
    except PreconditionFailed as fault:
        raise PreconditionFailed(f"{_reason(fault)}; that cannot change in place") from None


def _warn(session: ConnectionState, title: str, differences: Iterable[Difference]) -> None:
    logger.warning(
        "%s declares %s otherwise, and gets what is there: %s",
        session.name,
        title,
        _listed(differences),
        extra=session.log_extra,
    )


def _say_adopted(session: ConnectionState, title: str, differences: Iterable[Difference]) -> None:
    logger.info(
        "%s declares %s otherwise, which is adopted: %s",
        session.name,
        title,
        _listed(differences),
        extra=session.log_extra,
    )


def _listed(differences: Iterable[Difference]) -> str:
    return "; ".join(
        f"{what}: received {_cut(received)} but current is {_cut(current)}"
        for what, received, current in differences
    )


def _cut(text: str) -> str:
    """A client may give an argument any length; the log line of it is bounded."""
    return text if len(text) <= LOGGED_CHARACTERS_MAX else text[:LOGGED_CHARACTERS_MAX] + "…"


def _reason(fault: PreconditionFailed) -> str:
    return fault.text.partition(" - ")[2]
