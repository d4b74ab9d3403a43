# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of dead_lettering.pyx."""

from collections import deque
from typing import final

@final
class DeadLettering:
    """Dead-lettering for all queues of an engine; used by the engine only."""

    held: bool
    """None is made for now: there is too little memory or room on the disk."""

    @property
    def waiting(self) -> deque[object]:
        """Entries to be dead-lettered in later turns; the first one may have been begun."""
    @property
    def refused(self) -> deque[object]:
        """Letters that full queues make of messages they refused, in later turns."""
