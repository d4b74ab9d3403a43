"""An Arrow IPC stream as an answer, however long.

Responsible for sending batch after batch while the client takes them. Must not know what the
batches are of (`Batches`), nor how columns are built or written.

Invariants: of each answer at most one batch is in memory; the body of an answer ends in order only
when the last batch was sent, so that a cut one never looks whole.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from starlette.responses import Response

from leporid.management.admission import Admission, waited_for
from leporid.management.refusals import Refusal

if TYPE_CHECKING:
    from leporid.broker.access.access import User

logger = logging.getLogger(__name__)

MEDIA_TYPE: Final = "application/vnd.apache.arrow.stream"
# Given to the socket at a time, so that one reader never holds the loop for long.
PIECE_BYTES: Final = 128 * 1024


class Batches(Protocol):
    """What is answered with."""

    @property
    def title(self) -> str:
        """What it is, for the log."""

    @property
    def opening(self) -> bytes:
        """The schema's message."""

    @property
    def headers(self) -> Sequence[tuple[bytes, bytes]]:
        """What the answer's head says beside its type."""

    async def next(self) -> memoryview | None:
        """Encode the next batch; None after the last.

        Raises:
            Refusal: there is no answer, or it cannot go on.
        """

    def end(self, whole: bool) -> None:
        """Everything was sent, or it ended on the way."""


class Cut(Exception):
    """The answer cannot go on; the message says why."""


class TableAnswer(Response):
    """The answer: its head is sent when the first batch is ready.

    Args:
        admission: has the share of tables, and turns.
        user: whose they are.
        batches: what is answered with.
    """

    def __init__(self, admission: Admission, user: User, batches: Batches) -> None:
        self._tables = admission.shares.tables
        self._turns = admission.turns
        self._key = user.name
        self._batches = batches
        self.background = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Send it all, or as much as is possible, and then end the connection."""
        try:
            slot = await waited_for(self._tables, self._key)
        except Refusal as refusal:
            self._batches.end(False)
            await refusal.answer()(scope, receive, send)
            return
        whole = False
        gone = asyncio.create_task(disconnected(receive))
        sending = asyncio.create_task(self._send(scope, receive, send))
        try:
            await asyncio.wait({gone, sending}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                whole = sending.result()
        except Cut as cut:
            # The application ends here without having completed the body, so the server closes
            # the connection, which no client takes for an end.
            logger.warning("%s cut off: %s", self._batches.title, cut)
        finally:
            for task in (gone, sending):
                task.cancel()
            await asyncio.gather(gone, sending, return_exceptions=True)
            slot.release()
            self._batches.end(whole)

    async def _send(self, scope: Any, receive: Any, send: Any) -> bool:
        """Return whether the whole table was sent."""
        try:
            batch = await self._batches.next()
        except Refusal as refusal:
            await refusal.answer()(scope, receive, send)
            return False
        head = [
            (b"content-type", MEDIA_TYPE.encode()),
            (b"cache-control", b"no-store"),
            *self._batches.headers,
        ]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await self._write(send, self._batches.opening)
        while batch is not None:
            await self._write(send, batch)
            del batch  # before the next one is made
            try:
                batch = await self._batches.next()
            except Refusal as refusal:
                raise Cut(refusal.reason) from None
        ending = b"\xff\xff\xff\xff\0\0\0\0"
        await send({"type": "http.response.body", "body": ending, "more_body": False})
        return True

    async def _write(self, send: Any, data: bytes | memoryview) -> None:
        """Send in pieces; each waits until the client has taken most of what came before."""
        view = memoryview(data)
        for start in range(0, len(view), PIECE_BYTES):
            await self._turns.next(self._key)
            piece = view[start : start + PIECE_BYTES]
            await send({"type": "http.response.body", "body": piece, "more_body": True})


async def disconnected(receive: Any) -> None:
    """Return when the client is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
