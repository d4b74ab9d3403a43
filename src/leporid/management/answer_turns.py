"""Turns for what requests make the broker do: one piece of work in each round of the event loop.

Responsible for keeping rounds short, however many requests are under way, so that AMQP's clients
are served in between. Must not know what the work is. Invariants: keys that wait take turns, so
that whoever has one request is not behind all those of another; of one key, whoever waits gets a
turn in the order of asking.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable


class AnswerTurns:
    """Gives one turn a round."""

    def __init__(self) -> None:
        # Those who wait, by key; the key whose turn it is comes first.
        self._lines: dict[Hashable, deque[asyncio.Future[None]]] = {}
        self._scheduled = False

    def __repr__(self) -> str:
        return f"<Turns waiting={sum(map(len, self._lines.values()))}>"

    async def next(self, key: Hashable) -> None:
        """Return in a later round, alone.

        Args:
            key: whose turn it is: the peer's address before login, the user after.
        """
        turn = asyncio.get_running_loop().create_future()
        self._lines.setdefault(key, deque()).append(turn)
        self._schedule()
        await turn

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._give)

    def _give(self) -> None:
        self._scheduled = False
        given = False
        while self._lines and not given:
            key, line = next(iter(self._lines.items()))
            del self._lines[key]
            while line and not given:
                turn = line.popleft()
                if not turn.done():  # else it was cancelled
                    turn.set_result(None)
                    given = True
            if line:
                self._lines[key] = line  # behind the others
        if self._lines:
            self._schedule()
