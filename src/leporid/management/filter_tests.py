"""What a filter would choose, over HTTP: the newest messages of a queue or stream, and why each.

Responsible for the two routes. Which messages match, the engine says, as for a consumer; why, the
reference interpreter says, for one message at a time while the answer is made. Must not know
grammars. Invariants: nothing is changed, nor taken; a page has at most MESSAGES_MAX messages, and
the explanation of one message is bounded (EXPLAINED_BYTES_MAX, EXPLAINED_STEPS_MAX).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import Response

from leporid.amqp.properties import decode_properties
from leporid.engine.queue.browse import Browse
from leporid.engine.tables.chosen import Chosen
from leporid.filters.dialects import DEFAULT, Dialect
from leporid.filters.explanation import Explanation
from leporid.filters.like import symbols_of
from leporid.filters.messages import FilteredMessage
from leporid.filters.nodes import Like, parts_of
from leporid.filters.parser import parse
from leporid.filters.tags import parse_tags
from leporid.management.admission import holding
from leporid.management.browsing import CHOSEN_ROWS, find_queue
from leporid.management.filter_parameters import check_filters, filters_in
from leporid.management.message_pages import (
    MessagePage,
    StreamPass,
    Wanted,
    shown_message,
)
from leporid.management.messages import MESSAGES_MAX
from leporid.management.parameters import NUMBER_MAX, Parameters
from leporid.management.paths import takes
from leporid.management.records import BATCH_BYTES
from leporid.management.refusals import Refusal
from leporid.management.streams import check_partition

if TYPE_CHECKING:
    from leporid.broker.access.access import User
    from leporid.engine.log.window import Window
    from leporid.filters.nodes import Node
    from leporid.management.message_pages import Copied, Counts
    from leporid.management.surroundings import Surroundings

LAST_DEFAULT: Final = 100
# Of a body, that is shown beside the reason.
SHOWN_BYTES: Final = 200
# The interpreter is written in Python: 100 words over so many bytes of headers are a millisecond.
EXPLAINED_BYTES_MAX: Final = 4096
# And it tries each symbol of a pattern at each byte: so many are two milliseconds.
EXPLAINED_STEPS_MAX: Final = 50_000
# Places in a queue that are looked at for each message that is wanted: entries that are gone leave
# gaps in the numbers.
PLACES: Final = 16
OF_QUEUE: Final = ("tags", "filter", "dialect", "last", "truncate")
OF_STREAM: Final = ("partition", *OF_QUEUE)
QUERY: Final[dict[str, dict[str, Any]]] = {
    "tags": {"type": "string"},
    "filter": {"type": "string"},
    "dialect": {"type": "string"},
    "last": {"type": "integer", "maximum": MESSAGES_MAX},
    "truncate": {"type": "integer"},
}


@dataclass(frozen=True, slots=True)
class Tested:
    """A filter, as it was written.

    Attributes:
        tags: those that a message must have one of; None: tags do not matter.
        sql: the expression; None without one.
        tree: of it.
        symbols: those of all its patterns.
    """

    tags: tuple[str, ...] | None
    sql: str | None
    tree: Node | None
    dialect: Dialect
    symbols: int

    def explained(self, properties: bytes, exchange: str, key: str) -> dict[str, Any]:
        """Say why a message matches or not: `reason` in words, `parts` of the expression."""
        size = len(properties)
        if size > EXPLAINED_BYTES_MAX or size * self.symbols > EXPLAINED_STEPS_MAX:
            return {"reason": f"not explained: {size} bytes of properties", "parts": []}
        message = FilteredMessage(decode_properties(properties), exchange, key)
        words, parts = [], []
        if self.tags is not None:
            words.append(_of_tag(message.tag(), self.tags))
        if self.sql is not None and self.tree is not None:
            explanation = Explanation(self.sql, self.tree, self.dialect, message)
            words.append(explanation.verdict())
            parts = [
                {"depth": line.depth, "value": line.value, "text": line.text}
                for line in explanation.lines
            ]
        return {"reason": "; ".join(words), "parts": parts}


class FilterTestRoutes:
    """The handlers.

    Args:
        around: the broker.
    """

    def __init__(self, around: Surroundings) -> None:
        self._around = around

    @takes(**QUERY)
    async def of_queue(self, request: Request) -> Response:
        """GET /api/queues/{vhost}/{queue}/filter-test: what a filter makes of the newest."""
        around = self._around
        found = await find_queue(around, request)
        given = Parameters(request, OF_QUEUE)
        tested, wanted = _tested_in(given), _wanted(given)
        check_filters(given, found.user, found.vhost, found.state.name)
        queue, name = found.engine, found.user.name
        page = _Page(around, found.user, found.vhost.name, wanted)
        try:
            async with holding(around.admission.shares.tables, name):
                first = await self._newest(name, queue, wanted.limit)
                browse = Browse(queue, first, by_arrival=True)

                def window() -> Window:
                    if queue.retired:
                        raise Refusal(404, "not-found", f"{found.state.title} was deleted")
                    return browse.window(page.rows, BATCH_BYTES)

                while not browse.done and not page.is_full:
                    around.engine.searches.note_browsed(queue, await page.add(window))
            return page.tested(tested)
        except BaseException:
            page.room.release()
            raise

    @takes(partition={"type": "integer"}, **QUERY)
    async def of_stream(self, request: Request) -> Response:
        """GET /api/streams/{vhost}/{stream}/filter-test: the same of one partition."""
        around = self._around
        found = await around.find(request)
        given = Parameters(request, OF_STREAM)
        stream = found.streams[check_partition(found, given)]
        tested, wanted = _tested_in(given), _wanted(given)
        check_filters(given, found.user, found.vhost, found.name)
        reading = StreamPass(found, stream, max(stream.first, stream.end - wanted.limit), None)
        page = _Page(around, found.user, found.vhost.name, wanted)
        try:
            async with holding(around.admission.shares.tables, found.user.name):
                while reading.at < reading.end and not page.is_full:
                    stream.count_filtering(await page.add(lambda: reading.window(page.rows)))
            return page.tested(tested)
        except BaseException:
            page.room.release()
            raise

    async def _newest(self, name: str, queue: Any, count: int) -> int:
        """Return the number of the entry with which the newest messages of a queue begin."""
        around = self._around
        end = Browse(queue).end
        browse = Browse(queue, max(0, end - PLACES * count), by_arrival=True)
        newest: deque[int] = deque(maxlen=count)
        while not browse.done and not queue.retired:
            async with around.encoding(name) as encode:
                await around.admission.turns.next(name)
                window = browse.window(CHOSEN_ROWS, NUMBER_MAX)
                newest += await encode(lambda: Chosen(window).numbers, window)  # noqa: B023
        return newest[0] if newest else end


class _Page(MessagePage):
    """A page of all messages, which knows those that match."""

    def __init__(self, around: Surroundings, user: User, vhost: str, wanted: Wanted) -> None:
        super().__init__(around, user, vhost, replace(wanted, filters={}))
        self._filters = wanted.filters
        self._matching: set[int] = set()

    def copy(self, window: Window) -> tuple[Counts, list[Copied], int | None]:
        """Copy messages, and note which of them match; on a thread."""
        _, copied, left_out = super().copy(window)
        chosen = Chosen(window, **self._filters)
        matching, _ = chosen.messages(len(chosen), NUMBER_MAX, 0)
        self._matching.update(each[0] for each in matching)
        return chosen.filtering, copied, left_out

    def tested(self, tested: Tested) -> Response:
        """Return what the filter makes of the messages, the newest first."""
        self.around.check_unchanged(self.user, self.vhost)
        matched = sum(each[0] in self._matching for each in self.found)
        value = {
            "looked_at": len(self.found),
            "matched": matched,
            "skipped": len(self.found) - matched,
            "messages": self._explained(tested),
        }
        return self.around.listing(self.user, value, ended=self.room.release)

    def _explained(self, tested: Tested) -> Iterator[dict[str, Any]]:
        for each in reversed(self.found):
            offset, _, exchange, key, properties, *_ = each
            yield {
                **shown_message(each, as_text=self.wanted.as_text),
                "matched": offset in self._matching,
                **tested.explained(properties, exchange, key),
            }


def _tested_in(given: Parameters) -> Tested:
    """Return the filter; what is none, `filters_in` refuses afterwards with its place."""
    tags, sql = given.text("tags"), given.text("filter")
    if tags is None and sql is None:
        raise Refusal(
            400,
            "bad-request",
            "say which filter: tags, or an expression as filter",
            parameter="filter",
        )
    filters_in(given)
    dialect = Dialect(given.text("dialect") or DEFAULT)
    names = None if tags is None else parse_tags(tags)
    tree = None if sql is None else parse(sql, dialect)
    return Tested(
        tags=None if names is None else tuple(names),
        sql=sql,
        tree=tree,
        dialect=dialect,
        symbols=0 if tree is None else _symbols_in(tree),
    )


def _symbols_in(node: Node) -> int:
    """Count texts and wildcards in the patterns of an expression."""
    own = len(symbols_of(node.pattern, node.escape)) if isinstance(node, Like) else 0
    return own + sum(map(_symbols_in, parts_of(node)))


def _wanted(given: Parameters) -> Wanted:
    return Wanted(
        limit=given.whole("last", LAST_DEFAULT, 1, MESSAGES_MAX),
        truncate=given.whole("truncate", SHOWN_BYTES),
        as_text=True,
        filters=filters_in(given),
    )


def _of_tag(tag: bytes | None, tags: tuple[str, ...]) -> str:
    if tag is None:
        return "it has no tag"
    text = tag.decode("utf-8", "backslashreplace")
    known = text in tags
    return f"its tag is '{text}'" + ("" if known else ", which is none of them")
