"""Latencies in buckets: any number of them in a few kilobytes, shared between processes.

Responsible for counting them and for percentiles. A bucket is a sixteenth of a power of two wide,
so a percentile is at most 6 % too high. Must not know what is measured, nor read a clock.
"""

from __future__ import annotations

from collections.abc import MutableSequence, Sequence
from typing import Final

_STEPS_LOG2: Final = 4
_STEPS: Final = 1 << _STEPS_LOG2
# Up to 2**40 microseconds, which is 12 days.
_POWERS: Final = 40
BUCKETS: Final = (_POWERS + 1) * _STEPS
"""How many counters there are."""


def bucket_of(microseconds: int) -> int:
    """Return the number of the bucket that a latency counts in."""
    if microseconds < _STEPS:
        return max(0, microseconds)
    power = microseconds.bit_length() - 1
    if power > _POWERS - 1:
        return BUCKETS - 1
    step = (microseconds >> (power - _STEPS_LOG2)) & (_STEPS - 1)
    return (power - _STEPS_LOG2 + 1) * _STEPS + step


def bound_of(bucket: int) -> int:
    """Return the highest latency that counts in a bucket, in microseconds."""
    if bucket < _STEPS:
        return bucket
    power = bucket // _STEPS + _STEPS_LOG2 - 1
    step = bucket % _STEPS
    return ((_STEPS + step + 1) << (power - _STEPS_LOG2)) - 1


def note(counts: MutableSequence[int], nanoseconds: int) -> None:
    """Count one latency."""
    counts[bucket_of(nanoseconds // 1000)] += 1


def percentile_us(counts: Sequence[int], share: float) -> float:
    """Return the latency that this share of them did not exceed, in microseconds; 0 of none."""
    total = sum(counts)
    wanted, seen = share * total, 0
    for bucket, count in enumerate(counts):
        seen += count
        if count and seen >= wanted:
            return float(bound_of(bucket))
    return 0.0
