# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of dead_lettering.pyx."""

from collections import deque
from typing import final

@final
class DeadLettering:
    """The dead letters of one engine; used by the engine only."""

    @property
    def waiting(self) -> deque[object]:
        """What is buried in turns to come."""
