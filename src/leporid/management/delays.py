"""Delayed messages over HTTP: what waits in exchanges, and calling it off.

Responsible for these routes. Looking takes the right to read from the exchange. Cancelling takes
the right to configure it: whoever has that may delete the exchange, and all that waits in it; who
may only publish to it, or bind to it, must not take back what others published. Must not know how
messages wait. Invariant: an answer that something was cancelled leaves only when it is on disk.
"""

from __future__ import annotations

import heapq
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from functools import partial
from itertools import pairwise
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from leporid.amqp.properties import split_properties
from leporid.broker.access.access import User
from leporid.broker.access.permissions import DEFAULT_EXCHANGE_NAME, Right
from leporid.broker.access.remote_rights import decided
from leporid.broker.exchange.delays import (
    LIST_MAX,
    DelayedContent,
    DelayedMessage,
    DelayedMessages,
    place_of,
)
from leporid.broker.stream.choices import choice_for
from leporid.broker.vhost import VirtualHost
from leporid.management.admission import taken
from leporid.management.amqp_json import Body, shown_properties, shown_property
from leporid.management.browsing import chosen_in
from leporid.management.filter_parameters import FILTER_PARAMETERS, check_filters, filters_in
from leporid.management.listings import Written
from leporid.management.parameters import Parameters, body_of, whole
from leporid.management.paths import name_of, takes
from leporid.management.refusals import Refusal, bad, too_large
from leporid.management.surroundings import Surroundings

LIMIT_DEFAULT: Final = 100


LISTING: Final = ("limit", "after", "headers", "message_id", *FILTER_PARAMETERS)
CANCELLING: Final = ("message_id", "dry_run", "all", *FILTER_PARAMETERS)
# Of a timeline: more than a screen has pixels for.
EDGES_MAX: Final = 1000
# The year 9999.
MOMENT_MAX_MS: Final = 253_402_300_799_999
# Timers that are looked at in one turn of the loop: a millisecond.
COUNTED_AT_ONCE: Final = 20_000
# What AMQP's short strings have room for.
MESSAGE_ID_BYTES_MAX: Final = 255
# Messages that are cancelled in one turn of the loop: a millisecond.
CANCELLED_AT_ONCE: Final = 100
# JSON is for looking at. A body is copied out of the log in one go: two milliseconds.
SHOWN_BODY_BYTES_MAX: Final = 8 * 1024 * 1024
SHOWN_BODY_LIMIT: Final = "http_shown_body_bytes"


