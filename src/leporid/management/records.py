"""Records of a stream as an Arrow IPC stream, however many.

Responsible for the parameters of the route and for sending batch after batch while the client
takes them. Must not know how columns are built (`engine.arrow`) or written (`tables`).

Invariants: of each answer at most one batch is in memory; the bytes of a window stay where they are
until the thread that reads them is done, whatever becomes of the request; the body of an answer
ends in order only when the last record was sent, so that a cut one never looks whole.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import Response

from leporid.engine.arrow import COLUMNS, columns_of
from leporid.management.parameters import Parameters
from leporid.management.refusals import Refusal, bad, busy
from leporid.management.streams import check_partition
from leporid.management.surroundings import Found, Surroundings, need_arrow
from leporid.management.turns import Turns

if TYPE_CHECKING:
    from leporid.engine.stream import Stream
    from leporid.engine.window import Window
    from leporid.management.tables import Encoder

logger = logging.getLogger(__name__)

MEDIA_TYPE: Final = "application/vnd.apache.arrow.stream"
# Answers under way: each has one batch in memory, encoded and not. More requests wait.
ANSWERS_MAX: Final = 32
QUEUE_SECONDS: Final = 10
BATCH_ROWS: Final = 10_000
BATCH_ROWS_MAX: Final = 100_000
# Of records in one batch; a larger message makes a batch alone.
BATCH_BYTES: Final = 4 * 1024 * 1024
# Given to the socket at a time, so that one reader never holds the loop for long.
PIECE_BYTES: Final = 128 * 1024
PARAMETERS: Final = (
    "partition",
    "from",
    "to",
    "columns",
    "compression",
    "batch_rows",
    "incarnation",
    "routing_key",
    "routing_key_prefix",
    "exchange",
    "skip_lost",
    "since_ms",
    "until_ms",
)
COMPRESSIONS: Final = ("none", "lz4", "zstd")
DEFAULT_COLUMNS: Final = [name for name in COLUMNS if name != "headers_json"]


@dataclass(frozen=True)
class Wanted:
    """What a request asks for."""

    name: str
    partition: int
    stream: Stream
    first: int
    end: int
    columns: tuple[str, ...]
    compression: str
    batch_rows: int
    skip_lost: bool
    filters: dict[str, Any]


class RecordRoutes:
    """The handler, and how many it serves at a time."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._places = asyncio.Semaphore(ANSWERS_MAX)
        self._turns = Turns()

    async def records(self, request: Request) -> Response:
        """GET …/records."""
        found = await self._around.find(request)
        wanted = _wanted(found, request)
        await self._around.on_thread(need_arrow)
        return _Records(self._around, self._places, self._turns, wanted)


def _encoder(wanted: Wanted) -> Encoder:
    from leporid.management import tables  # it needs pyarrow, which is there by now

    facts = {
        "leporid.from": str(wanted.first),
        "leporid.to": str(wanted.end),
        "leporid.partition": str(wanted.partition),
        "leporid.incarnation": wanted.stream.incarnation,
    }
    return tables.Encoder(tables.schema_of(wanted.columns, facts), wanted.compression)


def _wanted(found: Found, request: Request) -> Wanted:
    given = Parameters(request, PARAMETERS)
    partition = check_partition(found, given)
    stream = found.streams[partition]
    incarnation = given.text("incarnation")
    if incarnation is not None and incarnation != stream.incarnation:
        raise Refusal(
            409,
            "incarnation",
            f"stream '{found.name}' is not the one that was read before: it was deleted and made "
            "anew, so its offsets mean other messages",
            incarnation=stream.incarnation,
        )
    first = given.whole("from", stream.first)
    end = given.whole("to", stream.end)
    if end < first:
        raise bad("to", f"{end} is below from, {first}")
    if first < stream.first:
        raise Refusal(
            410,
            "gone",
            f"partition {partition} of stream '{found.name}' begins with offset {stream.first}; "
            f"what was before is not kept any more",
            first=stream.first,
        )
    if end > stream.end:
        raise Refusal(
            416,
            "beyond",
            f"partition {partition} of stream '{found.name}' ends before offset {stream.end}",
            end=stream.end,
        )
    return Wanted(
        name=found.name,
        partition=partition,
        stream=stream,
        first=first,
        end=end,
        columns=_columns(given),
        compression=given.choice("compression", COMPRESSIONS),
        batch_rows=given.whole("batch_rows", BATCH_ROWS, 1, BATCH_ROWS_MAX),
        skip_lost=given.flag("skip_lost"),
        filters=_filters(given),
    )


def _columns(given: Parameters) -> tuple[str, ...]:
    wanted = given.words("columns", COLUMNS) or DEFAULT_COLUMNS
    return tuple(name for name in COLUMNS if name in wanted)


