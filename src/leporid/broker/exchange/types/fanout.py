"""The fanout exchange: a message meets every binding, whatever its key.

Invariant: the answer is always all destinations, in the order in which they were bound first.
"""

from collections.abc import Callable, Iterable

from leporid.broker.exchange.types.base import Binding, DistinctDestinations, Router
from leporid.broker.exchange.types.message import RoutedMessage


class FanoutRouter(Router):
    """All bindings, in the order they were made."""

    description = "AMQP fanout exchange, as per the AMQP specification"
    ignores_keys = True

    def __init__(self, *, strict_keys: bool = False) -> None:
        super().__init__(strict_keys=strict_keys)
        self._bindings = DistinctDestinations()

    def add(self, binding: Binding) -> None:
        """Puts the binding last."""
        self._bindings.add(binding)

    def remove(self, binding: Binding) -> None:
        """Takes it out."""
        self._bindings.remove(binding)

    def match(self, message: RoutedMessage) -> Iterable[Binding]:
        """Returns all bindings, as far as they lead elsewhere."""
        return self._bindings

    def keys_of(self, binding: Binding) -> Callable[[str], bool]:
        """Says that all do."""
        return lambda key: True
