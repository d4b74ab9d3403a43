"""Messages for later: once at a moment, once after a while, or again and again.

    async with Scheduler(connection) as scheduler:
        await scheduler.after(timedelta(minutes=15), b"soon", "mail")
        await scheduler.every(timedelta(hours=1), b"report", "jobs", id="hourly")

What is scheduled waits in the broker and not in this process: on Leporid as a delayed message, on
other brokers in a ladder of queues (`ladder`), which is declared when it is needed. So it survives
a restart of the process, and one of the broker.

A series (`every`) is a message, too: a *tick*, which waits until the next occurrence and then comes
to a queue that all schedulers of a virtual host share. Whichever gets it publishes the occurrence
and the next tick, and acks the last one, in one transaction. So a series goes on as long as one
scheduler runs somewhere; while none does, it waits, and what it missed comes once and not for each
interval. One tick is one series, so a series has one occurrence per interval, however many
schedulers there are.

Responsible for publishing, for ticks, and for asking over HTTP what waits. It must
not know how a broker delays. Invariant: a message that was scheduled without an error is in the
broker.
"""

from __future__ import annotations

import asyncio
import logging
import math
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from leporid.client.errors import ClientError, LocalProtocolError
from leporid.client.exchange import Exchange
from leporid.client.ladder import Ladder
from leporid.client.message import (
    DELAY_MAX,
    Body,
    HeaderValue,
    delay_ms_of,
    duration_ms,
    milliseconds_of,
)

if TYPE_CHECKING:
    from leporid.client.api import Api
    from leporid.client.channel import Channel
    from leporid.client.connection import Connection
    from leporid.client.delivery import Delivery

logger: Final[logging.Logger] = logging.getLogger("leporid.client")