class DelayRoutes:
    """The handlers."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around

    async def exchanges(self, request: Request) -> Response:
        """GET /api/delays/{vhost}: the exchanges that have, or had, something that waits."""
        user, vhost = await self._around.enter(request)
        Parameters(request, ())
        return self._around.listing(user, {"exchanges": _readable(user, vhost)})

    async def listing(self, request: Request) -> Response:
        """GET …/{exchange}: what is due next, all of it or what passes filters."""
        user, vhost, delays = await self._find(request, "read")
        given = Parameters(request, LISTING)
        limit = given.whole("limit", LIMIT_DEFAULT, 1, LIST_MAX)
        after, with_headers = given.text("after"), given.flag("headers")
        filters = _filters_in(given)
        check_filters(given, user, vhost, delays.exchange, "exchange")
        facts: dict[str, Any] = {}
        try:
            if filters:
                numbers, facts["matched"] = await self._due_first(
                    user, delays, filters, limit, after
                )
            else:
                numbers = delays.numbers(limit, after)
        except ValueError as error:
            raise bad("after", str(error)) from None
        found = map(delays.numbered, numbers)  # what is fired meanwhile is not shown
        shown = (None if each is None else _summary(each, with_headers) for each in found)
        return self._around.listing(user, _counts(delays) | facts | {"messages": shown})

    async def _due_first(
        self,
        user: User,
        delays: DelayedMessages,
        filters: dict[str, Any],
        limit: int,
        after: str | None,
    ) -> tuple[Sequence[int], int]:
        """Return the numbers of those that pass and are due first, and how many pass."""
        known = None if after is None else place_of(after)
        if after is not None and known is None:
            raise ValueError(f"{after!r} is not the id of a delayed message")
        first: list[tuple[int, int]] = []
        matched = 0
        async for numbers in self._chosen(user, delays, filters):
            for number in numbers:
                message = delays.numbered(number)
                if message is None:
                    continue
                matched += 1
                place = message.due_ms, number
                if known is None or place > known:
                    first.append(place)
            first = heapq.nsmallest(limit, first)
        return [number for _, number in first], matched

    async def _chosen(
        self, user: User, delays: DelayedMessages, filters: dict[str, Any]
    ) -> AsyncGenerator[list[int]]:
        """Give the numbers of what passes filters, few at a time, each in a turn of the user's."""
        if delays.store is None:
            return
        async with aclosing(chosen_in(self._around, user, delays.store, filters)) as pieces:
            async for numbers in pieces:
                for start in range(0, len(numbers), CANCELLED_AT_ONCE):
                    if start:
                        await self._around.admission.turns.next(user.name)
                    yield numbers[start : start + CANCELLED_AT_ONCE]

    @takes(edges={"type": "string", "description": "Unix times in ms, ascending, with commas"})
    async def timeline(self, request: Request) -> Response:
        """GET /api/delays/{vhost}/{exchange}/timeline: how many are due between which times.

        What comes or goes while they are counted may be counted twice, or not.
        """
        user, _, delays = await self._find(request, "read")
        edges = _edges_in(Parameters(request, ("edges",)))
        counts, store, at = [0] * (len(edges) + 1), delays.store, 0
        while store is not None:
            await self._around.admission.turns.next(user.name)
            at = store.count_due(edges, counts, at, COUNTED_AT_ONCE)
            if not at:
                break
        return JSONResponse(_counts(delays) | {"edges": edges, "counts": counts})

    async def message(self, request: Request) -> Response:
        """GET …/{exchange}/{id}: one message, with its body."""
        user, _, delays = await self._find(request, "read")
        Parameters(request, ())
        message_id = name_of(request, "id")
        found = delays.peek(message_id)
        if found is None:
            raise _unknown(message_id, delays)
        if found.body_bytes > SHOWN_BODY_BYTES_MAX:
            self._around.broker.refusals.count(SHOWN_BODY_LIMIT)
            raise too_large(
                SHOWN_BODY_LIMIT,
                SHOWN_BODY_BYTES_MAX,
                f"the message has a body of {found.body_bytes} bytes; of at most "
                f"{SHOWN_BODY_BYTES_MAX} ({SHOWN_BODY_LIMIT}) it is shown",
            )
        room = taken(self._around.admission.shares.body_bytes, user.name, found.body_bytes or 1)
        content = delays.content(message_id)
        assert content is not None
        facts = _summary(found, False) | _shown(content)
        return self._around.listing(user, facts, ended=room.release)

    async def cancel(self, request: Request) -> Response:
        """DELETE …/{exchange}/{id}."""
        user, _, delays = await self._find(request, "configure")
        Parameters(request, ())
        message_id = name_of(request, "id")
        if not delays.cancel(message_id):
            raise _unknown(message_id, delays)
        await self._synced(user)
        return Response(status_code=204)

    @takes(
        message_id={"type": "string"},
        dry_run={"type": "boolean"},
        all={"type": "boolean"},
        **{name: {"type": "string"} for name in FILTER_PARAMETERS},
    )
    async def cancel_several(self, request: Request) -> Response:
        """DELETE …/{exchange}: what passes filters, or all that waits; or how much that would be.

        It is not one transaction: what is fired meanwhile, or comes meanwhile, is not among it.
        """
        user, vhost, delays = await self._find(request, "configure")
        given = Parameters(request, CANCELLING)
        # A dry_run or a filter there would have no effect.
        await body_of(self._around.admission, request, user, ())
        dry_run, everything = given.flag("dry_run"), given.flag("all")
        filters = _filters_in(given)
        if not filters.get("routing_key_prefix", b"-"):
            del filters["routing_key_prefix"]  # an empty prefix would choose all
        if not filters and not everything:
            raise bad("message_id", "say which by message_id or a filter, or all=true for all")
        if filters and everything:
            raise bad("all", "there is a filter beside it")
        check_filters(given, user, vhost, delays.exchange, "exchange")
        matched = cancelled = 0
        async for numbers in self._chosen(user, delays, filters):
            for number in numbers:
                message = delays.numbered(number)
                if message is not None:
                    matched += 1
                    cancelled += not dry_run and delays.cancel(message.id)
        if cancelled:
            await self._synced(user)
        return JSONResponse({"dry_run": dry_run, "matched": matched, "cancelled": cancelled})

    async def _synced(self, user: User) -> None:
        generation = self._around.engine.logs.note_change()
        self._around.wake()
        await self._around.synced(generation, user)

    async def _find(
        self, request: Request, right: Right
    ) -> tuple[User, VirtualHost, DelayedMessages]:
        user, vhost = await self._around.enter(request)
        name = name_of(request, "exchange")
        if name == DEFAULT_EXCHANGE_NAME:
            name = ""
        await self._around.decided(lambda: user.check(right, "exchange", name, vhost.name))
        return user, vhost, vhost.delays(name)


