"""Histograms: how often something took how long, or was how large; and how late the event loop is.

Responsible for counting by limits that are fixed at the start. Must not know what is measured.
Invariant: each value is counted once, at the first limit that it does not exceed.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

SECONDS: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 2.5)
"""For what should take a few milliseconds at most."""
SYNC_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
BYTES: Final = tuple(float(4**power) for power in range(4, 15))
"""From 256 bytes to 256 MiB."""


class Histogram:
    """Counts values by their size.

    Args:
        text: what is measured, for people.
        limits: in rising order.

    Attributes:
        total: the sum of all values.
    """

    __slots__ = ("_counts", "limits", "text", "total")

    def __init__(self, text: str, limits: Sequence[float]) -> None:
        self.text = text
        self.limits = limits
        self.total = 0.0
        self._counts = [0] * (len(limits) + 1)

    def __repr__(self) -> str:
        return f"<Histogram {self.text!r} {self._counts}>"

    @property
    def counts(self) -> tuple[int, ...]:
        """How many values came to each limit, and how many were above all."""
        return tuple(self._counts)

    def note(self, value: float) -> None:
        """Count a value."""
        self._counts[bisect_left(self.limits, value)] += 1
        self.total += value


class LoopLag:
    """Measures how late the running event loop is.

    Something is due each second; how much later it comes shows what all connections wait for.

    Attributes:
        seconds: by how much.
    """

    EVERY_S: Final = 1.0

    def __init__(self) -> None:
        self.seconds = Histogram("How late the event loop comes to what is due", SECONDS)
        self._loop = asyncio.get_running_loop()
        self._due = self._loop.time() + self.EVERY_S
        self._timer = self._loop.call_at(self._due, self._come)

    def stop(self) -> None:
        """Measure no more."""
        self._timer.cancel()

    def _come(self) -> None:
        now = self._loop.time()
        self.seconds.note(max(0.0, now - self._due))
        self._due = now + self.EVERY_S
        self._timer = self._loop.call_at(self._due, self._come)
