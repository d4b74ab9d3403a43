"""The modulus-hash exchange: the hash of the routing key, modulo the bindings, chooses one of them.

RabbitMQ calls it `x-modulus-hash` (until 4.2 in its plugin rabbitmq_sharding). The hash is its
own, and bindings are counted in the order in which it sorts them since 4.3: exchanges before
queues, then by name. So keys go where they go there, also after a restart. Binding keys do not
matter, nor do arguments; a destination that is bound twice counts twice. The routing keys of a
message with CC or BCC are hashed together.

Invariant: the bindings are sorted, those of one destination in the order in which they were made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Self, TypeAlias

from leporid.amqp.tables import Value, octets_of
from leporid.broker.exchange.types.base import Binding, Router
from leporid.broker.exchange.types.message import RoutedMessage
from leporid.broker.exchange.types.order_statistics import OrderStatisticTree
from leporid.broker.exchange.types.phash2 import phash2_of_binaries, phash2_of_binary
from leporid.broker.registry import StepsTo, finished

_Place: TypeAlias = tuple[str, bytes, int]


class ModulusHashRouter(Router):
    """Bindings, sorted by their destinations."""

    description = "One binding, by the hash of the key modulo their number"

    def __init__(self, *, strict_keys: bool = False, seed: int = 0) -> None:
        super().__init__(strict_keys=strict_keys)
        self._seed = seed
        self._bindings: OrderStatisticTree[_Place, Binding] = OrderStatisticTree()
        self._places: dict[Binding, _Place] = {}
        self._made = 0

    @classmethod
    def declared(
        cls, arguments: Mapping[str, Value], *, strict_keys: bool, chance: Callable[[], int]
    ) -> Self:
        """Makes the router, with a seed that no client knows."""
        return cls(strict_keys=strict_keys, seed=chance())

    def add(self, binding: Binding) -> None:
        """Puts the binding in its place."""
        self._made += 1
        name = octets_of(binding.destination)
        place = self._places[binding] = binding.destination_kind, name, self._made
        # Clients cannot know it, nor choose bindings that have the same one.
        self._bindings.add(place, binding, hash((self._seed, self._made)))

    def remove(self, binding: Binding) -> None:
        """Takes it out."""
        self._bindings.remove(self._places.pop(binding))

    def met_by(self, key: str) -> list[Binding] | None:
        """Returns the binding that one key chooses."""
        if not self._places:
            return []
        return [self._bindings[phash2_of_binary(octets_of(key)) % len(self._bindings)]]

    def match(self, message: RoutedMessage) -> Iterable[Binding]:
        """Returns the binding that the message's keys choose."""
        return finished(self.matching(message))

    def matching(self, message: RoutedMessage) -> StepsTo[Iterable[Binding]]:
        """The same, in steps of one key."""
        if self._places and message.keys_hash is None:
            message.keys_hash = yield from phash2_of_binaries(map(octets_of, message.keys))
        if not self._places or message.keys_hash is None:
            return ()
        return (self._bindings[message.keys_hash % len(self._bindings)],)
