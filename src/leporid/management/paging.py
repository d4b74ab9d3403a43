"""Lists of objects as RabbitMQ's API gives them: pages, order, columns.

Responsible for what the query string says of a list, and for making of the objects that there are
those that are shown. A noun (queues, connections, …) gives a `Table`: its fields, each a function
of the object, and the order that a list has by itself. Must not know any noun.

Invariants: a turn of the loop looks at objects for SLICE_SECONDS at most; of an object that is not
shown, no field is made but those that it is sorted by, and what is made together with them; objects
that are being sorted have slots of `http_list_items`, so that lists have bounded memory together.
Parameters that nobody knows are ignored, as clients of RabbitMQ send such (`_=1234` against
caches).
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from starlette.responses import Response

from leporid.broker.access.permissions import Pattern, PatternError
from leporid.management.admission import waited_for
from leporid.management.conditions import Condition, ConditionError, conditions_in
from leporid.management.listings import RUN, SLICE_SECONDS, Written, draining
from leporid.management.refusals import Refusal

if TYPE_CHECKING:
    from starlette.requests import Request

    from leporid.broker.access.access import User
    from leporid.management.surroundings import Surroundings

PAGE_SIZE: Final = 100
# RabbitMQ's.
PAGE_SIZE_MAX: Final = 500
# RabbitMQ has none; ten words of a name, far more than there are.
COLUMNS_MAX: Final = 100
# Of the regular expression for names, which whoever may look at lists gives: as long as
# a name. Within these bounds it takes 10 ms at most to be read, and 1 ms for a name.
NAME_PATTERN_BYTES_MAX: Final = 255 + len("(?i)")
NAME_PATTERN_MEMORY_BYTES_MAX: Final = 256 * 1024

T = TypeVar("T")

ABSENT: Final = object()
"""What a field's function returns if the object has no such field."""

Fields = Mapping[str, Callable[[T], Any]]
Part = Callable[[T], dict[str, Any]]
"""Makes several fields of an object at once."""


@dataclass(frozen=True, slots=True)
class Table(Generic[T]):
    """What objects of one noun look like in lists.

    Attributes:
        fields: by their names, in the order in which they are shown; those that are worth being
            made alone if `whole` makes all.
        order: gives what a list is sorted by if nothing else is asked for, or as far as that leaves
            open: texts or numbers, at each place the same. None: lists are in the order in which
            the objects come.
        whole: makes all fields at once, where that is less work.
        parts: what makes a field that `fields` has not, together with others; without it, `whole`.
    """

    fields: Fields[T]
    order: Callable[[T], tuple[Any, ...]] | None = None
    whole: Part[T] | None = None
    parts: Mapping[str, Part[T]] = field(default_factory=dict)

    def show(self, item: T, columns: Columns | None = None) -> dict[str, Any]:
        """Return an object as JSON has it."""
        if columns is not None:
            return columns.of(self, item)
        if self.whole is not None:
            return self.whole(item)
        return {
            name: value for name, make in self.fields.items() if (value := make(item)) is not ABSENT
        }

    def reader(self, path: tuple[str, ...]) -> Callable[[T], Any]:
        """Return what gives one value of an object, which may be within a field; ABSENT without it.

        Whoever asks it of many objects goes through the path once.
        """
        name, *within = path
        read = self.fields.get(name) or partial(_made, self.part(name), name)
        return partial(_within, read, within) if within else read

    def part(self, name: str) -> Part[T]:
        """Return what makes a field that `fields` has not, if there is such a field."""
        return self.parts.get(name, self.whole or _nothing)

    def meets(self, item: T, conditions: Iterable[Condition]) -> bool:
        """Say whether an object is as all conditions want it."""
        shown = _LazyFields(self, item)
        for condition in conditions:
            value = shown.at(condition.path)
            if not condition.is_met(None if value is ABSENT else value):
                return False
        return True


