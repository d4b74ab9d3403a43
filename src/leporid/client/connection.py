"""A connection that comes back: the object that users hold.

Responsible for connecting again when a link is lost, for restoring what was there, and for telling
all that happens. It must not know what messages are. Invariants: there is one link at most; after
`close()` there is no task, no timer and no socket of this connection.
"""

from __future__ import annotations

import asyncio
import logging
import random
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, Final

from leporid.amqp.methods import (
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
    ExchangeBindOk,
    ExchangeDeclareOk,
    Method,
    QueueBindOk,
    QueueDeclareOk,
)
from leporid.client import events
from leporid.client.api import Api
from leporid.client.arguments import PREFETCH_MAX, whole_number
from leporid.client.channel import Channel
from leporid.client.channel_link import ChannelLink
from leporid.client.errors import (
    AccessRefused,
    ClientError,
    ConnectFailed,
    ConnectionLost,
    LocalProtocolError,
    RemoteProtocolError,
    ResourceLocked,
    ServerClosed,
    Timeout,
    fresh,
)
from leporid.client.events import Event
from leporid.client.link import Link
from leporid.client.opening import (
    Opener,
    Opening,
    Secret,
    Server,
    open_any,
    open_link,
    open_tcp,
    secret_of,
)
from leporid.client.queue import Queue
from leporid.client.recorded_topology import QueueRecord, RecordedTopology
from leporid.client.settings import Settings

log: Final[logging.Logger] = logging.getLogger("leporid.client")

EventCallback = Callable[[Event], None]
# Events that an iterator has not taken; the oldest are dropped.
EVENTS_MAX: Final = 1000
# An exclusive queue is another connection's until the broker has noticed that ours is lost.
LOCKED_ATTEMPTS_MAX: Final = 20
# A token is renewed when so much of its life is over.
RENEWED_PART: Final = 0.75
# After an attempt to renew it that failed.
RENEWAL_RETRY_S: Final = 5.0
WARNINGS: Final = (
    events.Blocked,
    events.ConsumerEnded,
    events.Disconnected,
    events.Reconnecting,
    events.RestoreFailed,
    events.Unroutable,
)


def connect(
    url: str | Settings = "amqp://localhost",
    *,
    opener: Opener | None = None,
    on_event: EventCallback | None = None,
    **changes: Any,
) -> Opening[Connection]:
    """Connects to a broker: await what it returns, or enter it with `async with`.

    Args:
        url: `amqp://USER:PASSWORD@HOST:PORT,HOST:PORT/VHOST`, or settings.
        opener: opens transports; TCP and TLS without it.
        on_event: called in the loop with each event of `leporid.client.events`; it must be short.
        changes: settings that are other than the URL says, such as `robust=False`.

    Raises:
        LocalProtocolError: the URL or a setting is wrong.
        ConnectFailed: no address could be connected to.
        ServerClosed: the broker refused the user (`AccessRefused`) or the virtual host.
    """
    settings = (
        url.changed(**changes) if isinstance(url, Settings) else Settings.from_url(url, **changes)
    )

    async def opening() -> Connection:
        connection = Connection(settings, opener or open_tcp, on_event)
        await connection.open()
        return connection

    return Opening(opening)


