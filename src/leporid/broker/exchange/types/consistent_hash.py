"""The consistent-hash exchange: a key goes to one of its destinations, and mostly stays there.

RabbitMQ's plugin rabbitmq_consistent_hash_exchange calls it `x-consistent-hash`. The key of a
binding is its weight, hence how large a share of the keys its destination gets. What is hashed is
the routing key, or what the arguments `hash-header` or `hash-property` name; of several routing
keys (CC, BCC) the first. Where it is missing, all such messages go to one destination.

The hash is not the plugin's, which moves other destinations' keys when one goes and all of them
when it is restarted; `engine.routing.rendezvous` says what ours keeps.

Invariant: each destination has one weight, that of the oldest of its bindings.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Self

from leporid.amqp.errors import PreconditionFailed
from leporid.amqp.tables import Value, octets_of
from leporid.amqp.values import erlang_text, type_name
from leporid.broker.exchange.types.base import Binding, Router
from leporid.broker.exchange.types.message import RoutedMessage
from leporid.engine.routing.rendezvous import Rendezvous

HASH_HEADER: Final = "hash-header"
HASH_PROPERTY: Final = "hash-property"
PROPERTIES: Final = ("correlation_id", "message_id", "timestamp")

WEIGHT_MAX: Final = 10_000
"""RabbitMQ's limit since 4.3.5. Weights cost us nothing, but what works here should work there."""

QUICK_MAX: Final = 64
"""Destinations among which one is chosen in a microsecond or two: each takes 30 nanoseconds."""

_INTEGER: Final = re.compile(r"[+-]?[0-9]+")

# Takes out of a message what is hashed.
_Pick = Callable[[RoutedMessage], Value]


class ConsistentHashRouter(Router):
    """Destinations by weight."""

    description = "One binding, by the hash of the key; the binding key is its weight"

    def __init__(self, *, strict_keys: bool = False, pick: _Pick | None = None) -> None:
        super().__init__(strict_keys=strict_keys)
        self.per_message = pick is not None
        self._pick = pick or _first_key
        # Ordered, as a dict that loses its oldest entries takes ever longer to find the next one.
        self._bindings: dict[bytes, OrderedDict[Binding, None]] = {}
        self._shares = Rendezvous()

    @classmethod
    def declared(
        cls, arguments: Mapping[str, Value], *, strict_keys: bool, chance: Callable[[], int]
    ) -> Self:
        """Makes the router of an exchange with these arguments.

        Raises:
            PreconditionFailed: They do not say what to hash, in RabbitMQ's words.
        """
        return cls(strict_keys=strict_keys, pick=_pick(arguments))

    def validate(self, key: str, arguments: Mapping[str, Value]) -> None:
        """Checks that the key is a weight.

        Raises:
            PreconditionFailed: It is not, in RabbitMQ's words.
        """
        super().validate(key, arguments)
        if not _INTEGER.fullmatch(key):
            raise PreconditionFailed(f"The binding key must be an integer: {erlang_text(key)}")
        if int(key) < 1:
            raise PreconditionFailed("The binding key must be greater than 0")
        if int(key) > WEIGHT_MAX:
            raise PreconditionFailed(f"The binding key must not exceed {WEIGHT_MAX}")

    def add(self, binding: Binding) -> None:
        """Gives the destination its share, unless it has one by an older binding."""
        name = _name(binding)
        bindings = self._bindings.setdefault(name, OrderedDict())
        bindings[binding] = None
        if len(bindings) == 1:
            self._shares.add(name, int(binding.key))

    def remove(self, binding: Binding) -> None:
        """Takes it out; the destination's next binding, if there is one, counts from now on."""
        name = _name(binding)
        bindings = self._bindings[name]
        counted = next(iter(bindings)) == binding
        del bindings[binding]
        if counted:
            self._shares.remove(name)
            for oldest in bindings:
                self._shares.add(name, int(oldest.key))
                break
        if not bindings:
            del self._bindings[name]

    def met_by(self, key: str) -> list[Binding] | None:
        """Returns the binding of the destination that the key belongs to, if they are few."""
        return self._of(key) if len(self._bindings) <= QUICK_MAX else None

    def match(self, message: RoutedMessage) -> Iterable[Binding]:
        """Returns the binding of the destination that the message belongs to."""
        return self._of(self._pick(message))

    def _of(self, hashed: Value) -> list[Binding]:
        name = self._shares.choose(_octets(hashed))
        return [] if name is None else [next(iter(self._bindings[name]))]


def _pick(arguments: Mapping[str, Value]) -> _Pick | None:
    """Reads what is hashed; None is the routing key."""
    header, named = _text(arguments, HASH_HEADER), _text(arguments, HASH_PROPERTY)
    if header is not None and named is not None:
        raise PreconditionFailed(f"{HASH_HEADER} and {HASH_PROPERTY} are mutually exclusive")
    if named is not None and named not in PROPERTIES:
        raise PreconditionFailed(f"Unsupported property: {named}")
    if header is not None:
        return lambda message: _header(message, header)
    if named == "timestamp":
        return _timestamp
    if named is not None:
        return lambda message: _text_property(message, named)
    return None


def _header(message: RoutedMessage, name: str) -> Value:
    """Returns a header; of an array or a table its octets, as its text may take milliseconds."""
    field = message.encoded_header(name)
    return field if field is not None and field[:1] in (b"A", b"F") else message.header(name)


def _timestamp(message: RoutedMessage) -> Value:
    octets = message.encoded_property("timestamp")
    return None if octets is None else int.from_bytes(octets, "big")


def _text_property(message: RoutedMessage, name: str) -> Value:
    octets = message.encoded_property(name)
    return None if octets is None else octets[1:]


def _text(arguments: Mapping[str, Value], name: str) -> str | None:
    value = arguments.get(name)
    if value is None or isinstance(value, str):
        return value
    raise PreconditionFailed(f"invalid type '{type_name(value)}' for arg '{name}'")


def _first_key(message: RoutedMessage) -> str:
    return message.keys[0]


def _octets(value: Value) -> bytes:
    """Returns what stands for a value: text and octets for themselves, else its text form."""
    if isinstance(value, str):
        return octets_of(value)
    return bytes(value) if isinstance(value, bytes) else erlang_text(value).encode()


def _name(binding: Binding) -> bytes:
    return f"{binding.destination_kind} {binding.destination}".encode()
