"""Leases: messages taken out of a queue over HTTP, acknowledged when their work is done.

Responsible for who holds which lease and for how long. Must not know how entries are taken
(`engine.queue.lease`) or shown (`browsing`).

Invariants: a message that is leased is acknowledged by its holder, in time, or goes back to its
place: when the lease is released, when its time is over, when its first answer could not be sent
whole, when the broker starts again. That it was acknowledged is said when it is on disk.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Coroutine
from contextlib import aclosing
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from leporid.engine.queue.lease import Lease
from leporid.limits.shares import NoSlot, Slot
from leporid.management.admission import taken
from leporid.management.answers import TableAnswer
from leporid.management.authorization import vhosts_listed
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
from leporid.management.paging import Lists, Table
from leporid.management.parameters import Parameters, body_of
from leporid.management.paths import name_of
from leporid.management.refusals import Refusal, bad, of_no_slot
from leporid.management.surroundings import Holding, Surroundings

if TYPE_CHECKING:
    from leporid.broker.access.access import User
    from leporid.engine.queue.browse import QueueWindow

logger = logging.getLogger(__name__)

# Each is a number of eight bytes.
MESSAGES_MAX: Final = 50_000
MESSAGES: Final = 10_000
# Taken, or settled, in one turn of the loop: a millisecond.
AT_ONCE: Final = 4000
TTL_MS: Final = 10 * 60_000
TTL_MS_MAX: Final = 24 * 3600_000
# Leases that ended, remembered so that a repeated request gets the answer that was lost.
ENDED_MAX: Final = 10_000

TAKING: Final = ("max", "ttl_ms", "answer", *TABLE_PARAMETERS, *FILTER_PARAMETERS)
SHOWING: Final = ("from", "to", *TABLE_PARAMETERS)
ACKNOWLEDGED: Final = "acknowledged"
RELEASED: Final = "released"
EXPIRED: Final = "expired"


def _left_ms(holding: Holding) -> int:
    left = holding.timer.when() - asyncio.get_running_loop().time()
    return max(0, round(left * 1000))


FIELDS: Final[dict[str, Any]] = {
    "lease": lambda holding: holding.id,
    "user": lambda holding: holding.user,
    "vhost": lambda holding: holding.vhost,
    "queue": lambda holding: holding.queue,
    "messages": lambda holding: holding.lease.count,
    "ends_in_ms": _left_ms,
}


class Ending:
    """The end of a lease, of which nobody need wait.

    Attributes:
        generation: once its messages are settled, the generation that has that on disk.
    """

    def __init__(self) -> None:
        self.generation: asyncio.Future[int] = asyncio.get_running_loop().create_future()


class LeaseRoutes:
    """The handlers, and the leases that there are."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._share = around.admission.shares.leases
        self._lists: Lists[Holding] = Lists(
            around,
            Table(FIELDS, attrgetter("vhost", "queue", "id")),
            lambda holding: holding.queue,
        )
        self._held = around.leases
        self._settling: set[asyncio.Task[None]] = set()
        self._ended: OrderedDict[tuple[str, ...], tuple[str, Ending]] = OrderedDict()

    def __repr__(self) -> str:
        return f"<LeaseRoutes held={len(self._held)}>"

    # ------------------------------------------------------------- taking and looking

    async def take(self, request: Request) -> Response:
        """POST /api/queues/{vhost}/{queue}/leases."""
        found = await find_queue(self._around, request)
        given = Parameters(request, TAKING)
        # Who says there what to take would be given everything.
        await body_of(self._around.admission, request, found.user, ())
        most = given.whole("max", MESSAGES, 1, MESSAGES_MAX)
        ttl_ms = given.whole("ttl_ms", TTL_MS, 1, TTL_MS_MAX)
        shape, filters = shape_in(given), filters_in(given)
        check_filters(given, found.user, found.vhost, found.state.name)
        as_table = given.choice("answer", ("table", "json")) == "table"
        if as_table:
            await self._around.need_arrow(found.user)
        if found.engine.retired:
            raise Refusal(404, "not-found", f"no {found.state.title}")
        slot = self._room_for(found.user.name)
        found.vhost.used(found.state)
        try:
            lease = await self._choose(found, most, filters)
        except BaseException:
            slot.release()
            raise
        self._around.wake()
        holding = None
        if lease.count:
            holding = self._hold(found, lease, ttl_ms, slot)
        else:
            slot.release()
        if as_table:
            batches = _Leased(self, found, shape, lease, 0, lease.count, holding)
            return TableAnswer(self._around.admission, found.user, batches)
        content = {
            "lease": None if holding is None else holding.id,
            "messages": lease.count,
            "ttl_ms": ttl_ms,
        }
        return JSONResponse(content, status_code=201)

    def _room_for(self, user: str) -> Slot:
        """Take a slot for one more lease; raises Refusal without."""
        try:
            return self._share.take(user)
        except NoSlot as none:
            if not self._forget_retired():
                raise of_no_slot(none) from None
        return taken(self._share, user)

    async def _choose(self, found: FoundQueue, most: int, filters: dict[str, Any]) -> Lease:
        """Take what is first, or what passes filters, a piece at a time."""
        user = found.user
        lease = Lease(found.engine, most, True)
        try:
            if filters:
                async with aclosing(chosen_in(self._around, user, found.engine, filters)) as pieces:
                    async for numbers in pieces:
                        if not lease.take(numbers):
                            break
            else:
                while lease.more(AT_ONCE):
                    await self._around.admission.turns.next(user.name)
        except BaseException:
            self._settle(lease, user.name, RELEASED)
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
        await self._around.need_arrow(found.user)
        batches = _Leased(self, found, shape, lease, first, end, None)
        return TableAnswer(self._around.admission, found.user, batches)

    async def listing(self, request: Request) -> Response:
        """GET /api/leases, and /api/leases/{vhost}."""
        user, vhosts = await vhosts_listed(self._around, request)
        names = {vhost.name for vhost in vhosts}
        held = [each for each in self._held.values() if each.vhost in names]
        return await self._lists.answer(request, user, held, len(held))

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
            found, holding = await self._find(request, how)
        except _EndedSo as ended:
            ending, user = ended.ending, ended.user
        else:
            ending, user = self.finish(holding, how), found.user
        # A client that goes away does not stop it half-way.
        generation = await asyncio.shield(ending.generation)
        if how == ACKNOWLEDGED:
            await self._around.synced(generation, user)

    def finish(self, holding: Holding, how: str) -> Ending:
        """End a lease that is held."""
        del self._held[holding.id]
        holding.timer.cancel()
        holding.slot.release()
        ending = self._settle(holding.lease, holding.user, how)
        self._ended[_key(holding)] = how, ending
        if len(self._ended) > ENDED_MAX:
            self._ended.popitem(last=False)
        return ending

    def give_back(self, holding: Holding) -> None:
        """Release a lease, if it is held still."""
        if holding.id in self._held:
            self.finish(holding, RELEASED)

    def _settle(self, lease: Lease, user: str, how: str) -> Ending:
        """Settle a lease: the first piece of it now, the others when it is their turn."""
        ending = Ending()
        settle = lease.acknowledge if how == ACKNOWLEDGED else lease.release
        more = settle(AT_ONCE)
        self._around.wake()

        async def go_on() -> None:
            while settle(AT_ONCE):
                self._around.wake()
                await self._around.admission.turns.next(user)
            self._around.wake()
            end()

        def end() -> None:
            acknowledged = how == ACKNOWLEDGED
            ending.generation.set_result(
                self._around.engine.logs.note_change() if acknowledged else 0
            )

        if more:
            self._start(go_on())
        else:
            end()
        return ending

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something that no request waits for."""
        task = asyncio.ensure_future(work)
        self._settling.add(task)
        task.add_done_callback(self._settling.discard)

    async def _expire(self, holding: Holding) -> None:
        """Its time is over: its messages go back in their turn, as many may be over at once."""
        await self._around.admission.turns.next(holding.user)
        if holding.id not in self._held:
            return
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

    def _hold(self, found: FoundQueue, lease: Lease, ttl_ms: int, slot: Slot) -> Holding:
        number = self._around.broker.new_name("lease-")
        names = found.user.name, found.vhost.name, found.state.name
        loop = asyncio.get_running_loop()

        def over() -> None:
            self._start(self._expire(self._held[number]))

        timer = loop.call_later(ttl_ms / 1000, over)
        self._held[number] = Holding(number, *names, lease, timer, slot)
        return self._held[number]

    def _forget_retired(self) -> int:
        """Leases of queues that were deleted hold nothing; returns how many there were."""
        retired = [each for each in self._held.values() if each.lease.queue.retired]
        for holding in retired:
            holding.timer.cancel()
            holding.slot.release()
            del self._held[holding.id]
        return len(retired)

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
        ended, ending = self._ended.get(key, ("", None))
        if ending is not None and ended == how:
            raise _EndedSo(found.user, ending)
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


class _EndedSo(Exception):
    """A lease has ended already, as it should."""

    def __init__(self, user: User, ending: Ending) -> None:
        super().__init__()
        self.user = user
        self.ending = ending


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
        super().__init__(routes.around, found, shape, filters)
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
        super().end(whole)
        if self._made is not None and not whole:
            self._routes.give_back(self._made)
