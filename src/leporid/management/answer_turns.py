"""Turns for large answers: one piece of work in each round of the event loop.

Responsible for keeping rounds short, however many answers are under way, so that AMQP's clients are
served in between. Must not know what the work is. Invariant: whoever waits gets a turn in the order
of asking.
"""

from __future__ import annotations

import asyncio
from collections import deque


class AnswerTurns:
    """Gives one turn a round."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._scheduled = False

    def __repr__(self) -> str:
        return f"<Turns waiting={len(self._waiting)}>"

    async def next(self) -> None:
        """Return in a later round, alone."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._schedule()
        await turn

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._give)

    def _give(self) -> None:
        self._scheduled = False
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():  # else it was cancelled
                turn.set_result(None)
                break
        if self._waiting:
            self._schedule()
