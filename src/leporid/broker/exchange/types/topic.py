"""The topic exchange: binding keys are patterns over the words of the routing key.

`*` stands for one word, `#` for any number of words; `engine.routing.patterns` has RabbitMQ's
reading of them to the letter, and says what a key costs.

Invariant: keys that come and go leave nothing behind.
"""

from collections.abc import Callable, Iterable
from typing import Final

from leporid.broker.exchange.types.base import Binding, Router
from leporid.broker.exchange.types.message import RoutedMessage
from leporid.broker.registry import StepsTo, finished
from leporid.engine.routing.patterns import Patterns

MET_A_STEP: Final = 256
"""Bindings that one of several keys meets; each takes a third of a microsecond."""


class TopicRouter(Router):
    """Bindings by their patterns."""

    description = "AMQP topic exchange, as per the AMQP specification"
    takes_patterns = True

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
        return finished(self.matching(message))

    def matching(self, message: RoutedMessage) -> StepsTo[Iterable[Binding]]:
        """The same, in steps; bindings may come and go in between, and are met or not."""
        met: dict[Binding, None] = {}
        for key in message.keys:
            search = self._patterns.search(key)
            while not search.advance():
                yield None
            found = search.found
            if len(message.keys) == 1:
                return found
            yield None  # each search may take a step, and there may be thousands of keys
            for at in range(0, len(found), MET_A_STEP):
                met.update(dict.fromkeys(found[at : at + MET_A_STEP]))
                yield None
        return met

    def met_by(self, key: str) -> list[Binding] | None:
        """Returns those whose patterns it fits, if they are found at once."""
        return self._patterns.match_at_once(key)

    def only_key(self, key: str) -> str | None:
        """Returns the key itself if it has no wildcard."""
        words = key.split(".")
        return None if "*" in words or "#" in words else key

    def keys_of(self, binding: Binding) -> Callable[[str], bool]:
        """Says which fit its pattern."""
        pattern = Patterns()
        pattern.add(binding.key, binding)
        return lambda key: bool(pattern.match(key))
