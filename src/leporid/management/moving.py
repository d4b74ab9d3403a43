"""Moving messages out of a queue over HTTP: to another queue or exchange, or to where they died.

Responsible for the route: which messages, where each goes, and a preview that changes nothing. What
publishes is AMQP's own method (`acting`), so permissions and limits are those of a publisher. Must
not know how entries are found (`engine.queue.browse`) or kept.

Invariants: a message leaves its queue only when its copy was confirmed in a queue, so what is
interrupted is in both places and never in none; what comes to the queue after the request is not
moved, so that nothing goes round and round; one request has at most BATCH_BYTES of bodies in
memory, and ends after MOVE_SECONDS.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from leporid.amqp.constants import SHORTSTR_BYTES_MAX
from leporid.amqp.properties import split_properties
from leporid.amqp.tables import octets_of
from leporid.broker.access.permissions import DEFAULT_EXCHANGE_NAME
from leporid.broker.access.tags import may_impersonate
from leporid.engine.queue.browse import Browse
from leporid.engine.queue.lease import Lease
from leporid.engine.tables.chosen import Chosen
from leporid.engine.wire.headers import field_in, first_in, header_of, text_in, with_headers
from leporid.management.acting import Acting, Outcome, Outgoing
from leporid.management.admission import holding, taken
from leporid.management.browsing import find_queue
from leporid.management.filter_parameters import FILTER_PARAMETERS, check_filters, filters_in
from leporid.management.paging import Slices
from leporid.management.parameters import NUMBER_MAX, Parameters, body_of
from leporid.management.paths import takes
from leporid.management.refusals import Refusal, bad

if TYPE_CHECKING:
    from leporid.broker.vhost import VirtualHost
    from leporid.engine.log.window import Window
    from leporid.management.browsing import FoundQueue
    from leporid.management.surroundings import Surroundings

LIMIT_DEFAULT: Final = 10_000
LIMIT_MAX: Final = 1_000_000
# Clients give up after half a minute or so; `more` tells them to ask once more.
MOVE_SECONDS: Final = 10
# Messages that are looked at, and published before their confirms are waited for.
AT_ONCE: Final = 200
# Of bodies that are copied out of the log for one batch: two milliseconds.
BATCH_BYTES: Final = 8 * 1024 * 1024
# That are counted one by one; dead letters may come from any number of queues.
TARGETS_MAX: Final = 100
PARAMETERS: Final = ("limit", "dry_run", *FILTER_PARAMETERS)
CC: Final = b"CC"
ENDS: Final = ("queue", "exchange", "routing_key", "origin")


class Stays(StrEnum):
    """Why a message was not moved."""

    NO_EXCHANGE = "no_exchange"
    NO_QUEUE = "no_queue"
    DUPLICATE = "duplicate"
    REFUSED = "refused"
    OTHER_USER = "other_user"
    NEVER_DIED = "never_died"
    TOO_LARGE = "too_large"


@dataclass(frozen=True, slots=True)
class Target:
    """An exchange and a routing key."""

    exchange: str
    key: str


@dataclass(frozen=True, slots=True)
class Destination:
    """Where messages are to go, as the request says.

    Attributes:
        target: one for all; its key is None if each keeps its own.
        origin: "queue": back to the queue in which each died; "exchange": to the exchange, and with
            the key, that it had before.
    """

    exchange: str | None = None
    key: str | None = None
    origin: str | None = None

    def of(self, exchange: str, key: str, properties: bytes) -> Target | None:
        """Return where one message goes; None: it never died, and there is nowhere to go back."""
        if self.origin is None:
            return Target(self.exchange or "", key if self.key is None else self.key)
        # The last death comes first. Headers stay encoded, as who publishes chooses how many
        # values they have.
        death = first_in(header_of(properties, b"x-death"))
        if self.origin == "queue":
            queue = text_in(field_in(death, b"queue"))
            return Target("", queue) if queue else None
        exchange_then = text_in(field_in(death, b"exchange"))
        key_then = text_in(first_in(field_in(death, b"routing-keys")))
        if exchange_then is None or key_then is None:
            return None
        return Target(exchange_then, key_then)


@dataclass(slots=True)
class Tally:
    """What became of messages, or would."""

    matched: int = 0
    moved: int = 0
    stayed: Counter[str] = field(default_factory=Counter)
    targets: Counter[Target] = field(default_factory=Counter)
    others: int = 0

    def note_target(self, target: Target) -> None:
        """Count a message by where it goes."""
        if target in self.targets or len(self.targets) < TARGETS_MAX:
            self.targets[target] += 1
        else:
            self.others += 1

    def shown(self, vhost: VirtualHost) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {
            "matched": self.matched,
            "moved": self.moved,
            "stayed": dict(self.stayed),
            "targets": [
                {
                    "exchange": target.exchange or DEFAULT_EXCHANGE_NAME,
                    "routing_key": target.key,
                    "messages": count,
                    "problem": problem_of(vhost, target),
                }
                for target, count in self.targets.most_common()
            ],
            "other_targets": self.others,
        }


class MoveRoutes:
    """The handler.

    Args:
        around: the broker.
    """

    def __init__(self, around: Surroundings) -> None:
        self._around = around

    @takes(
        {"to": {"type": "object", "required": True}},
        limit={"type": "integer", "maximum": LIMIT_MAX},
        dry_run={"type": "boolean"},
        **{name: {"type": "string"} for name in FILTER_PARAMETERS},
    )
    async def move(self, request: Request) -> Response:
        """POST /api/queues/{vhost}/{queue}/move: ready messages, all or those that pass filters."""
        around = self._around
        found = await find_queue(around, request)
        given = Parameters(request, PARAMETERS)
        limit, dry_run = given.whole("limit", LIMIT_DEFAULT, 1, LIMIT_MAX), given.flag("dry_run")
        filters = filters_in(given)
        check_filters(given, found.user, found.vhost, found.state.name)
        body = await body_of(around.admission, request, found.user, ("to",))
        to = _destination(body.get("to"))
        around.check_unchanged(found.user, found.vhost.name)
        if found.engine.retired:
            raise Refusal(404, "not-found", f"no {found.state.title}")
        if found.engine.paused and not dry_run:
            raise Refusal(409, "conflict", f"{found.state.title} is paused; resume it first")
        move = _Move(around, found, to, filters, limit)
        room = taken(around.admission.shares.body_bytes, found.user.name, BATCH_BYTES)
        try:
            async with holding(around.admission.shares.tables, found.user.name):
                await (move.preview() if dry_run else move.carry_out())
        finally:
            room.release()
        facts = {"dry_run": dry_run, **move.tally.shown(found.vhost), "more": move.more}
        return JSONResponse(facts)


def without_cc(properties: bytes) -> bytes:
    """Return properties without the header CC."""
    if header_of(properties, CC) is None:
        return properties
    return with_headers(properties, {CC: None})


class _Move:
    """One pass through a queue.

    Attributes:
        tally: what became of messages.
        more: whether it ended before the end of the queue.
    """

    def __init__(
        self,
        around: Surroundings,
        found: FoundQueue,
        to: Destination,
        filters: dict[str, Any],
        limit: int,
    ) -> None:
        self._around = around
        self._found = found
        self._to = to
        self._filters = filters
        self._left = limit
        self._until = around.monotonic() + MOVE_SECONDS
        self._browse = Browse(found.engine, 0, by_arrival=True)
        self._end = self._browse.end
        self._impersonates = may_impersonate(found.user)
        self._slices = Slices(around, found.user)
        self.tally = Tally()
        self.more = False

    async def preview(self) -> None:
        """Count what would be done; nothing is changed."""
        while (copied := await self._next(0)) is not None:
            for _, plan in await self._planned(copied):
                self.tally.note_target(Target(plan.exchange, plan.key))

    async def carry_out(self) -> None:
        """Move messages, a batch at a time."""
        around, found = self._around, self._found
        found.vhost.used(found.state)
        name = f"HTTP user '{found.user.name}'"
        with Acting(around, found.user, found.vhost, name) as acting:
            while (copied := await self._next(NUMBER_MAX)) is not None:
                await self._batch(acting, copied)
        generation = around.engine.logs.note_change()
        around.wake()
        await around.synced(generation, found.user)

    async def _next(self, body_bytes_max: int) -> list[Any] | None:
        """Copy the next messages that match, bodies up to so many bytes; None after the last."""
        around, queue = self._around, self._found.engine
        if self._browse.done or not self._left:
            self.more = not self._browse.done
            return None
        if around.monotonic() >= self._until:
            self.more = True
            return None

        def copy() -> tuple[Any, list[Any], int | None]:
            chosen = Chosen(window, **self._filters)
            copied, left_out = chosen.messages(self._left, BATCH_BYTES, body_bytes_max)
            return chosen.filtering, copied, left_out

        async with around.encoding(self._found.user.name) as encode:
            await around.admission.turns.next(self._found.user.name)
            if queue.retired:
                raise self._stopped(Refusal(404, "not-found", f"no {self._found.state.title}"))
            window: Window = self._browse.window(AT_ONCE, BATCH_BYTES)
            counts, copied, left_out = await encode(copy, window)
        around.engine.searches.note_browsed(queue, counts)
        copied = [each for each in copied if each[0] < self._end]
        if left_out is not None and left_out < self._end:
            if not copied and self._left:
                self.tally.matched += 1
                self.tally.stayed[Stays.TOO_LARGE] += 1
                left_out += 1
            self._browse = Browse(queue, left_out, by_arrival=True)
        self._left -= len(copied)
        self.tally.matched += len(copied)
        return copied

    async def _planned(self, copied: Sequence[Any]) -> list[tuple[int, Outgoing]]:
        """Return what is to be published, by the number of each message; count what stays."""
        planned: list[tuple[int, Outgoing]] = []
        for each in copied:
            await self._slices.next()
            plan = self._plan(each)
            if isinstance(plan, Stays):
                self.tally.stayed[plan] += 1
            else:
                planned.append((each[0], plan))
        return planned

    def _plan(self, message: Any) -> Outgoing | Stays:
        """Return what is to be published for a message, or why it stays."""
        _, _, exchange, key, encoded, body, *_ = message
        target = self._to.of(exchange, key, encoded)
        if target is None:
            return Stays.NEVER_DIED
        user = split_properties(encoded).get("user_id")
        own = octets_of(self._found.user.name)
        if user is not None and user[1:] != own and not self._impersonates:
            return Stays.OTHER_USER
        if target.exchange and self._found.vhost.find_exchange(target.exchange) is None:
            return Stays.NO_EXCHANGE
        # The copies that CC asked for were made when it was published.
        if self._to.origin is not None or self._to.key is not None:
            encoded = without_cc(encoded)
        return Outgoing(target.exchange, target.key, encoded, body)

    async def _batch(self, acting: Acting, copied: Sequence[Any]) -> None:
        """Take messages out of the queue, publish them, and settle each as that went."""
        planned = await self._planned(copied)
        lease = Lease(self._found.engine, len(planned), chosen=True, shown=False)
        plans: list[Outgoing] = []
        for number, plan in planned:
            before = lease.count
            lease.take([number])
            if lease.count > before:  # else somebody else has taken it meanwhile
                plans.append(plan)
            else:
                self.tally.matched -= 1
        outcomes: list[Outcome | Refusal] = []
        stopped: Refusal | None = None
        try:
            await acting.publish_all(plans, outcomes)
        except Refusal as refusal:
            stopped = refusal
        finally:  # whatever ended it: nothing stays taken
            self._settle(lease, plans, outcomes)
        refusals = [each for each in outcomes if isinstance(each, Refusal)]
        if refusals and len(refusals) == len(plans) and not self.tally.moved:
            stopped = stopped or refusals[0]  # as for who may not publish there at all
        if stopped is not None:
            raise self._stopped(stopped)

    def _settle(
        self, lease: Lease, plans: Sequence[Outgoing], outcomes: Sequence[Outcome | Refusal]
    ) -> None:
        """Take those out of the queue that came to another one, and give the others back."""
        for plan, outcome in zip(plans, outcomes, strict=False):
            why = _stays(outcome)
            if why is None:
                lease.acknowledge(1)
                self.tally.moved += 1
                self.tally.note_target(Target(plan.exchange, plan.key))
            else:
                lease.release(1)
                self.tally.stayed[why] += 1
        lease.release()
        self._around.wake()

    def _stopped(self, error: Refusal) -> Refusal:
        """Add to a refusal what was done before."""
        if not self.tally.moved:
            return error
        return Refusal(
            error.status,
            error.word,
            f"{error.reason}; {self.tally.moved} messages were moved before",
            headers=error.headers,
            **error.facts | {"moved": self.tally.moved},
        )


def _stays(outcome: Outcome | Refusal) -> Stays | None:
    """Return why a message stays whose copy was published; None: the copy is in a queue."""
    if isinstance(outcome, Refusal) or not outcome.accepted:
        return Stays.REFUSED
    if outcome.duplicate:
        return Stays.DUPLICATE
    return None if outcome.routed else Stays.NO_QUEUE


def problem_of(vhost: VirtualHost, target: Target) -> str | None:
    """Say why nothing can come to a target, as far as its names tell; None: it can."""
    if target.exchange:
        if vhost.find_exchange(target.exchange) is None:
            return f"there is no exchange '{target.exchange}'"
    elif vhost.find_queue(target.key) is None:
        return f"there is no queue '{target.key}'"
    return None


def _destination(given: Any) -> Destination:
    """Read where to.

    Raises:
        Refusal: it is not one of the three forms.
    """
    if not isinstance(given, dict) or not all(isinstance(each, str) for each in given.values()):
        raise bad("to", "is no object of texts: queue; exchange, routing_key; or origin")
    for name in given:
        if name not in ENDS:
            raise bad("to", f"unknown member {name!r}; there are {', '.join(ENDS)}")
        try:
            size = len(given[name].encode())
        except UnicodeEncodeError:
            raise bad("to", f"{name} has a lone surrogate, which no name has") from None
        if size > SHORTSTR_BYTES_MAX:
            raise bad("to", f"{name} has {size} bytes; at most {SHORTSTR_BYTES_MAX}")
    if given.keys() == {"queue"}:
        return Destination("", given["queue"])
    if given.keys() <= {"exchange", "routing_key"} and "exchange" in given:
        exchange = given["exchange"]
        exchange = "" if exchange == DEFAULT_EXCHANGE_NAME else exchange
        return Destination(exchange, given.get("routing_key"))
    if given.keys() == {"origin"} and given["origin"] in ("queue", "exchange"):
        return Destination(origin=given["origin"])
    raise bad(
        "to",
        "is {queue}, {exchange} with or without a routing_key, or {origin: 'queue' or 'exchange'}",
    )
