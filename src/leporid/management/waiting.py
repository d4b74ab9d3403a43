"""Requests that wait until a stream has more.

Responsible for long polls. Must not know HTTP. Invariant: a stream is watched only while somebody
waits for it, because a watched stream is synced at once, as if each message were confirmed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from leporid.engine.stream.stream import Stream


class Waiting:
    """Everybody who waits for a stream."""

    def __init__(self) -> None:
        self._events: dict[Stream, set[asyncio.Event]] = {}

    def __repr__(self) -> str:
        return f"<Waiting streams={len(self._events)}>"

    async def grown(self, streams: Iterable[Stream], seconds: float) -> bool:
        """Return True when one of them has more to read than now, or False after so long."""
        event = asyncio.Event()
        watched = list(streams)
        for stream in watched:
            self._events.setdefault(stream, set()).add(event)
            stream.on_synced = partial(self._wake, stream)
        try:
            async with asyncio.timeout(seconds):
                return await event.wait()
        except TimeoutError:
            return False
        finally:
            for stream in watched:
                self._leave(stream, event)

    def _wake(self, stream: Stream) -> None:
        for event in self._events.get(stream, ()):
            event.set()

    def _leave(self, stream: Stream, event: asyncio.Event) -> None:
        events = self._events[stream]
        events.discard(event)
        if not events:
            del self._events[stream]
            stream.on_synced = None
