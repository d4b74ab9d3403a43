"""The topic exchange: binding keys are patterns over the words of the routing key.

`*` stands for one word, `#` for any number of words; `engine.patterns` has RabbitMQ's reading of
them to the letter, and says what a key costs.

Invariant: keys that come and go leave nothing behind.
"""

from collections.abc import Callable, Iterable

from leporid.broker.exchange.types.base import Binding, Router
from leporid.broker.exchange.types.message import RoutedMessage
from leporid.engine.routing.patterns import Patterns


class TopicRouter(Router):
    """Bindings by their patterns."""

    takes_patterns = True
    keys_a_step = 16  # each takes some microseconds

    def __init__(self, *, strict_keys: bool = False) -> None:
        super().__init__(strict_keys=strict_keys)
        self._patterns = Patterns()

    def add(self, binding: Binding) -> None:
        """Files the binding under its pattern."""
        self._patterns.add(binding.key, binding)

    def remove(self, binding: Binding) -> None:
        """Takes it out, and the pattern with its last binding."""
        self._patterns.remove(binding.key, binding)

    def match(self, message: RoutedMessage) -> Iterable[Binding]:
        """Returns the bindings whose patterns one of the keys fits."""
        if len(message.keys) == 1:
            return self._patterns.match(message.keys[0])
        return dict.fromkeys(
            binding for key in message.keys for binding in self._patterns.match(key)
        )

    def only_key(self, key: str) -> str | None:
        """Returns the key itself if it has no wildcard."""
        words = key.split(".")
        return None if "*" in words or "#" in words else key

    def keys_of(self, binding: Binding) -> Callable[[str], bool]:
        """Says which fit its pattern."""
        pattern = Patterns()
        pattern.add(binding.key, binding)
        return lambda key: bool(pattern.match(key))
