# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of rendezvous.pyx."""

from typing import final

@final
class Rendezvous:
    """Places by name, each with a weight."""

    def __len__(self) -> int: ...
    def add(self, name: bytes, weight: float) -> None:
        """Add a place; there must be none of that name, and its weight must be above zero."""

    def remove(self, name: bytes) -> None:
        """Remove a place that is there."""

    def choose(self, key: bytes) -> bytes | None:
        """Return the name of the place that a key belongs to; None if there is no place."""
