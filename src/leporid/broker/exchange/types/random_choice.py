"""The random exchanges: each message goes to one of the bindings, by chance.

RabbitMQ's plugin rabbitmq_random_exchange calls it `x-random`. Keys and arguments do not matter; a
destination that is bound twice gets twice as much. A message with CC or BCC goes to one, too.
`x-local-random` of RabbitMQ 4 chooses among the queues of the node that a client is connected to:
on one node, among all. It takes no bindings with a key.

Chance is a sequence that begins at a number from outside (splitmix64): even, and cheap enough for
every message, but no secret. Invariant: whatever bindings came and went, all that are there are
equally likely.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Self

from leporid.amqp.errors import PreconditionFailed
from leporid.amqp.tables import Value
from leporid.broker.exchange.types.base import Binding, Router
from leporid.broker.exchange.types.message import RoutedMessage

_WORD: Final = (1 << 64) - 1


class RandomRouter(Router):
    """Bindings to choose from."""

    description = "One binding, by chance"
    per_message = True

    def __init__(self, *, strict_keys: bool = False, seed: int = 0) -> None:
        super().__init__(strict_keys=strict_keys)
        self._state = seed
        self._bindings: list[Binding] = []
        self._places: dict[Binding, int] = {}

    @classmethod
    def declared(
        cls, arguments: Mapping[str, Value], *, strict_keys: bool, chance: Callable[[], int]
    ) -> Self:
        """Makes the router, which begins where chance will have it."""
        return cls(strict_keys=strict_keys, seed=chance())

    def add(self, binding: Binding) -> None:
        """Adds a binding to those that are chosen from."""
        self._places[binding] = len(self._bindings)
        self._bindings.append(binding)

    def remove(self, binding: Binding) -> None:
        """Takes it out; the last one takes its place."""
        at = self._places.pop(binding)
        last = self._bindings.pop()
        if last != binding:
            self._bindings[at] = last
            self._places[last] = at

    def match(self, message: RoutedMessage) -> Iterable[Binding]:
        """Returns any one of the bindings."""
        if not self._bindings:
            return ()
        return (self._bindings[self._draw() * len(self._bindings) >> 64],)

    def _draw(self) -> int:
        self._state = self._state + 0x9E3779B97F4A7C15 & _WORD
        value = (self._state ^ self._state >> 30) * 0xBF58476D1CE4E5B9 & _WORD
        value = (value ^ value >> 27) * 0x94D049BB133111EB & _WORD
        return value ^ value >> 31


class LocalRandomRouter(RandomRouter):
    """Bindings to choose from, none of which has a key."""

    description = "One binding of the publisher's node, by chance; there is one node"

    def validate(self, key: str, arguments: Mapping[str, Value]) -> None:
        """Refuses a key, in RabbitMQ's words."""
        super().validate(key, arguments)
        if key:
            raise PreconditionFailed(f"Non empty binding '{key}' key not permitted")
