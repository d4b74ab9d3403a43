"""Messages of a queue or stream as a page of JSON, for people and scripts; nothing is changed.

Responsible for the two routes: their parameters, and a page that says where the next one begins.
Tables (`browsing`, `records`) are for programs that read everything. Must not know how messages
are found or kept. Invariants: a page has at most MESSAGES_MAX messages, with BODY_BYTES_MAX bytes
together, and is made in LOOK_SECONDS; what does not fit is in the next one, so that a program that
follows `next` sees every message once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from starlette.requests import Request
from starlette.responses import Response

from leporid.engine.queue.browse import Browse
from leporid.engine.tables.chosen import Chosen
from leporid.limits.shares import NoSlot
from leporid.management.admission import holding, taken
from leporid.management.amqp_json import Body, shown, shown_properties
from leporid.management.browsing import CHOSEN_ROWS, find_queue
from leporid.management.filter_parameters import FILTER_PARAMETERS, check_filters, filters_in
from leporid.management.listings import Written
from leporid.management.messages import (
    BODY_BYTES_MAX,
    BODY_LIMIT,
    MESSAGE_BYTES,
    MESSAGES_MAX,
)
from leporid.management.parameters import NUMBER_MAX, Parameters, whole
from leporid.management.records import BATCH_BYTES
from leporid.management.refusals import Refusal, of_no_slot, too_large
from leporid.management.streams import check_partition

if TYPE_CHECKING:
    from collections.abc import Callable

    from leporid.broker.access.access import User
    from leporid.engine.log.window import Window
    from leporid.engine.stream.stream import Stream
    from leporid.limits.shares import Slot
    from leporid.management.surroundings import Found, Surroundings

LIMIT_DEFAULT: Final = 100
# Clients give up after half a minute or so. What was found until then is shown.
LOOK_SECONDS: Final = 10
ENCODINGS: Final = ("auto", "base64")
SHOWING: Final = ("from", "limit", "truncate", "encoding", *FILTER_PARAMETERS)
OF_QUEUE: Final = ("unacked", *SHOWING)
OF_STREAM: Final = ("partition", *SHOWING)

Copied: TypeAlias = tuple[int, int, str, str, bytes, bytes, int, bool, bool]
"""A message as `Chosen.messages` gives it."""
Counts: TypeAlias = tuple[int, int, int, int]
"""What a filter has looked at."""


@dataclass(frozen=True)
class Wanted:
    """What a request says of the page.

    Attributes:
        limit: messages at most.
        truncate: bytes of each body that are shown.
        as_text: whether bodies that are UTF-8 are shown as text.
        filters: which messages, for `Chosen`.
    """

    limit: int
    truncate: int
    as_text: bool
    filters: dict[str, Any]


class MessagePage:
    """A page that is being made.

    Args:
        around: the broker.
        user: whose it is.
        vhost: where the messages are.
        wanted: what it is to have.

    Attributes:
        found: the messages, in order.
        next: where the next page begins, if something did not fit.
        room: what the messages take of `http_body_bytes`.
    """

    def __init__(self, around: Surroundings, user: User, vhost: str, wanted: Wanted) -> None:
        self.around = around
        self.user = user
        self.vhost = vhost
        self.wanted = wanted
        self._left = BODY_BYTES_MAX
        self._until = around.monotonic() + LOOK_SECONDS
        self.found: list[Copied] = []
        self.next: int | None = None
        self.room: Slot = taken(around.admission.shares.body_bytes, user.name, MESSAGE_BYTES)

    @property
    def is_full(self) -> bool:
        """Whether nothing more is looked for."""
        return (
            self.next is not None
            or len(self.found) >= self.wanted.limit
            or self.around.monotonic() >= self._until
        )

    @property
    def rows(self) -> int:
        """How many messages to look at next: one more than fit, which says where to go on."""
        return CHOSEN_ROWS if self.wanted.filters else self.wanted.limit - len(self.found) + 1

    async def add(self, open_window: Callable[[], Window]) -> Counts:
        """Look at the messages of a window; returns what the filter has looked at.

        Raises:
            Refusal: not even the first message may be shown; or there is no room, or no thread.
        """
        around, user = self.around, self.user
        async with around.encoding(user.name) as encode:
            await around.admission.turns.next(user.name)
            window = open_window()
            counts, copied, left_out = await encode(partial(self.copy, window), window)
        size = sum(len(each[4]) + len(each[5]) for each in copied)
        try:
            self.room.add(size + MESSAGE_BYTES * len(copied))
        except NoSlot as none:
            raise of_no_slot(none) from None
        self._left -= size
        self.found += copied
        self.next = left_out
        if left_out is not None and not self.found and self.wanted.limit:
            around.broker.refusals.count(BODY_LIMIT)
            raise too_large(
                BODY_LIMIT,
                BODY_BYTES_MAX,
                f"the message at offset {left_out} is larger than {BODY_BYTES_MAX} bytes "
                f"({BODY_LIMIT}); truncate=1000 shows the start of it",
            )
        found_counts: Counts = counts
        return found_counts

    def copy(self, window: Window) -> tuple[Counts, list[Copied], int | None]:
        """Choose messages of a window and copy them; on a thread."""
        chosen = Chosen(window, **self.wanted.filters)
        most = self.wanted.limit - len(self.found)
        copied, left_out = chosen.messages(most, self._left, self.wanted.truncate)
        return chosen.filtering, copied, left_out

    def answer(self, rest: int | None, **facts: Any) -> Response:
        """Return it.

        Args:
            rest: where to go on if all that was looked at is shown; None: nowhere.
            facts: what else it says.
        """
        self.around.check_unchanged(self.user, self.vhost)
        value = {
            "messages": (shown_message(each, as_text=self.wanted.as_text) for each in self.found),
            "next": rest if self.next is None else self.next,
            **facts,
        }
        return self.around.listing(self.user, value, ended=self.room.release)


class MessagePageRoutes:
    """The handlers.

    Args:
        around: the broker.
    """

    def __init__(self, around: Surroundings) -> None:
        self._around = around

    async def of_queue(self, request: Request) -> Response:
        """GET /api/queues/{vhost}/{queue}/browse: in the order in which they came."""
        around = self._around
        found = await find_queue(around, request)
        given = Parameters(request, OF_QUEUE)
        wanted, user, queue = _wanted(given), found.user, found.engine
        check_filters(given, user, found.vhost, found.state.name)
        first, unacked = given.whole("from", 0), given.flag("unacked")
        browse = Browse(queue, first, unacked, by_arrival=True)

        def window() -> Window:
            if queue.retired:
                raise Refusal(404, "not-found", f"{found.state.title} was deleted")
            return browse.window(page.rows, BATCH_BYTES)

        page = MessagePage(around, user, found.vhost.name, wanted)
        try:
            async with holding(around.admission.shares.tables, user.name):
                while not browse.done and not page.is_full:
                    counts = await page.add(window)
                    around.engine.searches.note_browsed(queue, counts)
            return page.answer(None if browse.done else browse.at)
        except BaseException:
            page.room.release()
            raise

    async def of_stream(self, request: Request) -> Response:
        """GET /api/streams/{vhost}/{stream}/browse: of one partition, in the order of offsets."""
        around = self._around
        found = await around.find(request)
        given = Parameters(request, OF_STREAM)
        stream = found.streams[check_partition(found, given)]
        wanted = _wanted(given)
        check_filters(given, found.user, found.vhost, found.name)
        reading = StreamPass(found, stream, _first_in(given, stream), wanted.filters.get("choice"))
        page = MessagePage(around, found.user, found.vhost.name, wanted)
        try:
            async with holding(around.admission.shares.tables, found.user.name):
                while reading.at < reading.end and not page.is_full:
                    stream.count_filtering(await page.add(lambda: reading.window(page.rows)))
            rest = reading.at if reading.at < reading.end else None
            facts = {"end": reading.end, "lost": reading.lost}
            return page.answer(rest, **facts)
        except BaseException:
            page.room.release()
            raise


class StreamPass:
    """One pass through a stream.

    Attributes:
        at: the offset that is looked at next.
        end: that of the first message that is not looked at.
        lost: ranges of offsets whose messages were damaged: (from, to).
    """

    def __init__(self, found: Found, stream: Stream, first: int, choice: Any) -> None:
        self._name = found.name
        self._stream = stream
        self._choice = choice
        self.at = first
        self.end = stream.end
        self.lost: list[tuple[int, int]] = []

    def window(self, rows: int) -> Window:
        """Open the next window.

        Raises:
            Refusal: the stream is gone, or retention has dropped what would come next.
        """
        stream = self._stream
        if stream.retired:
            raise Refusal(404, "not-found", f"stream '{self._name}' was deleted")
        if self.at < stream.first:
            raise _gone(self._name, self.at, stream)
        window = stream.window(self.at, self.end, rows, BATCH_BYTES, self._choice)
        self.at = window.end
        self.lost += window.lost
        return window


def _wanted(given: Parameters) -> Wanted:
    return Wanted(
        limit=given.whole("limit", LIMIT_DEFAULT, 0, MESSAGES_MAX),
        truncate=given.whole("truncate", NUMBER_MAX),
        as_text=given.choice("encoding", ENCODINGS) == "auto",
        filters=filters_in(given),
    )


def _first_in(given: Parameters, stream: Stream) -> int:
    """Return the offset to begin at.

    Raises:
        Refusal: it is none (400), retention has dropped it (410), or it does not exist yet (416).
    """
    text = given.text("from")
    if text in (None, "first"):
        return stream.first
    if text == "last":
        return max(stream.first, stream.end - 1)
    assert text is not None
    first = whole("from", text)
    if first < stream.first:
        raise _gone(stream.name, first, stream)
    if first > stream.end:
        reason = f"stream '{stream.name}' ends before offset {stream.end}"
        raise Refusal(416, "beyond", reason, end=stream.end)
    return first


def _gone(name: str, offset: int, stream: Stream) -> Refusal:
    reason = f"stream '{name}' begins with offset {stream.first}; {offset} is not kept any more"
    return Refusal(410, "gone", reason, first=stream.first)


def shown_message(message: Copied, *, as_text: bool) -> dict[str, Any]:
    """Return what a message looks like."""
    offset, timestamp_ms, exchange, key, properties, content, size, redelivered, unacked = message
    body = Body(content, "string", as_text=as_text)
    return {
        "offset": offset,
        "state": "unacked" if unacked else "ready",
        "redelivered": redelivered,
        "exchange": shown(exchange),
        "routing_key": shown(key),
        "properties": shown_properties(properties),
        "payload": Written(body.texts()),
        "payload_encoding": Written(body.encoding()),
        "payload_bytes": size,
        "timestamp_ms": timestamp_ms,
    }
