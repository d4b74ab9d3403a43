# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of log.pyx."""

from typing import Final

from leporid.engine.bounds.large_memory import LargeMemory

MAGIC: Final[bytes]
HEADER_BYTES: Final[int]
FORMAT_VERSION: Final[int]

def segment_header(number: int, salt: int, previous: int, previous_used: int) -> bytes:
    """The first bytes of a segment's file; `previous` is the segment before, 0 for none."""

class RecordMemory(LargeMemory):
    """Memory in which the body of a large message is assembled; used by the engine only."""

    @property
    def size(self) -> int:
        """Bytes of the body that have come."""

class Segment:
    """One part of a log."""

    def __init__(self, number: int, capacity: int, salt: int) -> None: ...
    @property
    def number(self) -> int:
        """Its place in the log."""

    @property
    def capacity(self) -> int:
        """Bytes it has room for."""

    @property
    def used(self) -> int:
        """Bytes appended, header included."""

    @property
    def written(self) -> int:
        """Bytes of these that are in the file."""

    @property
    def salt(self) -> int:
        """What makes its checksums differ from those of any other segment."""

    @property
    def live(self) -> int:
        """Entries of queues that refer to a record here."""

    @property
    def live_bytes(self) -> int:
        """Their shares of those records."""

    @property
    def total_bytes(self) -> int:
        """The shares of all entries that ever did."""

    @property
    def sealed(self) -> bool:
        """Nothing is appended any more."""

    @property
    def mapped(self) -> bool:
        """It is read through a mapping of its file."""

    def unwritten(self) -> memoryview:
        """The bytes that storage has not been given yet."""

    def mark_written(self, upto: int) -> None:
        """Storage has the bytes before `upto`."""

class Log:
    """An append-only sequence of segments."""

    def __init__(self, durable: bool, segment_bytes: int, seed: int) -> None: ...
    @property
    def durable(self) -> bool:
        """It is written to files."""

    @property
    def segment_bytes(self) -> int:
        """Capacity of a segment, unless one record needs more."""

    @property
    def first(self) -> int:
        """Number of `segments[0]`."""

    @property
    def segments(self) -> list[Segment | None]:
        """By number, from `first` on; None where one is gone."""

    @property
    def active(self) -> Segment | None:
        """The one that is appended to."""

    @property
    def appended(self) -> int:
        """Records appended, those of segments that are gone included."""

    @property
    def bytes(self) -> int:
        """Capacity of all segments together."""