def _readable(user: User, vhost: VirtualHost) -> Iterator[object]:
    """The exchanges that a user may read; None, or the right that is waited for, for others."""
    for delays in list(vhost.delay_stores):
        name = delays.exchange
        may = yield from decided(partial(user.may, "read", "exchange", name, vhost.name))
        yield _counts(delays) if may else None


def _filters_in(given: Parameters) -> dict[str, Any]:
    """What messages are asked for; a message_id is a filter, too."""
    filters = filters_in(given)
    message_id = given.text("message_id")
    if message_id is None:
        return filters
    if "filter" in given:
        raise bad("message_id", "stands beside a filter; write p.message_id = '…' in it")
    if len(message_id.encode()) > MESSAGE_ID_BYTES_MAX:
        raise bad("message_id", f"a message id has {MESSAGE_ID_BYTES_MAX} bytes at most")
    literal = message_id.replace("'", "''")
    filters["choice"] = choice_for(given.text("tags"), f"p.message_id = '{literal}'")
    return filters


def _edges_in(given: Parameters) -> list[int]:
    """Read the times between which messages are counted."""
    text = given.text("edges")
    if not text:
        raise bad("edges", "is missing: Unix times in milliseconds, with commas between them")
    words = text.split(",")
    if len(words) > EDGES_MAX:
        raise bad("edges", f"has {len(words)} times; at most {EDGES_MAX}")
    edges = [whole("edges", word, most=MOMENT_MAX_MS) for word in words]
    if any(after <= before for before, after in pairwise(edges)):
        raise bad("edges", "is not in ascending order")
    return edges


def _unknown(message_id: str, delays: DelayedMessages) -> Refusal:
    title = f"delayed message '{message_id}' in exchange '{delays.exchange}'"
    if delays.was_cancelled(message_id):
        return Refusal(404, "not-found", f"the {title} was cancelled", cancelled=True)
    return Refusal(404, "not-found", f"no {title}: it may have been fired")


def _counts(delays: DelayedMessages) -> dict[str, Any]:
    return {"exchange": delays.exchange or DEFAULT_EXCHANGE_NAME, **delays.statistics()._asdict()}


def _summary(message: DelayedMessage, with_headers: bool) -> dict[str, Any]:
    found = split_properties(message.properties)
    message_id = found.get("message_id")
    shown = {
        "id": message.id,
        "due_ms": message.due_ms,
        "came_ms": message.came_ms,
        "exchange": message.exchange,
        "routing_key": message.routing_key,
        "body_bytes": message.body_bytes,
        "message_id": None if message_id is None else shown_property("message_id", message_id),
    }
    if with_headers:
        headers = found.get("headers")
        shown["headers"] = {} if headers is None else shown_property("headers", headers)
    return shown


def _shown(content: DelayedContent) -> dict[str, Any]:
    body = Body(content.body)
    return {
        "properties": shown_properties(content.properties),
        "body": Written(body.texts()),
        "body_encoding": Written(body.encoding()),
    }
