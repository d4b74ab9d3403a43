"""The exchange types, one module each, and the list of them.

    base     Binding, and the Router that every type implements
    direct fanout topic headers
    super_stream     the partitions of a stream, by a hash of the key
    consistent_hash  a share of the keys for each, by weight
    modulus_hash     one binding for each key, by the hash of `phash2`
    random_choice    any one binding, for two types
    recent_history   all bindings, also later ones
    deduplication    all bindings, for what did not come before
    message       what a message is routed by
    filtering     the filters of its bindings
    order_statistics  values in order, for `modulus_hash`
    delayed       which of them x-delayed-message stands for
    strict_keys   the x-strict-keys rule, which any type may be given

A router answers for the bindings of one exchange. Must not know how exchanges hang together
(`broker.exchange.topology`) or who may declare them (`broker.vhost`). Invariant: a type is added by
one module and one line here.
"""

from collections.abc import Callable, Mapping
from typing import Final

from leporid.amqp.errors import CommandInvalid, PreconditionFailed
from leporid.amqp.tables import Value
from leporid.amqp.values import type_name
from leporid.broker.exchange.types.base import Binding, DestinationKind, Router
from leporid.broker.exchange.types.consistent_hash import ConsistentHashRouter
from leporid.broker.exchange.types.deduplication import DeduplicationRouter
from leporid.broker.exchange.types.delayed import (
    DELAYED_DESCRIPTION,
    DELAYED_MESSAGE,
    DELAYED_TYPE_ARGUMENT,
    routed_as,
)
from leporid.broker.exchange.types.direct import DirectRouter
from leporid.broker.exchange.types.fanout import FanoutRouter
from leporid.broker.exchange.types.headers import HeadersRouter
from leporid.broker.exchange.types.message import RoutedMessage
from leporid.broker.exchange.types.modulus_hash import ModulusHashRouter
from leporid.broker.exchange.types.random_choice import LocalRandomRouter, RandomRouter
from leporid.broker.exchange.types.recent_history import RecentHistoryRouter
from leporid.broker.exchange.types.strict_keys import STRICT_KEYS_ARGUMENT
from leporid.broker.exchange.types.super_stream import SuperStreamRouter
from leporid.broker.exchange.types.topic import TopicRouter

__all__ = [
    "DELAYED_MESSAGE",
    "DELAYED_TYPE_ARGUMENT",
    "EXCHANGE_TYPES",
    "STRICT_KEYS_ARGUMENT",
    "Binding",
    "DeduplicationRouter",
    "DestinationKind",
    "RoutedMessage",
    "Router",
    "descriptions",
    "exchange_types",
    "is_exchange_type",
    "make_router",
]

EXCHANGE_TYPES: Final[dict[str, type[Router]]] = {
    "direct": DirectRouter,
    "fanout": FanoutRouter,
    "topic": TopicRouter,
    "headers": HeadersRouter,
    "x-super-stream": SuperStreamRouter,
    "x-consistent-hash": ConsistentHashRouter,
    "x-modulus-hash": ModulusHashRouter,
    "x-random": RandomRouter,
    "x-local-random": LocalRandomRouter,
    "x-recent-history": RecentHistoryRouter,
    "x-message-deduplication": DeduplicationRouter,
}
"""Every exchange type by the name it is declared with, but `x-delayed-message`: it is another's."""


def is_exchange_type(name: str) -> bool:
    """Say whether an exchange may be declared with that type."""
    return name in EXCHANGE_TYPES or name == DELAYED_MESSAGE


def exchange_types() -> list[str]:
    """Return the types that an exchange may be declared with."""
    return [*EXCHANGE_TYPES, DELAYED_MESSAGE]


def descriptions() -> dict[str, str]:
    """Return what each type is that an exchange may be declared with."""
    found = {name: router.description for name, router in EXCHANGE_TYPES.items()}
    return {**found, DELAYED_MESSAGE: DELAYED_DESCRIPTION}


def make_router(
    exchange_type: str, arguments: Mapping[str, Value], chance: Callable[[], int]
) -> Router:
    """Makes the router for an exchange that is declared with these arguments.

    Args:
        exchange_type: One that `is_exchange_type`.
        arguments: The exchange's table.
        chance: Gives a number of 64 bits that is another one each time.

    Raises:
        KeyError: There is no such type; whoever takes it from a client must look before.
        PreconditionFailed: An argument is invalid.
        CommandInvalid: There is no such type as `x-delayed-type` names.
    """
    strict_keys = arguments.get(STRICT_KEYS_ARGUMENT, False)
    if not isinstance(strict_keys, bool):
        raise PreconditionFailed(
            f"invalid type '{type_name(strict_keys)}' for arg '{STRICT_KEYS_ARGUMENT}'"
        )
    kind = routed_as(exchange_type, arguments)
    if kind not in EXCHANGE_TYPES and exchange_type == DELAYED_MESSAGE:
        raise CommandInvalid(f"unknown exchange type '{kind}'")
    made = EXCHANGE_TYPES[kind]
    return made.declared(arguments, strict_keys=strict_keys, chance=chance)
