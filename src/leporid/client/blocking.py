"""The client for programs without asyncio: the same names, and calls that wait.

    with connect("amqp://localhost") as connection, connection.channel() as channel:
        queue = channel.queue("tasks")
        channel.default_exchange.publish(b"one", "tasks")
        with queue.consume() as consumer:
            for delivery in consumer:
                with delivery.process():
                    ...

Behind each connection is one of `leporid.client`, on an event loop in a thread of its own
(`loop_thread`), so heartbeats and reconnecting go on while the program computes. Each call is one
hop to that thread and back. What every message costs takes none: a consumer takes all that has come
in one hop, `publish_many` hands over many messages at a time, and settles leave together.

A connection and what was made from it may be used by several threads at the same time. A process
that is forked from this one has no such thread: there, each call raises `LocalProtocolError`, and
the connection goes on in the parent; connect again in the child.

Responsible for connections, channels, calls and the scheduler; exchanges, queues, consumers and
deliveries are in `blocking_messages`, and exported here. It must not know the protocol. Invariant:
no thread outlives `close`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from leporid.client import connection as asynchronous
from leporid.client.blocking_messages import Consumer, Delivery, Exchange, Queue, Stream
from leporid.client.errors import LocalProtocolError
from leporid.client.loop_thread import LoopThread
from leporid.client.rpc import CONCURRENCY, TIMEOUT_S
from leporid.client.scheduler import SERIES_QUEUE, Scheduled
from leporid.client.scheduler import Scheduler as AsyncScheduler

if TYPE_CHECKING:
    from leporid.client.arguments import BindOptions
    from leporid.client.channel import Channel as AsyncChannel
    from leporid.client.connection import Connection as AsyncConnection
    from leporid.client.connection import EventCallback
    from leporid.client.delivery import Delivery as AsyncDelivery
    from leporid.client.ladder import Ladder
    from leporid.client.message import Body, Headers, HeaderValue, Message
    from leporid.client.opening import Opener, Server
    from leporid.client.rpc import Rpc as AsyncRpc
    from leporid.client.rpc import Serving
    from leporid.client.settings import Settings

__all__ = [
    "Channel",
    "Connection",
    "Consumer",
    "Delivery",
    "Exchange",
    "Queue",
    "Rpc",
    "Scheduled",
    "Scheduler",
    "Stream",
    "connect",
]


def connect(
    url: str | Settings = "amqp://localhost",
    *,
    opener: Opener | None = None,
    on_event: EventCallback | None = None,
    **changes: Any,
) -> Connection:
    """Connect to a broker; close the connection, or use it as a context manager.

    Args:
        url: `amqp://USER:PASSWORD@HOST:PORT,HOST:PORT/VHOST`, or settings.
        opener: opens transports; TCP and TLS without it.
        on_event: called with each event, in the connection's thread; it must be short.
        changes: settings that are other than the URL says, such as `robust=False`.

    Raises:
        LocalProtocolError, ConnectFailed, ServerClosed: as `leporid.client.connect`.
    """
    thread = LoopThread("leporid.client")

    async def opening() -> AsyncConnection:
        return await asynchronous.connect(url, opener=opener, on_event=on_event, **changes)

    try:
        return Connection(thread, thread.wait(opening()))
    except BaseException:
        thread.stop()
        raise


class Connection:
    """A connection to a broker, with the thread that keeps it. `connect` makes it.

    Attributes:
        behind: the connection of `leporid.client`.
        thread: where that runs.
    """

    def __init__(self, thread: LoopThread, connection: AsyncConnection) -> None:
        self.thread = thread
        self.behind = connection

    def __repr__(self) -> str:
        return f"<Blocking {self.behind!r}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def settings(self) -> Settings:
        """How it connects."""
        return self.behind.settings

    @property
    def is_open(self) -> bool:
        """Whether it is connected, with everything restored."""
        return self.thread.is_running and self.behind.is_open

    @property
    def is_closed(self) -> bool:
        """Whether it is closed for good: by `close()`, or lost without coming back."""
        return self.behind.is_closed

    @property
    def is_blocked(self) -> bool:
        """Whether the broker takes no publishes for now."""
        return self.behind.is_blocked

    @property
    def server(self) -> Server:
        """What the broker says of itself."""
        return self.behind.server

    def channel(self, *, prefetch: int | None = None, confirms: bool = True) -> Channel:
        """Open a channel; close it, or use it as a context manager.

        Args:
            prefetch: how many deliveries each of its consumers may have unsettled; the settings'
                if it is None; 0: any number.
            confirms: have the broker confirm publishes; `transaction()` needs a channel without.

        Raises:
            LocalProtocolError: the connection is closed, or has as many channels as it may.
        """

        async def opening() -> AsyncChannel:
            return await self.behind.channel(prefetch=prefetch, confirms=confirms)

        return Channel(self.thread, self.thread.wait(opening()))

    def update_secret(self, secret: str, reason: str = "renewed") -> None:
        """Give the broker another password or token for this connection."""
        self.thread.wait(self.behind.update_secret(secret, reason))

    def close(self, reason: str = "") -> None:
        """Close all channels, the connection and its thread; it may be called again.

        Args:
            reason: for the broker's log.
        """
        if self.thread.is_running:
            try:
                self.thread.wait(self.behind.close(reason))
            except LocalProtocolError:
                if self.thread.is_running:  # otherwise another thread has closed it meanwhile
                    raise
            finally:
                self.thread.stop()


class Channel:
    """A channel. `connection.channel()` opens it."""

    def __init__(self, thread: LoopThread, channel: AsyncChannel) -> None:
        self._thread = thread
        self._it = channel

    def __repr__(self) -> str:
        return f"<Blocking {self._it!r}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def is_open(self) -> bool:
        """Whether it can be used at once."""
        return self._thread.is_running and self._it.is_open

    @property
    def default_exchange(self) -> Exchange:
        """The exchange that routes to the queue with the name that is the key."""
        return Exchange(self._thread, self._it.default_exchange)

    def exchange(
        self,
        name: str,
        type: str = "direct",  # noqa: A002 - AMQP's word
        *,
        durable: bool = True,
        auto_delete: bool = False,
        internal: bool = False,
        alternate: str | None = None,
        passive: bool = False,
        arguments: Mapping[str, HeaderValue] | None = None,
    ) -> Exchange:
        """Declare an exchange; as `leporid.client.Channel.exchange`."""
        work = self._it.exchange(
            name,
            type,
            durable=durable,
            auto_delete=auto_delete,
            internal=internal,
            alternate=alternate,
            passive=passive,
            arguments=arguments,
        )
        return Exchange(self._thread, self._thread.wait(work))

    def queue(
        self,
        name: str = "",
        *,
        type: str | None = None,  # noqa: A002 - AMQP's word
        durable: bool = True,
        exclusive: bool = False,
        auto_delete: bool = False,
        passive: bool = False,
        expires: timedelta | float | None = None,
        message_ttl: timedelta | float | None = None,
        length_max: int | None = None,
        bytes_max: int | None = None,
        overflow: str | None = None,
        dead_letter_to: str | None = None,
        dead_letter_key: str | None = None,
        priorities: int | None = None,
        delivery_limit: int | None = None,
        arguments: Mapping[str, HeaderValue] | None = None,
    ) -> Queue:
        """Declare a queue; as `leporid.client.Channel.queue`."""
        work = self._it.queue(
            name,
            type=type,
            durable=durable,
            exclusive=exclusive,
            auto_delete=auto_delete,
            passive=passive,
            expires=expires,
            message_ttl=message_ttl,
            length_max=length_max,
            bytes_max=bytes_max,
            overflow=overflow,
            dead_letter_to=dead_letter_to,
            dead_letter_key=dead_letter_key,
            priorities=priorities,
            delivery_limit=delivery_limit,
            arguments=arguments,
        )
        return Queue(self._thread, self._thread.wait(work))

    def stream(
        self,
        name: str,
        *,
        partitions: int | None = None,
        age_max: timedelta | float | None = None,
        bytes_max: int | None = None,
        passive: bool = False,
        arguments: Mapping[str, HeaderValue] | None = None,
    ) -> Stream:
        """Declare a stream; as `leporid.client.Channel.stream`."""
        work = self._it.stream(
            name,
            partitions=partitions,
            age_max=age_max,
            bytes_max=bytes_max,
            passive=passive,
            arguments=arguments,
        )
        return Stream(self._thread, self._thread.wait(work))

    def bind(
        self,
        destination: Queue | Exchange | str,
        source: Exchange | str,
        key: str = "",
        **options: Unpack[BindOptions],
    ) -> None:
        """Bind a queue, or an exchange, to an exchange; as `leporid.client.Channel.bind`."""
        work = self._it.bind(
            destination if isinstance(destination, str) else destination.behind,
            source if isinstance(source, str) else source.behind,
            key,
            **options,
        )
        self._thread.wait(work)

    def unbind(
        self,
        destination: Queue | Exchange | str,
        source: Exchange | str,
        key: str = "",
        **options: Unpack[BindOptions],
    ) -> None:
        """Remove the binding that `bind` with the same arguments made."""
        work = self._it.unbind(
            destination if isinstance(destination, str) else destination.behind,
            source if isinstance(source, str) else source.behind,
            key,
            **options,
        )
        self._thread.wait(work)

    def delete_queue(
        self, queue: Queue | str, *, if_unused: bool = False, if_empty: bool = False
    ) -> int:
        """Delete a queue; returns how many messages went with it."""
        name = queue if isinstance(queue, str) else queue.name
        return self._thread.wait(
            self._it.delete_queue(name, if_unused=if_unused, if_empty=if_empty)
        )

    def delete_exchange(self, exchange: Exchange | str, *, if_unused: bool = False) -> None:
        """Delete an exchange."""
        name = exchange if isinstance(exchange, str) else exchange.name
        self._thread.wait(self._it.delete_exchange(name, if_unused=if_unused))

    def prefetch(self, count: int) -> None:
        """Set how many deliveries consumers that are made from now on may have unsettled each."""
        self._thread.wait(self._it.prefetch(count))

    @contextmanager
    def transaction(self) -> Iterator[Channel]:
        """Have what is published and settled in a block take effect together, or not at all.

        Raises:
            LocalProtocolError, ConnectionLost, ExceptionGroup: as
                `leporid.client.Channel.transaction`.
        """
        block = self._it.transaction()
        self._thread.wait(block.__aenter__())
        try:
            yield self
        except BaseException as error:
            self._thread.wait(block.__aexit__(type(error), error, error.__traceback__))
            raise
        self._thread.wait(block.__aexit__(None, None, None))

    def close(self) -> None:
        """Close the channel: consumers end, what is unsettled is requeued; may be called again."""
        if self._thread.is_running:
            self._thread.wait(self._it.close())

    def rpc(self) -> Rpc:
        """Make calls over this channel, and servers of them. A channel can have one that calls."""
        return Rpc(self._thread, self._thread.call(self._it.rpc))


class Rpc:
    """Calls over one channel, and servers of them; `channel.rpc()` makes it."""

    def __init__(self, thread: LoopThread, rpc: AsyncRpc) -> None:
        self._thread = thread
        self._it = rpc

    def __repr__(self) -> str:
        return f"<Blocking {self._it!r}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def call(
        self,
        target: Exchange | Queue,
        body: Body,
        key: str = "",
        *,
        timeout_s: float = TIMEOUT_S,
        headers: Headers | None = None,
        **properties: Any,
    ) -> Delivery:
        """Publish a request and return its reply; as `leporid.client.Rpc.call`."""
        work = self._it.call(
            target.behind, body, key, timeout_s=timeout_s, headers=headers, **properties
        )
        return Delivery(self._thread, self._thread.wait(work))

    @contextmanager
    def serve(
        self,
        queue: Queue,
        handler: Callable[[Delivery], bytes | Message],
        *,
        concurrency: int = CONCURRENCY,
    ) -> Iterator[None]:
        """Answer the requests of a queue as long as a block lasts.

        Args:
            queue: where requests come.
            handler: is called with each in a thread, and returns the body of the reply, or a
                Message. It must not settle the request.
            concurrency: how many requests are handled at a time.
        """
        handlers = ThreadPoolExecutor(concurrency, "rpc handler") if concurrency > 0 else None

        async def handle(request: AsyncDelivery) -> bytes | Message:
            delivery = Delivery(self._thread, request)
            return await asyncio.get_running_loop().run_in_executor(handlers, handler, delivery)

        async def begin() -> Serving:
            serving = self._it.serve(queue.behind, handle, concurrency=concurrency)
            return await serving.__aenter__()

        serving = self._thread.wait(begin())
        try:
            yield
        finally:
            running = self._thread.is_running
            if running:
                self._thread.wait(serving.__aexit__(None, None, None))
            if handlers is not None:
                # All are done then; of a connection that was closed meanwhile, one may not be.
                handlers.shutdown(wait=running)

    def close(self) -> None:
        """Wait for no replies any more; it may be called again."""
        if self._thread.is_running:
            self._thread.wait(self._it.close())


class Scheduler:
    """Schedules messages over one connection; as `leporid.client.Scheduler`, with its arguments."""

    def __init__(
        self,
        connection: Connection,
        *,
        ladder: Ladder | None = None,
        queue: str = SERIES_QUEUE,
    ) -> None:
        self._thread = connection.thread
        self._it = AsyncScheduler(connection.behind, ladder=ladder, queue=queue)

    def __repr__(self) -> str:
        return f"<Blocking {self._it!r}>"

    def __enter__(self) -> Self:
        """Open it; from now on it keeps series going."""
        self._thread.wait(self._it.__aenter__())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def at(
        self,
        moment: datetime,
        body: Body,
        key: str = "",
        *,
        exchange: Exchange | None = None,
        id: str | None = None,  # noqa: A002 - what it is called everywhere
        **properties: Any,
    ) -> str:
        """Have a message delivered at a moment; returns its id."""
        behind = None if exchange is None else exchange.behind
        work = self._it.at(moment, body, key, exchange=behind, id=id, **properties)
        return self._thread.wait(work)

    def after(
        self,
        delay: timedelta | float,
        body: Body,
        key: str = "",
        *,
        exchange: Exchange | None = None,
        id: str | None = None,  # noqa: A002
        **properties: Any,
    ) -> str:
        """Have a message delivered after a while; returns its id."""
        behind = None if exchange is None else exchange.behind
        work = self._it.after(delay, body, key, exchange=behind, id=id, **properties)
        return self._thread.wait(work)

    def every(
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
        """Have a message delivered again and again; returns the id of the series."""
        behind = None if exchange is None else exchange.behind
        work = self._it.every(
            interval, body, key, exchange=behind, id=id, first=first, **properties
        )
        return self._thread.wait(work)

    def cancel(self, id: str) -> bool:  # noqa: A002
        """Take back what is scheduled under an id; say whether something was."""
        return self._thread.wait(self._it.cancel(id))

    def list(self) -> Sequence[Scheduled]:
        """Return what waits in this virtual host."""
        return self._thread.wait(self._it.list())

    def close(self) -> None:
        """Keep no series going any more; it may be called again."""
        if self._thread.is_running:
            self._thread.wait(self._it.close())
