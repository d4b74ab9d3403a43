"""Where publishes wait until they may be written.

Responsible for the order of those that wait, and for waking no more of them than there is room for.
It must not know what closes it. Invariant: as long as there is room, or an error to tell, the first
that waits has been woken.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from itertools import islice
from typing import Final

from leporid.client.errors import ClientError

AT_ONCE: Final = 256
"""So many are woken in a turn of the loop; the last of them wakes others."""


class Gate:
    """Tasks that wait for room.

    Args:
        room: says how many may pass now; raises why nobody will ever.
    """

    def __init__(self, room: Callable[[], int]) -> None:
        self._room = room
        self._waiting: OrderedDict[object, asyncio.Future[None]] = OrderedDict()
        self._woken = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def __repr__(self) -> str:
        return f"<Gate, {len(self)} wait>"

    async def passed(self) -> None:
        """Waits for one's turn and for room; who returns has to take it without another wait.

        Raises:
            ClientError: there will be no room.
        """
        if not self._waiting and self._room():
            return
        loop = asyncio.get_running_loop()
        me = object()
        try:
            while True:
                # Who was woken and finds no room keeps the place in the line.
                self._waiting[me] = waiter = loop.create_future()
                try:
                    await waiter
                finally:
                    if waiter.done() and not waiter.cancelled():
                        self._woken -= 1
                if self._room():
                    return
        finally:
            self._waiting.pop(me, None)
            self.look()

    def look(self) -> None:
        """Something has changed: wakes those that may pass."""
        if self._woken or not self._waiting:
            return
        try:
            room = self._room()
        except ClientError:
            room = AT_ONCE  # each of them is told
        for waiter in islice(self._waiting.values(), min(room, AT_ONCE)):
            if not waiter.done():
                waiter.set_result(None)
                self._woken += 1
