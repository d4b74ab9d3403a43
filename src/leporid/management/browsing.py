"""Messages of a queue as an Arrow IPC stream, while the queue stays as it is.

Responsible for the parameters of the route and for making batch after batch, of a browse or of a
lease (`leases`). Must not know how entries are found (`engine.queue.browse`), nor how columns are
built, written or sent. Invariant: whoever may not read a queue sees nothing of it, its size
included.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import Response

from leporid.broker.access.access import User
from leporid.broker.queue.queue import QueueState
from leporid.broker.vhost import VirtualHost
from leporid.engine.queue.browse import Browse
from leporid.engine.tables.arrow import COLUMNS, ENTRY_COLUMNS, columns_of
from leporid.engine.tables.chosen import Chosen
from leporid.management.admission import holding
from leporid.management.answers import TableAnswer
from leporid.management.batches import BatchMaker
from leporid.management.filter_parameters import FILTER_PARAMETERS, check_filters, filters_in
from leporid.management.parameters import NUMBER_MAX, Parameters
from leporid.management.paths import name_of
from leporid.management.records import (
    BATCH_BYTES,
    BATCH_ROWS,
    BATCH_ROWS_MAX,
    COMPRESSIONS,
    DEFAULT_COLUMNS,
)
from leporid.management.refusals import Refusal
from leporid.management.surroundings import Surroundings

if TYPE_CHECKING:
    from leporid.engine.queue.browse import QueueWindow

TABLE_PARAMETERS: Final = ("columns", "compression", "batch_rows")
PARAMETERS: Final = ("from", "limit", "unacked", *TABLE_PARAMETERS, *FILTER_PARAMETERS)
# Messages that are looked at for one turn's worth of work with those that pass.
CHOSEN_ROWS: Final = 1000
QUEUE_COLUMNS: Final = (*COLUMNS, *ENTRY_COLUMNS)


@dataclass(frozen=True)
class FoundQueue:
    """A queue that a user may read."""

    user: User
    vhost: VirtualHost
    state: QueueState

    @property
    def engine(self) -> Any:
        """The engine's half, which is more than the rules know of."""
        return self.state.engine


@dataclass(frozen=True)
class Shape:
    """What a table is to look like."""

    columns: tuple[str, ...]
    compression: str
    batch_rows: int


async def find_queue(around: Surroundings, request: Request) -> FoundQueue:
    """Return the queue in the path.

    Raises:
        Refusal: it is a stream; and what `Surroundings.enter` raises.
        AccessRefused: the user may not read it.
        NotFound: there is none of that name.
        ResourceLocked: it belongs to a connection alone.
    """
    user, vhost = await around.enter(request)
    name = name_of(request, "queue")
    await around.decided(lambda: user.check("read", "queue", name, vhost.name))
    queue = vhost.queue(name)
    queue.check_access(None)
    if queue.stream is not None:
        raise Refusal(
            400, "bad-request", f"queue '{name}' is a stream: read /api/streams/…/records"
        )
    return FoundQueue(user, vhost, queue)


async def chosen_in(
    around: Surroundings, user: User, queue: Any, filters: dict[str, Any]
) -> AsyncGenerator[list[int]]:
    """Yield the sequence numbers of a queue's ready messages that pass filters, in pieces.

    What is looked at is bounded in each turn of the loop, and filters run on a thread. A message
    may be gone when its number is seen.

    Raises:
        Refusal: too many look through messages.
    """
    browse = Browse(queue)
    async with holding(around.admission.shares.tables, user.name):
        while not browse.done and not queue.retired:
            async with around.encoding(user.name) as encode:
                await around.admission.turns.next(user.name)
                window = browse.window(CHOSEN_ROWS, BATCH_BYTES)
                filtering, numbers = await encode(partial(_numbers_in, window, filters), window)
            around.engine.searches.note_browsed(queue, filtering)
            yield numbers


def _numbers_in(
    window: QueueWindow, filters: dict[str, Any]
) -> tuple[tuple[int, int, int, int], list[int]]:
    chosen = Chosen(window, **filters)
    return chosen.filtering, chosen.numbers


