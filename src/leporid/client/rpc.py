"""Requests and replies: calls that wait for an answer, and handlers that give one.

Replies come by direct reply-to (RabbitMQ's `amq.rabbitmq.reply-to`): no queue is declared for them,
and the broker hands a reply straight to the channel that asked. Responsible for matching replies to
calls, for time-outs, and for telling a caller that a handler failed. It must not know sockets or
frames. Invariants: a call ends, with a reply or an error, whatever happens to the connection; a
request is acked once its reply is on its way, so a server that dies leaves it to another one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

from leporid.client.consumer import Consumer
from leporid.client.errors import ClientError, ConnectionLost, LocalProtocolError, Timeout, fresh
from leporid.client.message import Body, Headers, Message
from leporid.client.queue import Queue

if TYPE_CHECKING:
    from leporid.client.channel import Channel
    from leporid.client.delivery import Delivery
    from leporid.client.exchange import Exchange

logger: Final[logging.Logger] = logging.getLogger("leporid.client")

REPLY_TO: Final = "amq.rabbitmq.reply-to"
ERROR: Final = "x-rpc-error"
"""The header of a reply that is none: why there is none."""
FAILED: Final = "the handler failed"
TIMEOUT_S: Final = 30.0
CONCURRENCY: Final = 32

Handler: TypeAlias = Callable[["Delivery"], Awaitable["bytes | Message"]]


class RpcError(ClientError):
    """A call was answered by an error.

    Handlers raise it with a text for their callers. Of every other exception a caller learns only
    that the handler failed: its text may hold what is no caller's business, and stands in the
    server's log.
    """


class Rpc:
    """Calls over one channel, and servers of them.

    Use it as a context manager, or close it. A channel can have one `Rpc` that calls.

    Args:
        channel: requests are published on it, and replies come to it.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._calls: dict[str, asyncio.Future[Delivery]] = {}
        self._prefix = uuid.uuid4().hex
        self._count = 0
        self._consumer: Consumer | None = None
        self._reader: asyncio.Task[None] | None = None
        self._opening = asyncio.Lock()
        self._closed = False

    def __repr__(self) -> str:
        return f"<Rpc with {len(self._calls)} calls on {self._channel!r}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def call(
        self,
        target: Exchange | Queue,
        body: Body,
        key: str = "",
        *,
        timeout_s: float = TIMEOUT_S,
        headers: Headers | None = None,
        **properties: Any,
    ) -> Delivery:
        """Publish a request and return its reply.

        A request that nobody has taken when the time is over expires in its queue.

        Args:
            target: a queue, or an exchange.
            body: the request's.
            key: the routing key, for an exchange.
            timeout_s: seconds from now until the reply.
            headers: the request's.
            properties: others, as of `Exchange.publish`.

        Raises:
            RpcError: the handler answered by an error.
            Returned: no queue takes the request.
            Timeout: there was no reply in time.
            ConnectionLost: the connection was lost meanwhile, and a reply with it; the request may
                have been handled.
        """
        if not timeout_s > 0:
            raise LocalProtocolError(f"timeout_s must be more than 0 seconds, not {timeout_s!r}")
        exchange, key = self._place(target, key)
        self._count += 1
        correlation_id = f"{self._prefix}-{self._count}"
        try:
            async with asyncio.timeout(timeout_s):
                await self._listen()
                reply = asyncio.get_running_loop().create_future()
                self._calls[correlation_id] = reply
                await exchange.publish(
                    body,
                    key,
                    headers=headers,
                    correlation_id=correlation_id,
                    reply_to=REPLY_TO,
                    expires=timeout_s,
                    **properties,
                )
                return checked(await reply)
        except TimeoutError as error:
            if isinstance(error, Timeout):
                raise
            place = f"exchange {exchange.name!r}" if exchange.name else "the default exchange"
            raise Timeout(
                f"no reply within {timeout_s:g} s to a request to {place} with key {key!r}"
            ) from None
        finally:
            call = self._calls.pop(correlation_id, None)
            if call is not None and call.done() and not call.cancelled():
                call.exception()  # it may have failed before it was awaited

    def _place(self, target: Exchange | Queue, key: str) -> tuple[Exchange, str]:
        if not isinstance(target, Queue):
            return target, key
        if key:
            raise LocalProtocolError("a queue has no routing keys: leave `key` out")
        return self._channel.default_exchange, target.name

    async def _listen(self) -> None:
        """Have replies come to this channel."""
        async with self._opening:
            self._check_open()
            if self._reader is None or self._reader.done():
                # It is no queue: there is nothing to declare. As many come as calls wait.
                replies = Queue(self._channel, REPLY_TO, None)
                consumer = replies.consume(no_ack=True, prefetch=0)
                consumer.on_lost = self._lost
                await consumer.begin()
                try:
                    self._check_open()
                except LocalProtocolError:
                    await consumer.cancel()
                    raise
                self._consumer = consumer
                self._reader = asyncio.create_task(self._read(consumer), name="rpc replies")

    def _check_open(self) -> None:
        if self._closed:
            raise LocalProtocolError("these calls are closed: make another Rpc")

    async def _read(self, consumer: Consumer) -> None:
        """Give replies to the calls that wait for them; others are too late."""
        try:
            async for delivery in consumer:
                call = self._calls.get(delivery.correlation_id or "")
                if call is not None and not call.done():
                    call.set_result(delivery)
        except ClientError as error:
            self._fail(error)
        else:
            self._fail(ConnectionLost("closed before the reply came"))

    def _lost(self, error: Exception) -> None:
        """Tell calls that replies on their way are lost: they come to the channel that asked."""
        self._fail(
            ConnectionLost(
                "the channel was lost before the reply came; the request may have been handled "
                f"({error})"
            )
        )

    def _fail(self, error: ClientError) -> None:
        for call in self._calls.values():
            if not call.done():
                call.set_exception(fresh(error))

    def serve(self, queue: Queue, handler: Handler, *, concurrency: int = CONCURRENCY) -> Serving:
        """Answer the requests of a queue: `async with rpc.serve(queue, handler): …`.

        Args:
            queue: where requests come.
            handler: is awaited with each, and returns the body of the reply, or a Message, of which
                key, correlation id and persistence are set here.
            concurrency: how many requests are handled at a time.

        Raises:
            LocalProtocolError: the concurrency is no positive number.
        """
        if concurrency < 1:
            raise LocalProtocolError(f"concurrency must be 1 or more, not {concurrency!r}")
        return Serving(self._channel, queue, handler, concurrency)

    async def close(self) -> None:
        """End the consumer of replies; calls that wait fail. It may be called again."""
        self._closed = True
        self._fail(ConnectionLost("closed before the reply came"))
        consumer, reader = self._consumer, self._reader
        self._consumer = self._reader = None
        if reader is not None:
            reader.cancel()
            await asyncio.wait([reader])
        if consumer is not None:
            await consumer.cancel()


