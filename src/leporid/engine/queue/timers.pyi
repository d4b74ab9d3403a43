# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of timers.pyx."""

from typing import final

@final
class Timers:
    """A heap of timers; used by the engine only."""

    @property
    def count(self) -> int:
        """Timers there are, those of settled entries included."""