class _LazyFields(Generic[T]):
    """The fields of one object, each made when it is asked for, and once.

    Those that are made with others alone are made together, however many are asked for.
    """

    __slots__ = ("_fields", "_item", "_parts", "_table")

    def __init__(self, table: Table[T], item: T) -> None:
        self._table = table
        self._item = item
        self._fields: dict[str, Any] = {}
        self._parts: dict[Part[T], dict[str, Any]] = {}

    def field(self, name: str) -> Any:
        """Return a field; ABSENT without it."""
        if name not in self._fields:
            self._fields[name] = self._made(name)
        return self._fields[name]

    def _made(self, name: str) -> Any:
        make = self._table.fields.get(name)
        if make is not None:
            return make(self._item)
        part = self._table.part(name)
        if part not in self._parts:
            self._parts[part] = part(self._item)
        return self._parts[part].get(name, ABSENT)

    def at(self, path: tuple[str, ...]) -> Any:
        """Return one value, which may be within a field; ABSENT without it."""
        value = self.field(path[0])
        for name in path[1:]:
            if not isinstance(value, Mapping):
                return ABSENT
            value = value.get(name, ABSENT)
        return value


def _nothing(_: object) -> dict[str, Any]:
    return {}


def _made(part: Part[T], name: str, item: T) -> Any:
    """Return a field that is made with others alone."""
    return part(item).get(name, ABSENT)


def _within(read: Callable[[T], Any], names: Iterable[str], item: T) -> Any:
    """Return what is within a field."""
    value = read(item)
    for name in names:
        if not isinstance(value, Mapping):
            return ABSENT
        value = value.get(name, ABSENT)
    return value


