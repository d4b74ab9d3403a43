# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of lease.pyx."""

from collections.abc import Iterable

from leporid.engine.queue.browse import QueueWindow
from leporid.engine.queue.queue import Queue

class Lease:
    """Messages taken from a queue: unacked until the lease ends."""

    def __init__(
        self, queue: Queue, most: int, chosen: bool = False, shown: bool = True
    ) -> None: ...
    @property
    def queue(self) -> Queue: ...
    @property
    def count(self) -> int:
        """Messages taken."""

    @property
    def ended(self) -> bool: ...
    def more(self, most: int) -> bool:
        """Take up to `most` of the next ready messages; returns whether it may take more."""

    def take(self, numbers: Iterable[int]) -> bool:
        """Take those of these messages that are still ready; returns whether it may take more."""

    def window(self, at: int, end: int, rows_max: int, bytes_max: int) -> QueueWindow:
        """Its messages from number `at` to below `end`, as many as the limits allow."""

    def acknowledge(self, most: int = ...) -> bool:
        """Settle all of them, or the first `most`; returns whether any are left."""

    def release(self, most: int = ...) -> bool:
        """Requeue all of them, or the first `most`; returns whether any are left."""
