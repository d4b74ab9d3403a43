"""Leases: messages taken out of a queue over HTTP, acknowledged when their work is done.

Responsible for who holds which lease and for how long. Must not know how entries are taken
(`engine.lease`) or shown (`browsing`).

Invariants: a message that is leased is acknowledged by its holder, in time, or goes back to its
place: when the lease is released, when its time is over, when its first answer could not be sent
whole, when the broker starts again. That it was acknowledged is said when it is on disk.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from leporid.engine.queue.lease import Lease
from leporid.management.answers import Room, TableAnswer
from leporid.management.browsing import (
    TABLE_PARAMETERS,
    FoundQueue,
    QueueBatches,
    Shape,
    chosen_in,
    find_queue,
    shape_in,
)
from leporid.management.filter_parameters import FILTER_PARAMETERS, check_filters, filters_in
from leporid.management.parameters import Parameters, body_of
from leporid.management.paths import name_of
from leporid.management.refusals import Refusal, bad, busy
from leporid.management.surroundings import Holding, Surroundings, need_arrow

if TYPE_CHECKING:
    from leporid.engine.queue.browse import QueueWindow

logger = logging.getLogger(__name__)

# Taken, and settled, in one turn of the loop: some milliseconds.
MESSAGES_MAX: Final = 50_000
MESSAGES: Final = 10_000
# At a time; each keeps a timer and eight bytes a message.
LEASES_MAX: Final = 1000
TTL_MS: Final = 10 * 60_000
TTL_MS_MAX: Final = 24 * 3600_000
# Leases that ended, remembered so that a repeated request gets the answer that was lost.
ENDED_MAX: Final = 10_000

TAKING: Final = ("max", "ttl_ms", "answer", *TABLE_PARAMETERS, *FILTER_PARAMETERS)
SHOWING: Final = ("from", "to", *TABLE_PARAMETERS)
ACKNOWLEDGED: Final = "acknowledged"
RELEASED: Final = "released"
EXPIRED: Final = "expired"


class LeaseRoutes:
    """The handlers, and the leases that there are."""

    def __init__(self, around: Surroundings, room: Room) -> None:
        self._around = around
        self._room = room
        self._held = around.leases
        # How each ended, and the generation that has it on disk.
        self._ended: OrderedDict[tuple[str, ...], tuple[str, int]] = OrderedDict()

    def __repr__(self) -> str:
        return f"<LeaseRoutes held={len(self._held)}>"

    # ------------------------------------------------------------- taking and looking

    async def take(self, request: Request) -> Response:
        """POST /api/queues/{vhost}/{queue}/leases."""
        found = await find_queue(self._around, request)
        given = Parameters(request, TAKING)
        await body_of(request, ())  # who says there what to take would be given everything
        most = given.whole("max", MESSAGES, 1, MESSAGES_MAX)
        ttl_ms = given.whole("ttl_ms", TTL_MS, 1, TTL_MS_MAX)
        shape, filters = shape_in(given), filters_in(given)
        check_filters(given, found.user, found.vhost, found.state.name)
        as_table = given.choice("answer", ("table", "json")) == "table"
        if as_table:
            await self._around.on_thread(need_arrow)
        if len(self._held) >= LEASES_MAX:
            self._forget_retired()
        if len(self._held) >= LEASES_MAX:
            raise busy(f"there are {LEASES_MAX} leases at a time")
        if found.engine.retired:
            raise Refusal(404, "not-found", f"no {found.state.title}")
        found.vhost.used(found.state)
        if filters:
            lease = await self._choose(found, most, filters)
            if len(self._held) >= LEASES_MAX:  # others were made meanwhile
                lease.release()
                self._around.wake()
                raise busy(f"there are {LEASES_MAX} leases at a time")
        else:
            lease = Lease(found.engine, most)
        self._around.wake()
        holding = self._hold(found, lease, ttl_ms) if lease.count else None
        if as_table:
            return TableAnswer(
                self._room, _Leased(self, found, shape, lease, 0, lease.count, holding)
            )
        content = {
            "lease": None if holding is None else holding.id,
            "messages": lease.count,
            "ttl_ms": ttl_ms,
        }
        return JSONResponse(content, status_code=201)

    async def _choose(self, found: FoundQueue, most: int, filters: dict[str, Any]) -> Lease:
        """Take what passes the filters, looking through the queue a piece at a time."""
        lease = Lease(found.engine, most, True)
        try:
            async for numbers in chosen_in(self._around, self._room.turns, found.engine, filters):
                if not lease.take(numbers):
                    break
        except BaseException:
            lease.release()
            raise
        return lease

    async def messages(self, request: Request) -> Response:
        """GET …/leases/{lease}/messages: what it has, from one number of its own to another."""
        found, holding = await self._find(request)
        lease = holding.lease
        given = Parameters(request, SHOWING)
        end = given.whole("to", lease.count, 0, lease.count)
        first = given.whole("from", 0, 0, lease.count)
        if end < first:
            raise bad("to", f"{end} is below from, {first}")
        shape = shape_in(given)
        await self._around.on_thread(need_arrow)
        return TableAnswer(self._room, _Leased(self, found, shape, lease, first, end, None))

    # ------------------------------------------------------------- ending

    async def acknowledge(self, request: Request) -> Response:
        """DELETE …/leases/{lease}: its messages are done with; 204 when that is on disk."""
        await self._end(request, ACKNOWLEDGED)
        return Response(status_code=204)

    async def release(self, request: Request) -> Response:
        """POST …/leases/{lease}/release: its messages go back."""
        await self._end(request, RELEASED)
        return Response(status_code=204)

    async def _end(self, request: Request, how: str) -> None:
        Parameters(request, ())
        try:
            _, holding = await self._find(request, how)
        except _EndedSo as ended:
            generation = ended.generation
        else:
            generation = self.finish(holding, how)
        if how == ACKNOWLEDGED:
            await self._around.until_synced(generation)

    def finish(self, holding: Holding, how: str) -> int:
        """End a lease; returns the generation that has it."""
        if self._held.pop(holding.id, None) is None:
            return 0
        holding.timer.cancel()
        generation = 0
        if how == ACKNOWLEDGED:
            holding.lease.acknowledge()
            generation = self._around.engine.logs.note_change()
        else:
            holding.lease.release()
        self._ended[_key(holding)] = how, generation
        if len(self._ended) > ENDED_MAX:
            self._ended.popitem(last=False)
        self._around.wake()
        return generation

    def _expire(self, holding: Holding) -> None:
        logger.info(
            "a lease of %d messages of queue %r in vhost %r, held by user %r, is over: they go "
            "back",
            holding.lease.count,
            holding.queue,
            holding.vhost,
            holding.user,
        )
        self.finish(holding, EXPIRED)

    # ------------------------------------------------------------- holding

    def _hold(self, found: FoundQueue, lease: Lease, ttl_ms: int) -> Holding:
        number = self._around.broker.new_name("lease-")
        names = found.user.name, found.vhost.name, found.state.name
        loop = asyncio.get_running_loop()
        timer = loop.call_later(ttl_ms / 1000, lambda: self._expire(self._held[number]))
        self._held[number] = Holding(number, *names, lease, timer)
        return self._held[number]

    def _forget_retired(self) -> None:
        """Leases of queues that were deleted hold nothing."""
        for holding in tuple(self._held.values()):
            if holding.lease.queue.retired:
                holding.timer.cancel()
                del self._held[holding.id]

    async def _find(self, request: Request, how: str = "") -> tuple[FoundQueue, Holding]:
        """Return the lease in the path, if the user holds it.

        Raises:
            Refusal: there is none, or it has ended otherwise than `how`.
            _EndedSo: it has ended as is asked for.
        """
        found = await find_queue(self._around, request)
        number = name_of(request, "lease")
        key = (number, found.user.name, found.vhost.name, found.state.name)
        holding = self._held.get(number)
        # A queue that was deleted may have its name given to another.
        if holding is not None and _key(holding) == key and not holding.lease.queue.retired:
            return found, holding
        ended, generation = self._ended.get(key, ("", 0))
        if ended and ended == how:
            raise _EndedSo(generation)
        if ended:
            raise Refusal(410, "gone", f"lease '{number}' was {ended}", ended=ended)
        raise Refusal(
            404,
            "not-found",
            f"no lease '{number}' of {found.state.title}; what it may have held before the broker "
            "was started is in the queue again",
        )

    @property
    def around(self) -> Surroundings:
        """What the handlers were given."""
        return self._around

    @property
    def room(self) -> Room:
        """How many answers there may be."""
        return self._room


class _EndedSo(Exception):
    """A lease has ended already, as it should."""

    def __init__(self, generation: int) -> None:
        super().__init__(generation)
        self.generation = generation


def _key(holding: Holding) -> tuple[str, ...]:
    return holding.id, holding.user, holding.vhost, holding.queue


class _Leased(QueueBatches):
    """What a lease shows; if this is the answer that made it, it ends with that."""

    def __init__(
        self,
        routes: LeaseRoutes,
        found: FoundQueue,
        shape: Shape,
        lease: Lease,
        first: int,
        end: int,
        made: Holding | None,
    ) -> None:
        filters: dict[str, Any] = {}
        super().__init__(routes.around, routes.room, found, shape, filters)
        self._routes = routes
        self._lease = lease
        self._at = first
        self._end = end
        self._made = made
        self.headers = [(b"leporid-lease-messages", b"%d" % lease.count)]
        if made is not None:
            self.headers.append((b"leporid-lease", made.id.encode()))

    def window(self, rows_max: int, bytes_max: int) -> QueueWindow | None:
        if self._at >= self._end:
            return None
        if self._lease.ended:
            raise Refusal(410, "gone", "the lease has ended")
        window = self._lease.window(self._at, self._end, rows_max, bytes_max)
        self._at = window.end
        return window

    def end(self, whole: bool) -> None:
        """Who did not get all of it cannot be expected to work on it."""
        if self._made is not None and not whole:
            self._routes.finish(self._made, RELEASED)
