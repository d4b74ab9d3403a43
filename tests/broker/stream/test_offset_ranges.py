"""Sets of offsets count each of them once, and stay small."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from leporid.broker.stream.offset_ranges import RANGES_MAX, OffsetRanges

RANGES = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 10)), max_size=40)


@given(RANGES)
def test_what_is_added_is_what_was_not_there(added: list[tuple[int, int]]):
    known: set[int] = set()
    ranges = OffsetRanges()
    for start, count in added:
        new = ranges.add(start, start + count)
        wanted = set(range(start, start + count)) - known
        assert {each for first, end in new for each in range(first, end)} == wanted
        assert sum(end - first for first, end in new) == len(wanted)
        known |= wanted
        assert len(ranges) == len(known)
    taken = ranges.take()
    assert all(before < after for (_, before), (after, _) in pairwise(taken))
    assert len(ranges) == 0


def test_beyond_the_maximum_the_nearest_two_become_one():
    ranges = OffsetRanges()
    for at in range(RANGES_MAX):
        ranges.add(10 * at, 10 * at + 1)
    ranges.add(10 * RANGES_MAX - 7, 10 * RANGES_MAX - 6)
    assert repr(ranges).count(", (") == RANGES_MAX - 1
    assert len(ranges) == RANGES_MAX + 1 + 2
    assert ranges.add(10 * RANGES_MAX - 10, 10 * RANGES_MAX - 6) == []
