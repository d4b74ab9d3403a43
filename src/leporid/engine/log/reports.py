"""What replay found, as values.

Plain data for the server's log and for `leporid check`; knows neither files nor the engine.
"""

from __future__ import annotations

from dataclasses import dataclass, field


class SegmentUnreadable(Exception):
    """A file that cannot be a segment of this log: another format, another file, no header."""


class SegmentTooNew(SegmentUnreadable):
    """A segment that a later version wrote: whole, but not for us to read or to touch."""


@dataclass(slots=True)
class SegmentReport:
    """One segment's verification.

    Attributes:
        used: bytes up to the end of the last good record.
        torn: bytes after it that are not zero: a write that did not finish.
        damaged: (offset, length) of stretches before it that do not verify.
        undone: records of transactions that never committed.
        broken: (from, to) offsets of transactions that committed and of which something is damaged.
        lost: (from, to) offsets of a stream whose messages do not verify.
        lost_before: bytes that the segment before ended with, by this one's header, and lacks.
    """

    number: int
    used: int = 0
    torn: int = 0
    records: int = 0
    publishes: int = 0
    settles: int = 0
    undone: int = 0
    lost_before: int = 0
    damaged: list[tuple[int, int]] = field(default_factory=list)
    broken: list[tuple[int, int]] = field(default_factory=list)
    lost: list[tuple[int, int]] = field(default_factory=list)

    def broken_transactions(self, path: object) -> list[str]:
        """Say of the file at `path` which transactions are damaged, and what that means."""
        return [
            f"{path}: the transaction at {start} to {end} is not whole: what it settled is there "
            "again"
            for start, end in self.broken
        ]