SERIES_QUEUE: Final = "leporid.series"
SERIES: Final = "x-series"
"""The header of a tick: what the series is."""
OF_THE_WAIT: Final = frozenset({SERIES, "x-delay", "x-deliver-at", "x-death"})
OF_DEATHS: Final = ("x-first-death-", "x-last-death-")
"""Headers of a tick that occurrences have not, and beginnings of others that a ladder leaves."""
RETRY_S: Final = 5.0
"""Before a series is tried again whose exchange is not there."""
KEPT: Final = (
    "content_type", "content_encoding", "correlation_id", "reply_to", "priority", "type", "app_id",
)  # fmt: skip
"""Properties of a series that each occurrence has, too."""
LISTED_MAX: Final = 1000
"""What the management API lists of one exchange at a time."""
INTERVAL_MS_MIN: Final = 1000
"""Each occurrence costs a transaction; who wants them faster has a loop of its own."""
INTERVAL_MS_MAX: Final = int(DELAY_MAX / timedelta(milliseconds=1))
DUE_MS_MAX: Final = 250_000_000_000_000
"""In the year 9892: with an interval more it is still a moment that a datetime has."""


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A message that waits.

    Attributes:
        id: as `at`, `after` or `every` returned it.
        moment: when it is due.
        exchange: where it goes then; "" is the default exchange.
        key: with this routing key.
        every: the interval of a series; None: it is due once.
    """

    id: str
    moment: datetime
    exchange: str
    key: str
    every: timedelta | None = None


class Scheduler:
    """Schedules messages over one connection: `async with Scheduler(connection) as scheduler:`.

    Args:
        connection: open.
        ladder: what holds messages back on a broker without delays; None: the published one, of
            28 levels, with quorum queues.
        queue: where the ticks of series come.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        ladder: Ladder | None = None,
        queue: str = SERIES_QUEUE,
    ) -> None:
        self._connection = connection
        self._ladder = Ladder() if ladder is None else ladder
        self._queue = queue
        self._channel: Channel | None = None
        self._task: asyncio.Task[None] | None = None
        self._ladder_there = False
        # The tick that the broker closed the channel over: which series, and when it was due.
        self._failed: tuple[str, int] | None = None
        self._bound: set[str] = set()

    def __repr__(self) -> str:
        state = "closed" if self._channel is None else "open"
        return f"<Scheduler on {self._connection!r}, {state}>"

    async def __aenter__(self) -> Self:
        """Open it; from now on it keeps series going."""
        channel = await self._connection.channel()
        try:
            await channel.queue(self._queue)
        except BaseException:
            await channel.close()
            raise
        self._channel = channel
        self._task = self._connection.spawn(self._keep_going())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Keep no series going any more; what is scheduled stays so. It may be called again."""
        channel, self._channel = self._channel, None
        if self._task is not None:
            # What it does is a transaction, of which the broker has all or nothing.
            self._task.cancel()
            await asyncio.wait([self._task])
        if channel is not None:
            await channel.close()

    # ------------------------------------------------------------------ once

    async def at(
        self,
        moment: datetime,
        body: Body,
        key: str = "",
        *,
        exchange: Exchange | None = None,
        id: str | None = None,  # noqa: A002 - what it is called everywhere
        **properties: Any,
    ) -> str:
        """Have a message delivered at a moment; one that has passed is delivered at once.

        Args:
            moment: with its time zone.
            body: the message's.
            key: routing key; for the default exchange a queue's name.
            exchange: where it goes; None: the default exchange. On a broker without delays there
                is no other.
            id: its `message_id`, by which it can be cancelled; None: a new one.
            properties: as of `Exchange.publish`.

        Returns:
            Its id.

        Raises:
            LocalProtocolError: the moment has no time zone, or this broker cannot hold it so long.
            NotFound: there is no such queue, on a broker without delays.
            PublishError: the broker does not take it.
        """
        if moment.tzinfo is None:
            raise LocalProtocolError(
                f"{moment!r} has no time zone: use datetime.now(UTC), or moment.astimezone()"
            )
        channel = self._opened()
        made = uuid.uuid4().hex if id is None else id
        await self._schedule(channel, moment, body, key, exchange, message_id=made, **properties)
        return made

    async def after(
        self,
        delay: timedelta | float,
        body: Body,
        key: str = "",
        *,
        exchange: Exchange | None = None,
        id: str | None = None,  # noqa: A002
        **properties: Any,
    ) -> str:
        """Have a message delivered after a while, given by a timedelta or in seconds.

        The other arguments, what is returned and what is raised are those of `at`.
        """
        moment = self._connection.now() + timedelta(milliseconds=delay_ms_of(delay))
        return await self.at(moment, body, key, exchange=exchange, id=id, **properties)

    async def _schedule(
        self,
        channel: Channel,
        moment: datetime,
        body: Body,
        key: str,
        exchange: Exchange | None,
        **properties: Any,
    ) -> None:
        """Publish a message that the broker holds back until a moment."""
        if self._connection.server.is_leporid:
            target = channel.default_exchange if exchange is None else exchange
            await target.publish(body, key, deliver_at=moment, **properties)
            return
        if exchange is not None and exchange.name:
            raise LocalProtocolError(
                "this broker has no delays, and a ladder leads to queues only: leave `exchange` "
                "out, and give a queue's name as the key"
            )
        entry, ladder_key = await self._on_ladder(channel, moment, key)
        await entry.publish(body, ladder_key, **properties)

    async def _on_ladder(
        self, channel: Channel, moment: datetime, queue: str
    ) -> tuple[Exchange, str]:
        """Return where a message for a queue is published; the ladder is there then."""
        wait_s = max(0, math.ceil((moment - self._connection.now()).total_seconds()))
        try:
            key = self._ladder.key(wait_s, queue)
        except ValueError as error:
            raise LocalProtocolError(
                f"this broker has no delays, and on a ladder {error}"
            ) from None
        declaring = self._opened()
        if not self._ladder_there:
            await declare(self._ladder, declaring)
            self._ladder_there = True
        if queue not in self._bound:
            await declaring.bind(queue, self._ladder.delivery, f"#.{queue}")
            self._bound.add(queue)
        return Exchange(channel, self._ladder.entry, "topic"), key

    # ------------------------------------------------------------------ again and again

    async def every(
        self,
        interval: timedelta | float,
        body: Body,
        key: str = "",
        *,
        exchange: Exchange | None = None,
        id: str | None = None,  # noqa: A002
        first: datetime | None = None,
        **properties: Any,
    ) -> str:
        """Have a message delivered again and again.

        Each occurrence has a `message_id` of its own: the series' id, a hyphen, and when it was
        due in milliseconds since 1970.

        Args:
            interval: a timedelta, or seconds; one second or more.
            body: the message's.
            key: routing key; for the default exchange a queue's name.
            exchange: where it goes; None: the default exchange.
            id: by which it can be cancelled; None: a new one. It is not looked whether there is a
                series of this id already: then there are two.
            first: when it comes first, with its time zone; None: one interval from now.
            properties: as of `Exchange.publish`.

        Returns:
            Its id.

        Raises:
            LocalProtocolError: an argument is out of range.
            PublishError: the broker does not take it.
        """
        interval_ms = duration_ms(interval, "interval")
        if interval_ms < INTERVAL_MS_MIN:
            raise LocalProtocolError(f"an interval has at least one second, not {interval!r}")
        if interval_ms > INTERVAL_MS_MAX:
            raise LocalProtocolError(f"an interval has at most ten years, not {interval!r}")
        begin = self._connection.now() + timedelta(milliseconds=interval_ms)
        begin = begin if first is None else first
        headers = dict(properties.pop("headers", None) or {})
        headers[SERIES] = {
            "interval_ms": interval_ms,
            "due_ms": milliseconds_of(begin, "first"),
            "exchange": "" if exchange is None else exchange.name,
            "key": key,
        }
        return await self.at(begin, body, self._queue, id=id, headers=headers, **properties)

    async def _keep_going(self) -> None:
        while True:
            try:
                # One tick at a time: each is a transaction of its own.
                async with self._connection.channel(confirms=False, prefetch=1) as channel:
                    queue = await channel.queue(self._queue)
                    async with queue.consume() as ticks:
                        async for tick in ticks:
                            await self._tick(channel, tick)
            except (ClientError, ExceptionGroup) as error:
                if self._connection.is_closed:
                    return
                # The tick goes back with its channel, and comes again.
                logger.warning("a series cannot go on, tried again in %s s: %s", RETRY_S, error)
            await asyncio.sleep(RETRY_S)

    async def _tick(self, channel: Channel, tick: Delivery) -> None:
        """Publish an occurrence and the next tick, and ack this one, all or nothing."""
        headers = {
            name: value
            for name, value in tick.headers.items()
            if name not in OF_THE_WAIT and not name.startswith(OF_DEATHS)
        }
        try:
            series = Series.of(tick.headers)
        except (KeyError, TypeError, ValueError):
            logger.warning("a message in queue %r is no tick of a series: dropped", self._queue)
            async with channel.transaction():
                await tick.reject()
            return
        series_id = tick.message_id or ""
        kept = {name: value for name in KEPT if (value := getattr(tick, name)) is not None}
        this = (series_id, series.due_ms)
        now = self._connection.now()
        following, moment = series, now + timedelta(seconds=RETRY_S)
        if this != self._failed:
            following = series.after(milliseconds_of(now, "now"))
            moment = datetime.fromtimestamp(following.due_ms / 1000, UTC)
        try:
            async with channel.transaction():
                if not tick.is_current:
                    return  # the connection was lost before the transaction began: it comes again
                if this != self._failed:
                    await Exchange(channel, series.exchange, "").publish(
                        tick.body,
                        series.key,
                        headers=headers,
                        message_id=f"{series_id}-{series.due_ms}",
                        mandatory=False,
                        **kept,
                    )
                table = {**headers, SERIES: following.table()}
                await self._schedule(
                    channel, moment, tick.body, self._queue, None,
                    headers=table, message_id=series_id, **kept,
                )  # fmt: skip
                await tick.ack()
        except ClientError as error:
            if this == self._failed or not self._connection.is_open:
                raise
            # The broker closed the channel over it. It comes again at once, and is put off then,
            # so that other series go on.
            logger.warning(
                "series %r cannot go on, tried again in %s s: %s", series_id, RETRY_S, error
            )
            self._failed = this
        else:
            self._failed = None

    # ------------------------------------------------------------------ what waits

    async def cancel(self, id: str) -> bool:  # noqa: A002
        """Take back what is scheduled under an id: a message, or a whole series (Leporid).

        It is asked over HTTP. A series whose tick is being handled in this moment is not found.

        Returns:
            Whether something was.

        Raises:
            LocalProtocolError: this broker has no delays.
            ApiError: the user may not: it takes the right to configure the exchange; or nobody
                answers, see `Settings.api`.
        """
        api, vhost = self._api(), self._connection.settings.vhost
        cancelled = 0
        for exchange in await self._exchanges(api):
            answer = await api.delete("delays", vhost, exchange, message_id=id)
            cancelled += 0 if answer is None else answer["cancelled"]
        return cancelled > 0

    async def list(self) -> Sequence[Scheduled]:
        """Return what waits in this virtual host: of each exchange the thousand that are due next.

        It is asked over HTTP (Leporid), and is all that waits there, whoever has scheduled it; what
        is due first comes first.

        Raises:
            LocalProtocolError, ApiError: as for `cancel`.
        """
        api, vhost = self._api(), self._connection.settings.vhost
        found = []
        for exchange in await self._exchanges(api):
            answer = await api.get("delays", vhost, exchange, limit=LISTED_MAX, headers="true")
            found += [] if answer is None else [scheduled(each) for each in answer["messages"]]
        return sorted(found, key=lambda each: each.moment)

    async def _exchanges(self, api: Api) -> tuple[str, ...]:
        """Return the exchanges that hold something back."""
        answer = await api.get("delays", self._connection.settings.vhost)
        return tuple(each["exchange"] for each in answer["exchanges"])

    def _api(self) -> Api:
        self._opened()
        if not self._connection.server.is_leporid:
            raise LocalProtocolError("a ladder does not say what is on it, nor gives it back")
        return self._connection.api()

    def _opened(self) -> Channel:
        if self._channel is None:
            raise LocalProtocolError("the scheduler is not open: use `async with Scheduler(…)`")
        return self._channel


@dataclass(frozen=True, slots=True)
class Series:
    """What a tick says of its series, in the header SERIES.

    Attributes:
        interval_ms: from one occurrence to the next.
        due_ms: when this one is due, in milliseconds since 1970.
        exchange: where occurrences go.
        key: with this routing key.
    """

    interval_ms: int
    due_ms: int
    exchange: str
    key: str

    @classmethod
    def of(cls, headers: Mapping[str, Any]) -> Self:
        """Read it from headers; raises KeyError, TypeError or ValueError if it is not there."""
        table = headers[SERIES]
        interval_ms, due_ms = int(table["interval_ms"]), int(table["due_ms"])
        if not INTERVAL_MS_MIN <= interval_ms <= INTERVAL_MS_MAX or not 0 <= due_ms <= DUE_MS_MAX:
            raise ValueError("no interval, or no moment")
        return cls(interval_ms, due_ms, str(table["exchange"]), str(table["key"]))

    def table(self) -> dict[str, HeaderValue]:
        """Return the header."""
        return {
            "interval_ms": self.interval_ms,
            "due_ms": self.due_ms,
            "exchange": self.exchange,
            "key": self.key,
        }

    def after(self, now_ms: int) -> Self:
        """Return the next occurrence that is not over yet; what was missed is left out."""
        missed = max(0, (now_ms - self.due_ms) // self.interval_ms)
        return replace(self, due_ms=self.due_ms + (missed + 1) * self.interval_ms)


def scheduled(shown: Mapping[str, Any]) -> Scheduled:
    """Read a message that the management API lists."""
    try:
        series: Series | None = Series.of(shown.get("headers") or {})
    except (KeyError, TypeError, ValueError):
        series = None
    return Scheduled(
        id=shown["message_id"] or "",
        moment=datetime.fromtimestamp(shown["due_ms"] / 1000, UTC),
        exchange=shown["exchange"] if series is None else series.exchange,
        key=shown["routing_key"] if series is None else series.key,
        every=None if series is None else timedelta(milliseconds=series.interval_ms),
    )


# ------------------------------------------------------------------ the ladder


@dataclass(slots=True)
class _Steps:
    """What `Ladder` declares, in its order, for a channel whose calls are awaited."""

    exchanges: list[tuple[str, str]] = field(default_factory=list)
    queues: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    bindings: list[tuple[str, str, str, bool]] = field(default_factory=list)

    def exchange_declare(self, exchange: str, exchange_type: str, *, durable: bool) -> None:
        """Note a durable exchange."""
        assert durable
        self.exchanges.append((exchange, exchange_type))

    def queue_declare(self, queue: str, *, durable: bool, arguments: Mapping[str, Any]) -> None:
        """Note a durable queue."""
        assert durable
        self.queues.append((queue, arguments))

    def queue_bind(self, queue: str, exchange: str, routing_key: str) -> None:
        """Note a binding of a queue."""
        self.bindings.append((queue, exchange, routing_key, False))

    def exchange_bind(self, destination: str, source: str, routing_key: str) -> None:
        """Note a binding of an exchange."""
        self.bindings.append((destination, source, routing_key, True))


async def declare(ladder: Ladder, channel: Channel) -> None:
    """Declare a ladder; one that is there already stays as it is.

    Raises:
        PreconditionFailed: there is one of the same name with other queues.
    """
    steps = _Steps()
    ladder.declare(steps)
    exchanges = {name: await channel.exchange(name, kind) for name, kind in steps.exchanges}
    for name, arguments in steps.queues:
        await channel.queue(name, arguments=arguments)
    for destination, source, key, to_exchange in steps.bindings:
        await channel.bind(exchanges[destination] if to_exchange else destination, source, key)
