"""The exchange of a partitioned stream: the hash of a key says which partition a message meets.

RabbitMQ's stream plugin calls it `x-super-stream` (rabbit_exchange_type_super_stream). The key of
a binding is the number of its partition. The number for a message is the hash of its routing key
modulo the number of bindings, so that this broker and RabbitMQ's stream clients, which choose
the partition themselves, agree.

Invariant: a key meets one binding at most, the oldest of its number.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Final

from leporid.amqp.errors import PreconditionFailed
from leporid.amqp.tables import Value, octets_of
from leporid.amqp.values import erlang_text
from leporid.broker.exchange.types.base import Binding, Router
from leporid.broker.exchange.types.message import RoutedMessage
from leporid.engine.routing.key_hashes import murmur3_32

SEED: Final = 104729
"""RabbitMQ's, of the broker and of its stream clients."""

KEYS_TRIED: Final = 4096
"""Enough for a key of each of 400 partitions. Of more, a few get no message without a key; to try
all keys would hold the loop up."""

_INTEGER: Final = re.compile(r"[+-]?[0-9]+")


def partition_of(key: str, partitions: int) -> int:
    """Return the number of the partition that a routing key belongs to."""
    return murmur3_32(octets_of(key), SEED) % partitions


@cache
def _hash_of_number(number: int) -> int:
    """Return the hash of a number as a key; kept, as each change of a binding asks for it anew."""
    return murmur3_32(str(number).encode(), SEED)


class SuperStreamRouter(Router):
    """Bindings by the number of their partition."""

    description = "The partition of a super stream, by the hash of the routing key"
    keys_a_step = 128  # each takes up to 0.8 microseconds

    def __init__(self, *, strict_keys: bool = False) -> None:
        super().__init__(strict_keys=strict_keys)
        # Ordered, as a dict that loses its oldest entries takes ever longer to find the next one.
        self._by_number: dict[str, OrderedDict[Binding, None]] = {}
        self._count = 0
        self._spread_keys: list[str] | None = None

    def validate(self, key: str, arguments: Mapping[str, Value]) -> None:
        """Checks that the key is a number.

        Raises:
            PreconditionFailed: It is not, in RabbitMQ's words.
        """
        super().validate(key, arguments)
        if not _INTEGER.fullmatch(key):
            raise PreconditionFailed(f"The binding key must be an integer: {erlang_text(key)}")

    def add(self, binding: Binding) -> None:
        """Files the binding under its number; all others are met by other keys from now on."""
        self._by_number.setdefault(binding.key, OrderedDict())[binding] = None
        self._count += 1
        self._spread_keys = None

    def remove(self, binding: Binding) -> None:
        """Takes it out."""
        bindings = self._by_number[binding.key]
        del bindings[binding]
        self._count -= 1
        self._spread_keys = None
        if not bindings:
            del self._by_number[binding.key]

    def match(self, message: RoutedMessage) -> Iterable[Binding]:
        """Returns the binding of each key's partition, if there is one."""
        numbers = dict.fromkeys(self._number_of(key) for key in message.keys)
        return [next(iter(self._by_number[each])) for each in numbers if each in self._by_number]

    def met_by(self, key: str) -> list[Binding] | None:
        """Returns the binding of its partition, if there is one."""
        found = self._by_number.get(self._number_of(key))
        return [] if found is None else [next(iter(found))]

    def _number_of(self, key: str) -> str:
        return str(partition_of(key, self._count)) if self._count else ""

    def spread_keys(self) -> Sequence[str]:
        """Returns a key for each partition, found by trying numbers as keys.

        The order is that of the partitions' first keys, and so always the same.
        """
        if self._spread_keys is None:
            found: dict[int, str] = {}
            for number in range(KEYS_TRIED):
                if len(found) == self._count:
                    break
                found.setdefault(_hash_of_number(number) % self._count, str(number))
            self._spread_keys = list(found.values())
        return self._spread_keys
