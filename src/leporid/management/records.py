"""Records of a stream as an Arrow IPC stream, however many.

Responsible for the parameters of the route and for making batch after batch. Must not know how
columns are built (`engine.tables.arrow`), written (`tables`) or sent (`answers`).

Invariant: the bytes of a window stay where they are until the thread that reads them is done,
whatever becomes of the request.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import Response

from leporid.engine.tables.arrow import COLUMNS, columns_of
from leporid.engine.tables.chosen import Chosen
from leporid.management.answers import TableAnswer
from leporid.management.batches import BatchMaker
from leporid.management.filter_parameters import FILTER_PARAMETERS, check_filters, filters_in
from leporid.management.parameters import Parameters
from leporid.management.refusals import Refusal, bad
from leporid.management.streams import check_incarnation, check_partition
from leporid.management.surroundings import Found, Surroundings

if TYPE_CHECKING:
    from leporid.engine.stream.stream import Stream
    from leporid.engine.stream.window import StreamWindow
    from leporid.management.tables import Encoder

BATCH_ROWS: Final = 10_000
BATCH_ROWS_MAX: Final = 100_000
# Of records in one batch; a larger message makes a batch alone.
BATCH_BYTES: Final = 4 * 1024 * 1024
# A client that hears nothing gives up after a while (Spark's reader after a minute), and to look
# through a long stream for what is not there may take longer.
SILENCE_SECONDS: Final = 10
PARAMETERS: Final = (
    "partition",
    "from",
    "to",
    "columns",
    "compression",
    "batch_rows",
    "incarnation",
    "skip_lost",
    *FILTER_PARAMETERS,
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
    """The handler."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around

    async def records(self, request: Request) -> Response:
        """GET …/records."""
        found = await self._around.find(request)
        wanted = _wanted(found, request)
        await self._around.need_arrow(found.user)
        batches = _Records(self._around, found.user.name, wanted)
        return TableAnswer(self._around.admission, found.user, batches)


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
    check_incarnation(found, partition, given)
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
    check_filters(given, found.user, found.vhost, found.name)
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
        filters=filters_in(given),
    )


def _columns(given: Parameters) -> tuple[str, ...]:
    wanted = given.words("columns", COLUMNS) or DEFAULT_COLUMNS
    return tuple(name for name in COLUMNS if name in wanted)


class _Records:
    """The batches of an answer."""

    headers: Final = ()

    def __init__(self, around: Surroundings, key: str, wanted: Wanted) -> None:
        self._around = around
        self._key = key
        self._wanted = wanted
        self._encoder = _encoder(wanted)
        self._maker = BatchMaker(around, key, wanted.columns, wanted.name)
        self._at = wanted.first
        self._begun = False

    @property
    def title(self) -> str:
        """What it is, for the log."""
        return f"records of stream {self._wanted.name!r}"

    @property
    def opening(self) -> bytes:
        """The schema's message."""
        return self._encoder.opening

    def end(self, whole: bool) -> None:
        """Nothing is kept."""
        self._maker.release()

    async def next(self) -> memoryview | None:
        """Encode the next batch that has rows, or none after a while; None after the last."""
        wanted, monotonic = self._wanted, self._around.monotonic
        until = monotonic() + SILENCE_SECONDS
        # The first window is asked for even of nothing: what is refused is refused before the head.
        while self._at < wanted.end or not self._begun:
            self._maker.release()
            await self._around.admission.turns.next(self._key)
            window = self._window(self._at)
            self._begun = True
            self._at = window.end
            counts, batch = await self._maker.make(window, self._encode)
            wanted.stream.count_filtering(counts)
            if batch is not None:
                encoded: memoryview = batch
                return encoded
            if monotonic() >= until:
                return self._encoder.without_rows()
        return None

    def _window(self, at: int) -> StreamWindow:
        wanted = self._wanted
        stream = wanted.stream
        if at < stream.first:
            raise Refusal(410, "gone", f"offset {at} was dropped by retention", first=stream.first)
        if stream.retired:
            raise Refusal(404, "not-found", f"stream '{wanted.name}' was deleted")
        choice = wanted.filters.get("choice")
        window = stream.window(at, wanted.end, wanted.batch_rows, BATCH_BYTES, choice)
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

    def _encode(self, window: StreamWindow) -> tuple[tuple[int, int, int, int], memoryview | None]:
        """What filters made of it, and columns, batch, message; on a thread."""
        from leporid.management.tables import batch_of

        wanted = self._wanted
        chosen = Chosen(window, **wanted.filters)
        if not chosen.rows:
            return chosen.filtering, None
        rows, columns = columns_of(
            window, wanted.columns, stream=wanted.name, partition=wanted.partition, chosen=chosen
        )
        return chosen.filtering, self._encoder.encode(batch_of(self._encoder.schema, rows, columns))
