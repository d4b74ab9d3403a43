# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of patterns.pyx."""

from collections.abc import Hashable
from typing import Any, Final, final

WORDS_MAX: Final[int]

@final
class Word:
    """A word of patterns, or a wildcard; used by the engine only."""

@final
class Node:
    """A node of the tree; used by the engine only."""

@final
class Search:
    """A key that is matched with all patterns, as far as it has come."""

    @property
    def found(self) -> list[Any]:
        """The values under the patterns that it matched so far."""

    def advance(self) -> bool:
        """Find some more; returns whether that was all."""

@final
class Patterns:
    """Patterns, each with the values that were added under it."""

    @property
    def node_count(self) -> int: ...
    @property
    def word_count(self) -> int: ...
    def add(self, pattern: str, value: Hashable) -> None: ...
    def remove(self, pattern: str, value: Hashable) -> None: ...
    def match(self, key: str) -> list[Any]: ...
    def match_at_once(self, key: str) -> list[Any] | None:
        """The same if the key is short and few patterns are alike, so that it is found at once.

        None: it is to be searched for.
        """

    def search(self, key: str) -> Search:
        """Begin to find the same in steps; between them patterns may come and go."""
