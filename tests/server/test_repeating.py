"""Work that is due again and again."""

from __future__ import annotations

import asyncio
import logging

import pytest

from leporid.server.repeating import Repeating


async def test_it_comes_again_until_it_is_stopped():
    rounds: asyncio.Queue[int] = asyncio.Queue()
    repeating = Repeating(0.001, lambda: rounds.put_nowait(1))
    async with asyncio.timeout(5):
        for _ in range(3):
            await rounds.get()
    repeating.stop()
    assert repeating._timer.cancelled()


async def test_a_round_that_fails_is_not_the_last(caplog: pytest.LogCaptureFixture):
    rounds: asyncio.Queue[int] = asyncio.Queue()

    def work() -> None:
        rounds.put_nowait(1)
        raise ValueError("broken")

    with caplog.at_level(logging.ERROR):
        repeating = Repeating(0.001, work)
        async with asyncio.timeout(5):
            for _ in range(2):
                await rounds.get()
        repeating.stop()
    assert "work that is due every 0.001 s failed" in caplog.text
