# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of queue.pyx."""

from leporid.engine.plane import Plane

class Taker:
    """Somebody who takes entries from a queue."""

    @property
    def priority(self) -> int:
        """Those of a higher one are served first."""

class Level:
    """The takers of one priority; used by the engine only."""

class Queue:
    """One queue's entries; made by `Plane.queue`."""

    def __init__(self, plane: Plane, queue_id: int, name: str, durable: bool) -> None: ...
    @property
    def id(self) -> int:
        """Its number in the log."""

    @property
    def name(self) -> str: ...
    @property
    def durable(self) -> bool: ...
    @property
    def retired(self) -> bool:
        """It was deleted."""

    @property
    def ready_count(self) -> int:
        """Messages that wait for a consumer."""

    @property
    def unacked_count(self) -> int:
        """Messages delivered and not settled."""

    @property
    def ready_bytes(self) -> int:
        """Bytes of the bodies that wait."""

    @property
    def next_seq(self) -> int:
        """Sequence number of the next entry."""

    @property
    def published(self) -> int:
        """Messages that ever came."""

    @property
    def delivered(self) -> int:
        """Deliveries to consumers, those of the same message included."""

    @property
    def consumer_count(self) -> int: ...
    def purge(self) -> int:
        """Drop the ready messages; returns how many there were."""

    def retire(self) -> int:
        """The queue was deleted; returns how many were ready."""
