# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of selector_set.pyx."""

from collections.abc import Sequence

from leporid.engine.bounds.clock import Clock
from leporid.engine.log.window import Window
from leporid.engine.selectors.filter import Filter
from leporid.engine.selectors.unfinished_match import UnfinishedMatch

class SelectorSet:
    """Filters that are asked about one message together, by number."""

    def __init__(self) -> None: ...
    def __len__(self) -> int: ...
    @property
    def indexed(self) -> int:
        """Members that are found by a value, and not asked about every message."""

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """Questions, evaluated, passed, type errors, since the start.

        Each member is one question about each message, and is asked unless a value has answered it.
        """

    def add(self, filter: Filter) -> int:  # noqa: A002 - what it is
        """Take a member in; returns its number, which is given again after `remove`."""

    def remove(self, number: int) -> None:
        """Let a member go; KeyError without it."""

    def matching(self, exchange: str, routing_key: str, properties: bytes) -> list[int]:
        """The numbers of the members that a message passes; `properties` are encoded."""

    def ask(
        self,
        exchange: str,
        routing_key: str,
        properties: bytes,
        clock: Clock,
        numbers: Sequence[int] | None = None,
    ) -> tuple[list[int], UnfinishedMatch | None]:
        """Ask members about a message, in a slice of time; `numbers` are those, None: all.

        Gives the numbers of members that the message passes, some of which may be gone before the
        next call; and what is left for `ask_rest`, None if all were asked.
        """

    def ask_rest(
        self,
        rest: UnfinishedMatch,
        exchange: str,
        routing_key: str,
        properties: bytes,
        clock: Clock,
    ) -> tuple[list[int], UnfinishedMatch | None]:
        """Go on with the same message: as `ask`."""

    def count_in(self, window: Window) -> int:
        """How many members the messages of a window pass, all together."""
