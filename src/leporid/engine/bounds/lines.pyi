# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of lines.pyx."""

from typing import Generic, TypeVar

from leporid.engine.bounds.clock import Party

_Waiting = TypeVar("_Waiting")

class Lines(Generic[_Waiting]):
    """What waits, in a line for each party; parties of one group have one line together."""

    @property
    def count(self) -> int:
        """How much waits, in all lines."""

    def add(self, party: Party | None, waiting: _Waiting) -> None:
        """Put it at the end of its party's line."""

    def take(self) -> _Waiting:
        """Take what is next; somebody must wait."""