class Connection:
    """A connection to a broker, over as many sockets in a row as it takes. `connect` makes it.

    Attributes:
        settings: how it connects.
        now: says what time it is, for delays; a broker for tests has a clock of its own.
    """

    def __init__(
        self, settings: Settings, opener: Opener, on_event: EventCallback | None = None
    ) -> None:
        self.settings = settings
        self.now: Callable[[], datetime] = _now
        self._opener = opener
        self._on_event = on_event
        self._loop = asyncio.get_running_loop()
        self._link: Link | None = None
        self._server: Server | None = None
        self._ready = False
        self._end: Exception | None = None
        self._topology = RecordedTopology()
        self._channels: list[Channel] = []
        # In their order, and without those that were cancelled.
        self._waiters: dict[asyncio.Future[None], None] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._reconnecting = False
        self._attempts = 0
        self._failure: Exception | None = None
        self._restored_at = 0.0
        self._renewal: asyncio.TimerHandle | None = None
        self._listeners: weakref.WeakSet[_Listener] = weakref.WeakSet()

    def __repr__(self) -> str:
        if self._end is not None:
            state = "closed"
        elif not self._ready:
            state = "reconnecting"
        else:
            state = "blocked" if self.is_blocked else "open"
        place = self._link.address if self._link else self.settings.addresses[0]
        return f"<Connection to {place}, {len(self._channels)} channels, {state}>"

    @property
    def is_open(self) -> bool:
        """Whether it is connected, with everything restored."""
        return self._ready

    @property
    def is_closed(self) -> bool:
        """Whether it is closed for good: by `close()`, or lost without coming back."""
        return self._end is not None

    @property
    def is_blocked(self) -> bool:
        """Whether the broker takes no publishes for now."""
        return self._link is not None and self._link.is_blocked

    @property
    def server(self) -> Server:
        """What the broker says of itself.

        Raises:
            LocalProtocolError: it was never connected.
        """
        if self._server is None:
            raise LocalProtocolError("not connected: await connect(…) first")
        return self._server

    @property
    def topology(self) -> RecordedTopology:
        """What was declared, and will be again."""
        return self._topology

    # ------------------------------------------------------------------ what users call

    def channel(self, *, prefetch: int | None = None, confirms: bool = True) -> Opening[Channel]:
        """Opens a channel; `await` it, or enter it.

        Args:
            prefetch: how many deliveries each of its consumers may have unsettled; the settings'
                if it is None; 0: any number.
            confirms: have the broker confirm publishes; `transaction()` needs a channel without.

        Raises:
            LocalProtocolError: the connection is closed, or has as many channels as it may.
        """
        wanted = whole_number(
            self.settings.prefetch if prefetch is None else prefetch, "prefetch", 0, PREFETCH_MAX
        )

        async def opening() -> Channel:
            channel = Channel(self, wanted, confirms)
            try:
                await channel.open()
            except BaseException:
                channel.abandon()
                raise
            self._channels.append(channel)
            return channel

        return Opening(opening)

    def api(self) -> Api:
        """The HTTP API of the broker, for what AMQP cannot ask.

        Raises:
            LocalProtocolError: the connection is closed.
        """
        self.check_usable()
        link = self._link
        return Api(self.settings, (link.address if link else self.settings.addresses[0]).host)

    async def update_secret(self, secret: str, reason: str = "renewed") -> None:
        """Gives the broker another password or token for this connection.

        Args:
            secret: the password or token.
            reason: for the broker's log.

        Raises:
            ServerClosed: the broker does not take it.
        """
        link = await self.link()
        await link.call(ConnectionUpdateSecret(secret.encode(), reason), ConnectionUpdateSecretOk)

    async def events(self) -> AsyncIterator[Event]:
        """What happens from now on, until the connection is closed; the last 1000 are kept."""
        listener = _Listener(deque(maxlen=EVENTS_MAX))
        self._listeners.add(listener)
        while True:
            while listener.events:
                yield listener.events.popleft()
            if self._end is not None:
                return
            await self.changed()

    async def close(self, reason: str = "") -> None:
        """Closes all channels and the connection; it may be called again.

        Args:
            reason: for the broker's log.
        """
        self.check_loop()
        self._stop(LocalProtocolError("the connection is closed: close() was called"))
        current = asyncio.current_task()
        tasks = [task for task in self._tasks if task is not current]
        for task in tasks:
            task.cancel()
        if self._link is not None:
            await self._link.close(reason)
        if tasks:
            await asyncio.wait(tasks)

    # ------------------------------------------------------------------ opening

    async def open(self) -> None:
        """Connects for the first time: each address once."""
        secret = await secret_of(self.settings)
        link, server = await open_any(self.settings, self._opener, self, secret)
        self._take(link, server, secret)
        self._set_ready()

    def _take(self, link: Link, server: Server, secret: Secret) -> None:
        self._link, self._server = link, server
        self._failure = None
        self.emit(events.Connected(link.address, server.product, server.version))
        self._plan_renewal(secret)

    def _set_ready(self) -> None:
        self._ready = True
        self._restored_at = self._loop.time()
        self.notify()

    def _plan_renewal(self, secret: Secret) -> None:
        if self._renewal is not None:
            self._renewal.cancel()
            self._renewal = None
        if self.settings.token is not None and secret.expires_in_s is not None:
            wait = max(0.0, secret.expires_in_s * RENEWED_PART)
            self._renewal = self._loop.call_later(wait, self._start_renewal)

    def _start_renewal(self) -> None:
        _ = self.spawn(self._renew())

    async def _renew(self) -> None:
        """Gets another token and gives it to the broker."""
        try:
            secret = await secret_of(self.settings)
            await self.update_secret(secret.text)
        except ClientError as error:
            log.warning("the token could not be renewed: %s", error)
            secret = Secret("", RENEWAL_RETRY_S / RENEWED_PART)
        self._plan_renewal(secret)

    # ------------------------------------------------------------------ what the link calls

    def link_lost(self, link: Link, error: Exception) -> None:
        """A link is gone: connect again, unless that is not wanted."""
        if link is not self._link:
            return
        self._ready = False
        if isinstance(error, ServerClosed):
            # It may have much to send, to a broker that does not read any more.
            _ = self.spawn(link.ended())
        if self._end is None:
            self.emit(events.Disconnected(link.address, error))
            if not self.settings.robust:
                self._stop(error)
            elif not self._reconnecting:
                self._reconnecting = True
                _ = self.spawn(self._reconnect())
        self.notify()

    def link_blocked(self, reason: str | None) -> None:
        """The broker takes no publishes for that reason; None: it takes them again."""
        self.emit(events.Unblocked() if reason is None else events.Blocked(reason))
        self.notify()

    def link_writable(self) -> None:
        """Output that was held back has left."""
        self.notify()

    # ------------------------------------------------------------------ connecting again

    async def _reconnect(self) -> None:
        """Tries addresses until one works and everything is restored there."""
        try:
            if self._loop.time() - self._restored_at > self.settings.backoff.longest_s:
                self._attempts = 0
            while self._end is None and not await self._reconnect_once():
                pass
        except ClientError as error:
            self._give_up(error)
        except Exception as error:
            # A defect, or an opener's: nobody may wait for ever.
            self._give_up(ConnectionLost(f"connecting again failed: {error!r}"))
            raise
        finally:
            self._reconnecting = False

    async def _reconnect_once(self) -> bool:
        """Tries each address; says whether one works."""
        settings = self.settings
        wait = settings.backoff.wait_s(self._attempts, random.random())  # noqa: S311 (jitter)
        self._attempts += 1
        for address in settings.addresses:
            self.emit(events.Reconnecting(address, self._attempts, wait, self._failure))
            await asyncio.sleep(wait)
            wait = 0.0
            try:
                secret = await secret_of(settings)
                link, server = await open_link(settings, address, self._opener, self, secret)
            except AccessRefused as error:
                if not settings.retry_refused:
                    raise
                self._failure = error
                continue
            except (
                ConnectFailed,
                ConnectionLost,
                RemoteProtocolError,
                ServerClosed,
                Timeout,
            ) as error:
                self._failure = error
                continue
            self._take(link, server, secret)
            if await self._restored(link):
                return True
            self._failure = link.error
        return False

    async def _restored(self, link: Link) -> bool:
        """Restores everything on a link; says whether it is still there then."""
        try:
            for channel in list(self._channels):
                await channel.restore(link, consumers=False)
            await self._restore_topology(link)
            for channel in list(self._channels):
                await channel.restore(link, consumers=True)
        except (ConnectionLost, RemoteProtocolError, ServerClosed, Timeout) as error:
            link.lose(fresh(error))
        if link.error is not None:
            return False
        for channel in list(self._channels):
            channel.resend()
        self._set_ready()
        self.emit(
            events.Restored(len(self._channels), sum(each.consumers for each in self._channels))
        )
        return True

    async def _restore_topology(self, link: Link) -> None:
        """Declares exchanges, queues and bindings again, in this order."""
        restoring = _Restoring(self, link)
        for exchange in self._topology.exchanges():
            await restoring.call(exchange, ExchangeDeclareOk, f"exchange {exchange.exchange!r}")
        for record in self._topology.queues():
            await restoring.declare(record)
        for binding in self._topology.bindings():
            method = binding.method()
            what = f"binding of {method!r}"
            await restoring.call(
                method, ExchangeBindOk if binding.to_exchange else QueueBindOk, what
            )
        await restoring.close()

    # ------------------------------------------------------------------ for channels

    def check_loop(self) -> None:
        """Refuses calls from another loop or thread.

        Raises:
            LocalProtocolError: with what to do instead.
        """
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if running is not self._loop:
            raise LocalProtocolError(
                "this connection belongs to another event loop or thread: use "
                "asyncio.run_coroutine_threadsafe there, or leporid.client.blocking"
            )

    def check_usable(self) -> None:
        """Raises why the connection is closed for good, if it is."""
        self.check_loop()
        if self._end is not None:
            raise fresh(self._end)

    @property
    def live_link(self) -> Link | None:
        """The link that things are being restored on, if it is not lost."""
        return self._link if self._link is not None and self._link.error is None else None

    async def link(self) -> Link:
        """Waits for a link on which everything is restored."""
        while True:
            self.check_usable()
            if self._ready and self._link is not None:
                return self._link
            await self.changed()

    def changed(self) -> asyncio.Future[None]:
        """Returns a future that is done when the state has changed in some way."""
        future = self._loop.create_future()
        self._waiters[future] = None
        future.add_done_callback(lambda done: self._waiters.pop(done, None))
        return future

    def notify(self) -> None:
        """The state has changed."""
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
        for channel in self._channels:
            channel.publishing.gate.look()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Runs a task that ends with the connection."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def emit(self, event: Event) -> None:
        """Tells everybody who wants to know."""
        log.log(logging.WARNING if isinstance(event, WARNINGS) else logging.INFO, "%s", event)
        for listener in list(self._listeners):
            listener.events.append(event)
        if self._listeners:
            self.notify()
        if self._on_event is not None:
            try:
                self._on_event(event)
            except Exception:
                log.exception("on_event failed at %s", event)

    def consumes(self, queue: Queue) -> bool:
        """Whether there is a consumer of a queue on one of the channels."""
        return any(channel.consumes(queue) for channel in self._channels)

    def forget_channel(self, channel: Channel) -> None:
        """A channel is closed."""
        if channel in self._channels:
            self._channels.remove(channel)

    def _give_up(self, error: Exception) -> None:
        """There is no use in connecting again; a link that could not be restored goes, too."""
        self._stop(error)
        if self._link is not None:
            self._link.lose(error)

    def _stop(self, error: Exception) -> None:
        """Nothing follows any more; who waits is told."""
        if self._end is not None:
            return
        self._end = error = fresh(error)
        self._ready = False
        if self._renewal is not None:
            self._renewal.cancel()
        for channel in list(self._channels):
            channel.stop(error)
        self._channels.clear()
        self.notify()