def checked(reply: Delivery) -> Delivery:
    """Return a reply; raises RpcError if it says that there is none."""
    error = reply.headers.get(ERROR)
    if error is not None:
        raise RpcError(error if isinstance(error, str) else FAILED)
    return reply


class Serving:
    """A server for as long as a block; made by `Rpc.serve`.

    At the end it takes no more requests, and finishes those that it has.
    """

    def __init__(self, channel: Channel, queue: Queue, handler: Handler, concurrency: int) -> None:
        self._channel = channel
        self._queue = queue
        self._handler = handler
        self._concurrency = concurrency
        self._consumer: Consumer | None = None
        self._task: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<Serving {self._queue.name!r}>"

    async def __aenter__(self) -> Self:
        self._consumer = self._queue.consume(prefetch=self._concurrency)
        await self._consumer.begin()
        self._task = asyncio.create_task(self._serve(self._consumer), name="rpc server")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._consumer is not None
        assert self._task is not None
        await self._consumer.cancel()
        await self._task

    async def _serve(self, consumer: Consumer) -> None:
        """Handle requests until there are no more, then wait for those under way."""
        async with asyncio.TaskGroup() as tasks:
            try:
                async for request in consumer:
                    tasks.create_task(self._answer(request))
            except ClientError as error:
                # It is raised by the end of the block; until then this is all that says so.
                logger.warning("queue %r is not served any more: %s", self._queue.name, error)
                ended: ClientError | None = error
            else:
                ended = None
        if ended is not None:
            raise fresh(ended)

    async def _answer(self, request: Delivery) -> None:
        reply = await self._reply_to(request)
        try:
            if request.reply_to:
                # Of a caller that is gone nobody needs to be told.
                await self._channel.default_exchange.publish_many([reply], mandatory=False)
            await request.ack()
        except (ClientError, ExceptionGroup) as error:
            logger.warning("a reply could not be sent: %s", error)
            # The request comes again, to this server or another one.
            with contextlib.suppress(ClientError):
                await request.nack(requeue=True)

    async def _reply_to(self, request: Delivery) -> Message:
        place: dict[str, Any] = {
            "key": request.reply_to,
            "correlation_id": request.correlation_id,
            "persistent": False,
        }
        try:
            found = await self._handler(request)
            reply = found if isinstance(found, Message) else Message(found)
            reply = replace(reply, **place)
            # What has no encoding is the handler's mistake, too.
            reply.encoded()
        except RpcError as error:
            return Message(b"", headers={ERROR: str(error)}, **place)
        except Exception:
            logger.exception("the handler of requests in queue %r failed", self._queue.name)
            return Message(b"", headers={ERROR: FAILED}, **place)
        return reply
