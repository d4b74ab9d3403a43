"""The direct exchange: a message meets the bindings whose key equals its own.

Invariant: a key without bindings takes no memory.
"""

from collections.abc import Callable, Iterable

from leporid.broker.exchange.types.base import Binding, Router
from leporid.broker.exchange.types.message import RoutedMessage


class DirectRouter(Router):
    """Bindings by key."""

    def __init__(self, *, strict_keys: bool = False) -> None:
        super().__init__(strict_keys=strict_keys)
        self._by_key: dict[str, dict[Binding, None]] = {}

    def add(self, binding: Binding) -> None:
        """Files the binding under its key."""
        self._by_key.setdefault(binding.key, {})[binding] = None

    def remove(self, binding: Binding) -> None:
        """Takes it out, and the key with its last binding."""
        bindings = self._by_key[binding.key]
        del bindings[binding]
        if not bindings:
            del self._by_key[binding.key]

    def match(self, message: RoutedMessage) -> Iterable[Binding]:
        """Returns the bindings whose key is one of the message's."""
        return [binding for key in message.keys for binding in self._by_key.get(key, ())]

    def only_key(self, key: str) -> str | None:
        """Returns the key itself: no other can meet the binding."""
        return key

    def keys_of(self, binding: Binding) -> Callable[[str], bool]:
        """Says that only its own does."""
        return binding.key.__eq__