def _now() -> datetime:
    return datetime.now(UTC)


class _Listener:
    """Events for one iterator."""

    def __init__(self, kept: deque[Event]) -> None:
        self.events = kept


class _Restoring:
    """Declares again, on a channel that nobody else uses and that is opened anew after errors."""

    def __init__(self, connection: Connection, link: Link) -> None:
        self._connection = connection
        self._link = link
        self._channel: ChannelLink | None = None

    async def call(self, method: Method, kind: type[Method], what: str) -> Exception | None:
        """Calls a method; an error that closes the channel only is told, and returned."""
        if self._channel is None:
            self._channel = await self._link.open_channel()
        try:
            await self._channel.call(method, kind)
        except ServerClosed as error:
            if error.connection:
                raise
            self._channel = None
            self._connection.emit(events.RestoreFailed(what, error))
            return error
        return None

    async def declare(self, record: QueueRecord) -> None:
        """Declares a queue; one that is still locked by the lost connection, several times."""
        connection = self._connection
        for attempt in range(LOCKED_ATTEMPTS_MAX):
            if self._channel is None:
                self._channel = await self._link.open_channel()
            try:
                answer: QueueDeclareOk = await self._channel.call(record.declare, QueueDeclareOk)
            except ServerClosed as error:
                if error.connection:
                    raise
                self._channel = None
                record.error = fresh(error)
                if not isinstance(error, ResourceLocked):
                    break
                await asyncio.sleep(connection.settings.backoff.wait_s(attempt, 0.0))
            else:
                record.error = None
                if answer.queue != record.name:
                    connection.topology.rename(record, answer.queue)
                return
        assert record.error is not None
        connection.emit(events.RestoreFailed(f"queue {record.name!r}", record.error))

    async def close(self) -> None:
        """Closes the channel."""
        if self._channel is not None:
            await self._channel.close()