class Columns:
    """The columns of a list that were asked for, such as `name` or `message_stats.publish`."""

    def __init__(self, names: Iterable[str]) -> None:
        self._paths = [tuple(name.split(".")) for name in dict.fromkeys(names)]

    def of(self, table: Table[T], item: T) -> dict[str, Any]:
        """Return what an object has of them."""
        fields = _LazyFields(table, item)
        shown: dict[str, Any] = {}
        for path in self._paths:
            name = path[0]
            value = fields.field(name)
            if len(path) > 1:
                _take({name: value}, shown, path)
            elif value is not ABSENT:
                shown[name] = value
        return shown

    def of_shown(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is left of an object that was made already."""
        shown: dict[str, Any] = {}
        for path in self._paths:
            _take(value, shown, path)
        return shown


def _take(whole: Mapping[str, Any], part: dict[str, Any], path: tuple[str, ...]) -> None:
    """Copy what is at a path, with what it stands in."""
    value: Any = whole
    for name in path:
        value = value.get(name, ABSENT) if isinstance(value, Mapping) else ABSENT
        if value is ABSENT:
            return
    for name in path[:-1]:
        inner = part.setdefault(name, {})
        if inner is whole.get(name):  # all of it was asked for, too
            return
        part = inner
    part[path[-1]] = value


@dataclass(frozen=True, slots=True)
class Query:
    """What a request says of a list.

    Attributes:
        page: from 1 on; None: all of it, without pages.
        matches: says whether a name is wanted; None: all are.
        conditions: what fields of an object have to be.
    """

    page: int | None
    page_size: int
    matches: Callable[[str], bool] | None
    conditions: tuple[Condition, ...]
    sort: tuple[str, ...] | None
    reverse: bool
    columns: Columns | None


def query_in(request: Request) -> Query:
    """Read the query string.

    Raises:
        Refusal: something in it is wrong (400).
    """
    given = request.query_params
    page, page_size = _page_in(given)
    sort = given.get("sort")
    return Query(
        page=page,
        page_size=page_size,
        matches=None if page is None else _filter_in(given),
        conditions=_conditions_in(given.getlist("where")),
        sort=tuple(sort.split(".")) if sort else None,
        reverse=given.get("sort_reverse") == "true",
        columns=columns_in(request),
    )


def _conditions_in(given: Sequence[str]) -> tuple[Condition, ...]:
    try:
        return conditions_in(given)
    except ConditionError as error:
        facts: dict[str, Any] = {}
        if error.limit is not None:
            facts = {"limit": "where", "value": error.limit}
        raise Refusal(400, "bad_request", str(error), **facts) from None


def _page_in(given: Mapping[str, str]) -> tuple[int | None, int]:
    if "page" not in given:
        return None, PAGE_SIZE
    page, size = (_number(given[name]) if name in given else None for name in ("page", "page_size"))
    if not page or (size is not None and not 0 < size <= PAGE_SIZE_MAX):
        shown = "undefined" if size is None else size
        raise Refusal(
            400,
            "invalid_pagination_parameters",
            f"Invalid pagination parameters: page number {page}, page size {shown}",
            limit="page_size",
            value=PAGE_SIZE_MAX,
        )
    return page, size or PAGE_SIZE


def _number(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) < 10:
        return int(text)
    raise Refusal(400, "bad_request", "Pagination parameters are invalid")


def _filter_in(given: Mapping[str, str]) -> Callable[[str], bool] | None:
    """What a name must be, whether its letters are large or small."""
    wanted = given.get("name")
    if not wanted:
        return None
    if given.get("use_regex") == "true":
        try:
            return Pattern(
                f"(?i){wanted}",
                bytes_max=NAME_PATTERN_BYTES_MAX,
                memory_bytes_max=NAME_PATTERN_MEMORY_BYTES_MAX,
            ).matches
        except PatternError as error:
            raise Refusal(400, "bad_request", f"name {error}") from None
    lowered = wanted.lower()
    return lambda name: lowered in name.lower()


def columns_in(request: Request) -> Columns | None:
    """Return the columns that a request asks for, None for all; raises Refusal (400)."""
    text = request.query_params.get("columns")
    if not text:
        return None
    names = text.split(",")
    if len(names) > COLUMNS_MAX:
        raise Refusal(
            400,
            "bad_request",
            f"columns: {len(names)} were named, {COLUMNS_MAX} may be (columns)",
            limit="columns",
            value=COLUMNS_MAX,
        )
    return Columns(names)


def sort_key(value: Any) -> tuple[int, Any]:
    """Return what orders a value as Erlang orders terms; what is missing is 0, as in RabbitMQ."""
    # Most are texts and numbers, and this is asked of each object of a list.
    kind = type(value)
    if kind is str:
        return 4, value
    if kind is int or kind is float:
        return 0, value
    if value is ABSENT:
        return 0, 0
    if value is None or isinstance(value, bool):
        return 1, ("null" if value is None else str(value).lower())
    if isinstance(value, int | float):
        return 0, value
    if isinstance(value, Mapping):
        return 2, len(value)
    if isinstance(value, str):
        return 4, value
    return 3, 0 if isinstance(value, Written) else len(value)


class Slices:
    """Cuts long work on the loop's thread: others have turns once a slice is over.

    Args:
        around: the broker.
        user: whose work it is.
    """

    def __init__(self, around: Surroundings, user: User) -> None:
        self._turns = around.admission.turns
        self._monotonic = around.monotonic
        self._user = user
        self._until = 0.0

    @property
    def over(self) -> bool:
        """Whether it is time for others to have their turn."""
        return self._monotonic() >= self._until

    async def next(self) -> None:
        """Return now, or when it is this user's turn again."""
        if self.over:
            await self._turns.next(self._user.name)
            self._until = self._monotonic() + SLICE_SECONDS


LOOKED_AT_ONCE: Final = 16
"""Objects between two looks at the clock; a tenth of a millisecond at most."""


async def in_slices(
    around: Surroundings, user: User, items: Iterable[T | None]
) -> AsyncIterator[list[T]]:
    """Give objects, some at a time, with turns for others in between."""
    slices, left = Slices(around, user), iter(items)
    while some := list(islice(left, LOOKED_AT_ONCE)):
        await slices.next()
        yield [item for item in some if item is not None]


async def first_of(
    around: Surroundings,
    user: User,
    items: Iterable[T | None],
    wanted: Callable[[T], bool],
) -> T | None:
    """Return the first object that is wanted, None without one."""
    slices = Slices(around, user)
    for item in items:
        if slices.over:
            await slices.next()
        if item is not None and wanted(item):
            return item
    return None


class Lists(Generic[T]):
    """Makes lists of one noun.

    Args:
        around: the broker.
        table: what the objects look like.
        name_of: gives what `name=` is compared with.
    """

    def __init__(self, around: Surroundings, table: Table[T], name_of: Callable[[T], str]) -> None:
        self._around = around
        self._table = table
        self._name_of = name_of

    async def answer(
        self,
        request: Request,
        user: User,
        items: Iterable[T | None],
        count: int,
        table: Table[T] | None = None,
    ) -> Response:
        """Return the list that a request asks for.

        Args:
            request: the request.
            user: whose it is.
            items: the objects there are as of now; None for one that was only looked at.
            count: how many there may be, for the slots that they take.
            table: what they look like in this list, if not as usual.

        Raises:
            Refusal: the query string is wrong; or there is no room for so many objects.
        """
        query, shown = query_in(request), table or self._table
        if query.page is None and query.sort is None and shown.order is None:
            wanted = (
                item if item is not None and shown.meets(item, query.conditions) else None
                for item in items
            )
            made = (item if item is None else shown.show(item, query.columns) for item in wanted)
            return self._around.listing(user, made)
        slot = await waited_for(self._around.admission.shares.list_items, user.name, max(1, count))
        try:
            arranging = _Arranging(self._around, user, query, shown, self._name_of)
            await arranging.look(items)
            if query.page is None:
                return self._around.listing(
                    user,
                    (shown.show(item, query.columns) for item in arranging.ordered()),
                    ended=slot.release,
                )
            answer = self._around.listing(user, await arranging.page(query.page))
        except BaseException:
            slot.release()
            raise
        slot.release()
        return answer


class _Arranging(Generic[T]):
    """One list on its way: chosen, counted and sorted in runs."""

    def __init__(
        self,
        around: Surroundings,
        user: User,
        query: Query,
        table: Table[T],
        name_of: Callable[[T], str],
    ) -> None:
        self._around = around
        self._user = user
        self._query = query
        self._table = table
        self._sort = None if query.sort is None else table.reader(query.sort)
        self._name_of = name_of
        # Of each object its keys, and its place among the objects: no two have the same, so that
        # objects are never compared. Nor do they stand in there: of tuples that hold only texts and
        # numbers the garbage collector lets go when it is young, while ten thousand others would
        # make a full collection of some milliseconds.
        self._runs: list[list[tuple[Any, ...]]] = [[]]
        self._items: list[T | None] = []
        self._total = 0

    async def look(self, items: Iterable[T | None]) -> None:
        """Choose among the objects, and sort them."""
        matches, reverse = self._query.matches, self._query.reverse
        conditions = self._query.conditions
        slices, read, order = Slices(self._around, self._user), self._sort, self._table.order
        run = self._runs[-1]
        for item in items:
            # A pattern takes long, and so do the fields of an object with very many arguments.
            if slices.over:
                await slices.next()
            if item is None:
                continue
            self._total += 1
            if (matches is None or matches(self._name_of(item))) and (
                not conditions or self._table.meets(item, conditions)
            ):
                last = () if order is None else order(item)
                keys = last if read is None else (*sort_key(read(item)), *last)
                run.append((*keys, len(self._items)))
                self._items.append(item)
                if len(run) == RUN:
                    run.sort(reverse=reverse)
                    run = []
                    self._runs.append(run)
        run.sort(reverse=reverse)

    def ordered(self) -> Iterator[T]:
        """Go through the objects in order; once."""
        runs, self._runs, items = self._runs, [], self._items
        if self._sort is None and self._table.order is None:
            entries = (entry for run in runs for entry in draining(run))
        else:
            entries = merge(*map(draining, runs), reverse=self._query.reverse)
        for entry in entries:
            item, items[entry[-1]] = items[entry[-1]], None
            assert item is not None, "each is taken once"
            yield item

    async def page(self, number: int) -> dict[str, Any]:
        """Return one page.

        Raises:
            Refusal: there are not so many pages (400).
        """
        size = self._query.page_size
        filtered = len(self._items)
        pages = math.ceil(filtered / size)
        there = number <= max(1, pages)
        start = (number - 1) * size if there else 0
        slices, runs = Slices(self._around, self._user), list(self._runs)
        ordered = enumerate(islice(self.ordered(), start + size if there else 0))
        found: list[T] = []
        while some := list(islice(ordered, LOOKED_AT_ONCE)):
            await slices.next()
            found += [item for at, item in some if at >= start]
        while runs:
            # All at once, many would take milliseconds to free.
            await slices.next()
            runs.pop().clear()
            del self._items[-RUN:]
        if not there:
            raise Refusal(
                400,
                "page_out_of_range",
                f"Page out of range, page: {number} page size: {size}, len: {filtered}",
            )
        return {
            "filtered_count": filtered,
            "item_count": len(found),
            "items": (self._table.show(item, self._query.columns) for item in found),
            "page": number,
            "page_count": pages,
            "page_size": size,
            "total_count": self._total,
        }
