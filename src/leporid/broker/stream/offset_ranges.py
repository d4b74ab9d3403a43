"""Sets of offsets of a stream, kept as ranges.

Responsible for counting each offset once. Must not know what the offsets stand for. Invariant: the
ranges are in order, neither overlap nor touch, and are at most `RANGES_MAX`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import pairwise
from operator import itemgetter
from typing import Final

Range = tuple[int, int]
"""The first offset, and the one after the last."""

RANGES_MAX: Final = 64
"""Of one set. Beyond it the two with the fewest offsets between them become one: these offsets
count as if they had been added."""


class OffsetRanges:
    """A set of offsets."""

    __slots__ = ("_ranges",)

    def __init__(self) -> None:
        self._ranges: list[Range] = []

    def __repr__(self) -> str:
        return f"<OffsetRanges {self._ranges}>"

    def __len__(self) -> int:
        """How many offsets are in the set."""
        return sum(end - start for start, end in self._ranges)

    def add(self, start: int, end: int) -> list[Range]:
        """Add the offsets from `start` to below `end`; returns which of them were not in the set.

        An empty range adds nothing.
        """
        if start >= end:
            return []
        ranges = self._ranges
        first = bisect_left(ranges, start, key=itemgetter(1))  # those before end before `start`
        last = bisect_right(ranges, end, key=itemgetter(0))  # those from here on begin after `end`
        added, at = [], start
        for known_start, known_end in ranges[first:last]:
            if at < known_start:
                added.append((at, known_start))
            at = max(at, known_end)
        if at < end:
            added.append((at, end))
        if first < last:
            start, end = min(start, ranges[first][0]), max(end, ranges[last - 1][1])
        ranges[first:last] = [(start, end)]
        if len(ranges) > RANGES_MAX:
            gaps = [after - before for (_, before), (after, _) in pairwise(ranges)]
            at = gaps.index(min(gaps))
            ranges[at : at + 2] = [(ranges[at][0], ranges[at + 1][1])]
        return added

    def take(self) -> list[Range]:
        """Return all ranges, and forget them."""
        taken, self._ranges = self._ranges, []
        return taken
