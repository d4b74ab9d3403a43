"""Histograms, and how late the loop is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from leporid.server.histograms import SECONDS, Histogram, LoopLag


def test_a_value_counts_at_the_first_limit_that_it_does_not_exceed():
    histogram = Histogram("sizes", (1, 10, 100))
    for value in (0, 1, 2, 10, 11, 1000):
        histogram.note(value)
    assert histogram.counts == (2, 2, 1, 1)
    assert histogram.total == 1024
    histogram.note(1)
    assert histogram.counts == (3, 2, 1, 1)


class FakeLoop:
    """What `LoopLag` has of an event loop; its time stands still unless it is moved."""

    def __init__(self) -> None:
        self.now = 100.0
        self.due: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, call: Callable[[], None]) -> FakeTimer:
        self.due.append((when, call))
        return FakeTimer(self.due)

    def run(self, late_s: float) -> None:
        """Call what is due next, so much later than it asked for."""
        when, call = self.due.pop()
        self.now = when + late_s
        call()


class FakeTimer:
    def __init__(self, due: list[tuple[float, Callable[[], None]]]) -> None:
        self.due = due

    def cancel(self) -> None:
        self.due.clear()


def test_the_lag_of_the_loop_is_measured(monkeypatch: pytest.MonkeyPatch):
    loop = FakeLoop()
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: loop)
    lag = LoopLag()
    loop.run(0.0)
    loop.run(0.2)
    loop.run(3.0)
    # Its limits include 0.1 ms, 500 ms and 2.5 s, and above is everything else.
    assert [at for at, count in enumerate(lag.seconds.counts) if count] == [0, 10, len(SECONDS)]
    assert lag.seconds.total == pytest.approx(3.2)
    assert loop.due[0][0] == pytest.approx(loop.now + LoopLag.EVERY_S)
    lag.stop()
    assert not loop.due