def _filters(given: Parameters) -> dict[str, Any]:
    filters: dict[str, Any] = {
        name: text.encode()
        for name in ("routing_key", "routing_key_prefix", "exchange")
        if (text := given.text(name)) is not None
    }
    if "since_ms" in given:
        filters["since_ms"] = given.needed("since_ms")
    if "until_ms" in given:
        filters["until_ms"] = given.needed("until_ms")
    return filters


class Cut(Exception):
    """The answer cannot go on; the message says why."""


class _Records(Response):
    """The answer: its head is sent when the first batch is ready."""

    def __init__(
        self, around: Surroundings, places: asyncio.Semaphore, turns: Turns, wanted: Wanted
    ) -> None:
        self._around = around
        self._places = places
        self._turns = turns
        self._wanted = wanted
        self._encoder = _encoder(wanted)
        self.background = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Send it all, or as much as is possible, and then end the connection."""
        try:
            async with asyncio.timeout(QUEUE_SECONDS):
                await self._places.acquire()
        except TimeoutError:
            refusal = busy(f"{ANSWERS_MAX} requests for records are being answered")
            await refusal.answer()(scope, receive, send)
            return
        gone = asyncio.create_task(_disconnected(receive))
        sending = asyncio.create_task(self._send(scope, receive, send))
        try:
            await asyncio.wait({gone, sending}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        except Cut as cut:
            # The application ends here without having completed the body, so the server closes
            # the connection, which no client takes for an end.
            logger.warning("records of stream %r cut off: %s", self._wanted.name, cut)
        finally:
            for task in (gone, sending):
                task.cancel()
            await asyncio.gather(gone, sending, return_exceptions=True)
            self._places.release()

    async def _send(self, scope: Any, receive: Any, send: Any) -> None:
        wanted = self._wanted
        try:
            at, batch = await self._next(wanted.first)
        except Refusal as refusal:
            await refusal.answer()(scope, receive, send)
            return
        head = [(b"content-type", MEDIA_TYPE.encode()), (b"cache-control", b"no-store")]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await self._write(send, self._encoder.opening)
        while True:
            await self._write(send, batch)
            del batch  # before the next one is made
            if at >= wanted.end:
                break
            try:
                at, batch = await self._next(at)
            except Refusal as refusal:
                raise Cut(refusal.reason) from None
        ending = b"\xff\xff\xff\xff\0\0\0\0"
        await send({"type": "http.response.body", "body": ending, "more_body": False})

    async def _write(self, send: Any, data: bytes | memoryview) -> None:
        """Send in pieces; each waits until the client has taken most of what came before."""
        view = memoryview(data)
        for start in range(0, len(view), PIECE_BYTES):
            await self._turns.next()
            piece = view[start : start + PIECE_BYTES]
            await send({"type": "http.response.body", "body": piece, "more_body": True})

    async def _next(self, at: int) -> tuple[int, memoryview]:
        """Encode the next batch that has rows; returns where the one after it begins."""
        wanted = self._wanted
        while True:
            await self._turns.next()
            window = self._window(at)
            job = self._around.encoders.submit(self._encode, window)
            end = window.end
            batch = await _result(job, window)
            if batch is not None or end >= wanted.end:
                return end, batch or memoryview(b"")
            at = end

    def _window(self, at: int) -> Window:
        wanted = self._wanted
        stream = wanted.stream
        if at < stream.first:
            raise Refusal(410, "gone", f"offset {at} was dropped by retention", first=stream.first)
        if stream.retired:
            raise Refusal(404, "not-found", f"stream '{wanted.name}' was deleted")
        window = stream.window(at, wanted.end, wanted.batch_rows, BATCH_BYTES)
        if window.lost and not wanted.skip_lost:
            lost = window.lost
            window.close()
            raise Refusal(
                410,
                "lost",
                f"messages of stream '{wanted.name}' were damaged on disk: offsets "
                + ", ".join(f"{start} to {end - 1}" for start, end in lost)
                + "; skip_lost=true leaves them out",
                lost=lost,
            )
        return window

    def _encode(self, window: Window) -> memoryview | None:
        """Columns, batch, message; on a thread."""
        from leporid.management.tables import batch_of

        wanted = self._wanted
        rows, columns = columns_of(
            window,
            wanted.columns,
            stream=wanted.name,
            partition=wanted.partition,
            **wanted.filters,
        )
        if not rows:
            return None
        return self._encoder.encode(batch_of(self._encoder.schema, rows, columns))


async def _result(job: Future[memoryview | None], window: Window) -> memoryview | None:
    """Wait for a thread; the window is closed when it is done, even if nobody waits any more."""
    done = asyncio.wrap_future(job)
    try:
        return await asyncio.shield(done)
    finally:
        if done.done():
            window.close()
        else:
            done.add_done_callback(lambda _: window.close())


async def _disconnected(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
