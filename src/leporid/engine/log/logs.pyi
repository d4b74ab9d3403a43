# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of logs.pyx."""

from collections.abc import Callable, Iterator

from typing_extensions import Buffer

from leporid.engine.bounds.clock import Clock
from leporid.engine.log.log import Log, Segment
from leporid.engine.log.producers import Producers

class Entries:
    """The entries that refer to records; used by the engine only."""

class Logs:
    """Both logs, and sync generations; made by `Engine`."""

    map_segment: Callable[[int], Buffer] | None
    """Gives the file of a sealed segment."""

    def __init__(
        self, seed: int, durable_segment_bytes: int, transient_segment_bytes: int
    ) -> None: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def transient(self) -> Log: ...
    @property
    def durable(self) -> Log: ...
    @property
    def producers(self) -> Producers:
        """Named producers of messages to queues."""

    @property
    def generation(self) -> int:
        """The one that changes belong to now."""

    @property
    def synced(self) -> int:
        """The newest one that is on disk."""

    @property
    def dirty(self) -> bool:
        """Something of this generation must reach the disk."""

    @property
    def awaited(self) -> bool:
        """A publisher or reader waits for this generation."""

    @property
    def segments(self) -> list[Segment]:
        """Segments of the durable log that exist, oldest first."""

    def note_change(self) -> int:
        """A definition changed; returns the generation it belongs to."""

def mapping(logs: Logs) -> Iterator[None]:
    """Read segments that are on disk from their files, one a step."""
