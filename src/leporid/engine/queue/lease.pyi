# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of lease.pyx."""

from collections.abc import Iterable

from leporid.engine.queue.browse import QueueWindow
from leporid.engine.queue.queue import Queue

class Lease:
    """Messages taken from a queue: unacked until the lease ends."""

    def __init__(self, queue: Queue, most: int, chosen: bool = False) -> None: ...
    @property
    def queue(self) -> Queue: ...
    @property
    def count(self) -> int:
        """Messages taken."""

    @property
    def ended(self) -> bool: ...
    def take(self, numbers: Iterable[int]) -> bool:
        """Take those of these messages that are still ready; returns whether it may take more."""

    def window(self, at: int, end: int, rows_max: int, bytes_max: int) -> QueueWindow:
        """Its messages from number `at` to below `end`, as many as the limits allow."""

    def acknowledge(self) -> None:
        """Settle all of them."""

    def release(self) -> None:
        """Requeue all of them."""