def shape_in(given: Parameters) -> Shape:
    """Return what a request says of the table it wants."""
    default = (*DEFAULT_COLUMNS, *ENTRY_COLUMNS)
    wanted = given.words("columns", QUEUE_COLUMNS) or default
    return Shape(
        columns=tuple(name for name in QUEUE_COLUMNS if name in wanted),
        compression=given.choice("compression", COMPRESSIONS),
        batch_rows=given.whole("batch_rows", BATCH_ROWS, 1, BATCH_ROWS_MAX),
    )


class BrowseRoutes:
    """The handler."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around

    async def messages(self, request: Request) -> Response:
        """GET /api/queues/{vhost}/{queue}/messages."""
        found = await find_queue(self._around, request)
        given = Parameters(request, PARAMETERS)
        shape, filters = shape_in(given), filters_in(given)
        check_filters(given, found.user, found.vhost, found.state.name)
        limit = given.whole("limit", NUMBER_MAX)
        first, unacked = given.whole("from", 0), given.flag("unacked")
        await self._around.need_arrow(found.user)
        browse = Browse(found.engine, first, unacked)
        batches = _Browsed(self._around, found, shape, filters, browse, limit)
        return TableAnswer(self._around.admission, found.user, batches)


class QueueBatches:
    """The batches of an answer; what they show, subclasses say."""

    headers: Sequence[tuple[bytes, bytes]] = ()

    def __init__(
        self,
        around: Surroundings,
        found: FoundQueue,
        shape: Shape,
        filters: dict[str, Any],
    ) -> None:
        from leporid.management import tables  # it needs pyarrow, which is there by now

        self._around = around
        self._key = found.user.name
        self._shape = shape
        self._filters = filters
        self.queue = found.state
        self.engine = found.engine
        self._maker = BatchMaker(around, self._key, shape.columns, found.state.name)
        facts = {"leporid.queue": found.state.name}
        self._encoder = tables.Encoder(tables.schema_of(shape.columns, facts), shape.compression)

    @property
    def title(self) -> str:
        """What it is, for the log."""
        return f"messages of {self.queue.title}"

    @property
    def opening(self) -> bytes:
        """The schema's message."""
        return self._encoder.opening

    def window(self, rows_max: int, bytes_max: int) -> QueueWindow | None:
        """Open the next window, of which nothing may be seen; None after the last."""
        raise NotImplementedError

    def shown(self, rows: int) -> None:
        """So many rows are in the batch that is sent next."""

    def end(self, whole: bool) -> None:
        """Everything was sent, or it ended on the way."""
        self._maker.release()

    async def next(self) -> memoryview | None:
        """Encode the next batch that has rows; None after the last."""
        while True:
            self._maker.release()
            await self._around.admission.turns.next(self._key)
            if self.engine.retired:
                raise Refusal(404, "not-found", f"{self.queue.title} was deleted")
            window = self.window(self._shape.batch_rows, BATCH_BYTES)
            if window is None:
                return None
            counts, rows, batch = await self._maker.make(window, self._encode)
            self._around.engine.searches.note_browsed(self.engine, counts)
            if rows:
                self.shown(rows)
                encoded: memoryview = batch
                return encoded

    def _encode(
        self, window: QueueWindow
    ) -> tuple[tuple[int, int, int, int], int, memoryview | None]:
        """What filters made of it, and columns, batch, message; on a thread."""
        from leporid.management.tables import batch_of

        chosen = Chosen(window, **self._filters)
        if not chosen.rows:
            return chosen.filtering, 0, None
        rows, columns = columns_of(
            window, self._shape.columns, stream=self.queue.name, chosen=chosen
        )
        batch = self._encoder.encode(batch_of(self._encoder.schema, rows, columns))
        return chosen.filtering, rows, batch


class _Browsed(QueueBatches):
    """What a browse shows."""

    def __init__(
        self,
        around: Surroundings,
        found: FoundQueue,
        shape: Shape,
        filters: dict[str, Any],
        browse: Browse,
        limit: int,
    ) -> None:
        super().__init__(around, found, shape, filters)
        self._browse = browse
        self._left = limit

    def window(self, rows_max: int, bytes_max: int) -> QueueWindow | None:
        if self._browse.done or not self._left:
            return None
        return self._browse.window(min(rows_max, self._left), bytes_max)

    def shown(self, rows: int) -> None:
        self._left -= rows
