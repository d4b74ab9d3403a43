"""Histograms, and how late the loop is."""

import asyncio
import time

from tests.server.client import PATIENCE_S

from leporid.server.histograms import Histogram, LoopLag


def test_a_value_counts_at_the_first_limit_that_it_does_not_exceed():
    histogram = Histogram("sizes", (1, 10, 100))
    for value in (0, 1, 2, 10, 11, 1000):
        histogram.note(value)
    assert histogram.counts == (2, 2, 1, 1)
    assert histogram.total == 1024
    histogram.note(1)
    assert histogram.counts == (3, 2, 1, 1)


async def test_the_lag_of_the_loop_is_measured(monkeypatch):
    monkeypatch.setattr(LoopLag, "EVERY_S", 0.02)
    lag = LoopLag()
    await asyncio.sleep(0)
    time.sleep(0.2)
    async with asyncio.timeout(PATIENCE_S):
        while not sum(lag.seconds.counts):
            await asyncio.sleep(0)
    lag.stop()
    assert lag.seconds.total > 0.1
    measured = sum(lag.seconds.counts)
    await asyncio.sleep(0.05)
    assert sum(lag.seconds.counts) == measured, "it was stopped"
