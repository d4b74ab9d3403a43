"""Slices of time: when work is to be cut."""

from itertools import count

import pytest

from leporid.engine.bounds.clock import Clock

MS = 1_000_000
SLICE = MS // 2


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_without_a_reader_no_time_passes(clock: Clock) -> None:
    assert not any(clock.over() for _ in range(1000))


def test_a_slice_is_over_after_half_a_millisecond_and_stays_so(clock: Clock) -> None:
    times = iter([5 * MS, 5 * MS + SLICE - 1, 5 * MS + SLICE, 5 * MS + SLICE + 1])
    clock.monotonic_ns = times.__next__
    assert [clock.over() for _ in range(4)] == [False, False, True, True]


def test_a_stage_of_one_slice_is_over_with_it(clock: Clock) -> None:
    clock.monotonic_ns = count(0, SLICE // 2).__next__
    assert not clock.over()
    assert not clock.stage_is_over
    assert [clock.over() for _ in range(2)] == [False, True]
    assert clock.stage_is_over


def test_time_may_begin_at_zero_or_anywhere(clock: Clock) -> None:
    clock.monotonic_ns = count(10**18, SLICE).__next__
    assert [clock.over() for _ in range(2)] == [False, True]
