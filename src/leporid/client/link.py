"""One connection to one broker: log-in, methods and their answers, heartbeats, the end.

Responsible for what is true of a connection until it is lost; it never comes back. It must not know
what was declared on it, nor whether another one will follow. Invariant: when a link is lost,
everybody who waits for an answer on it is told, once, and its transport is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import Any, Final, Protocol, TypeVar, cast

from leporid.amqp.constants import PROTOCOL_HEADER
from leporid.amqp.errors import Fault
from leporid.amqp.methods import (
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionUnblocked,
    Method,
    decode,
)
from leporid.client.codec import ChannelCodec, ConnectionCodec
from leporid.client.delivery import Delivery, Inbox
from leporid.client.errors import (
    ClientError,
    ConnectionLost,
    LocalProtocolError,
    RemoteProtocolError,
    ServerClosed,
    Timeout,
    server_closed,
)
from leporid.client.message import Message
from leporid.client.settings import Address, Settings

_M = TypeVar("_M", bound=Method)
Ids = tuple[int, int]
NOT_ASKED: Final = (0, 0)
_CONSUME: Final = (BasicConsume.CLASS_ID, BasicConsume.METHOD_ID)
ANSWER_CODES_OK: Final = 200
# What may wait to be sent before publishes are held back.
WRITE_BYTES_MAX: Final = 1024 * 1024
# A closing broker that does not answer is left alone after so long, if not sooner.
CLOSE_SECONDS: Final = 5.0
# A link that seems dead may only have been read late, by a program that was busy.
GRACE_SECONDS: Final = 0.5


class Answers:
    """Who waits for which methods, in the order in which they were asked for.

    Answers about consumers are told by the consumer's tag: RabbitMQ's queues send them, and other
    answers of the channel may overtake them.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[tuple[Ids, tuple[type[Method], ...], asyncio.Future[Any]]] = deque()
        self._tagged: dict[tuple[type[Method], str], asyncio.Future[Any]] = {}

    def expect(self, asked: Ids, *kinds: type[Method]) -> asyncio.Future[Any]:
        """Returns a future for the next answer; one that is cancelled still takes its answer.

        Args:
            asked: class and number of the method that is to be answered.
            kinds: what the answer may be.
        """
        future = self._loop.create_future()
        self._waiting.append((asked, kinds, future))
        return future

    def expect_tagged(self, kind: type[Method], consumer_tag: str) -> asyncio.Future[Any]:
        """Returns a future for the answer about a consumer."""
        future = self._tagged[kind, consumer_tag] = self._loop.create_future()
        return future

    def give(self, method: Method, answer: object = None) -> bool:
        """Hands an answer to the first who waits; False: it is not what they wait for."""
        if isinstance(method, BasicConsumeOk | BasicCancelOk):
            tagged = self._tagged.pop((type(method), method.consumer_tag), None)
            if tagged is None:
                return False
            future = tagged
        elif not self._waiting or not isinstance(method, self._waiting[0][1]):
            return False
        else:
            future = self._waiting.popleft()[2]
        if not future.done():
            future.set_result(method if answer is None else answer)
        return True

    def fail(self, error: Exception, bystanders: Exception) -> None:
        """Tells everybody that no answer will come.

        Args:
            error: for who asked for what the broker blames. Answers come in the order of the
                questions, so that is the first who waits for an answer to such a method.
            bystanders: for all others.
        """
        blamed = (error.class_id, error.method_id) if isinstance(error, ServerClosed) else None
        futures = [(asked, future) for asked, _, future in self._waiting]
        futures += [(_CONSUME, future) for future in self._tagged.values()]
        self._waiting.clear()
        self._tagged.clear()
        for asked, future in futures:
            if asked == blamed:
                blamed = None
                told = error
            else:
                told = bystanders
            if not future.done():
                future.set_exception(told)


class Watcher(Protocol):
    """Who is told what happens to a link that is not asked for."""

    def link_lost(self, link: Link, error: Exception) -> None:
        """The link is gone."""

    def link_blocked(self, reason: str | None) -> None:
        """The broker takes no publishes for that reason; None: it takes them again."""

    def link_writable(self) -> None:
        """Output that was held back has left."""


class Link(asyncio.BufferedProtocol):
    """One connection: a protocol of asyncio.

    Args:
        settings: limits and time-outs.
        address: the broker's, for messages.
        watcher: told of the end.
    """

    def __init__(self, settings: Settings, address: Address, watcher: Watcher) -> None:
        self.settings = settings
        self.address = address
        self.loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self.codec: ConnectionCodec = ConnectionCodec(
            self, self.loop, self._flush, settings.frame_bytes_max, settings.message_bytes_max
        )
        self.error: Exception | None = None
        self.is_blocked: bool = False
        self.closing: bool = False
        self.channels: dict[int, ChannelLink] = {}
        self.channels_max: int = settings.channels_max
        self._watcher = watcher
        self._transport: asyncio.Transport | None = None
        self._answers = Answers(self.loop)
        self._ended = self.loop.create_future()
        self._heartbeat: asyncio.TimerHandle | None = None
        self._heartbeat_s = 0.0
        self._seen = (0, 0.0)
        self._sent = 0
        self._next_number = 1
        self._free_numbers: list[int] = []

    def __repr__(self) -> str:
        state = "open" if self.error is None else f"lost: {self.error}"
        return f"<Link to {self.address}, {len(self.channels)} channels, {state}>"

    # ------------------------------------------------------------------ asyncio's protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The transport is there."""
        # uvloop's transports have its methods, but not its class.
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=WRITE_BYTES_MAX)
        self.codec.write_octets(PROTOCOL_HEADER)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where bytes are put that came in."""
        return self.codec.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        """So many bytes were put there."""
        if self.error is not None:
            return
        try:
            self.codec.buffer_updated(nbytes)
        except (RemoteProtocolError, Fault) as error:
            self.lose(
                error
                if isinstance(error, RemoteProtocolError)
                else RemoteProtocolError(f"{self.address} sent a malformed method: {error}")
            )

    def data_received(self, data: bytes) -> None:
        """Takes bytes as transports give them that have no buffered protocols."""
        view = memoryview(data)
        while view and self.error is None:
            buffer = self.codec.get_buffer()
            part = view[: len(buffer)]
            buffer[: len(part)] = part
            buffer.release()
            view = view[len(part) :]
            self.buffer_updated(len(part))

    def eof_received(self) -> bool:
        """The broker has closed its side; so is ours."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The transport is gone."""
        reason = f": {exc}" if exc is not None else ""
        self.lose(ConnectionLost(f"the connection to {self.address} was closed{reason}"))
        if not self._ended.done():
            self._ended.set_result(None)

    def pause_writing(self) -> None:
        """The socket takes less than is written."""
        self.codec.pause(True)

    def resume_writing(self) -> None:
        """It takes more again."""
        self.codec.pause(False)
        self._watcher.link_writable()

    def _flush(self) -> None:
        data = self.codec.output_bytes()
        if data and self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    # ------------------------------------------------------------------ methods

    def on_method(self, payload: bytes) -> None:
        """A method on channel 0."""
        method = decode(payload)
        match method:
            case ConnectionClose():
                self.codec.write(ConnectionCloseOk().encode())
                self._flush()
                self.lose(
                    server_closed(
                        method.reply_code,
                        method.reply_text,
                        method.class_id,
                        method.method_id,
                        connection=True,
                    )
                )
            case ConnectionBlocked():
                self.is_blocked = True
                self._watcher.link_blocked(method.reason)
            case ConnectionUnblocked():
                self.is_blocked = False
                self._watcher.link_blocked(None)
            case _:
                if not self._answers.give(method):
                    raise RemoteProtocolError(
                        f"{self.address} sent {method.NAME}, which nobody waits for"
                    )

    async def receive(self, kind: type[_M], seconds: float) -> _M:
        """Waits for a method on channel 0 that was not asked for."""
        return await self._wait(self._answers.expect(NOT_ASKED, kind), kind.NAME, seconds)

    async def call(self, method: Method, kind: type[_M], seconds: float | None = None) -> _M:
        """Sends a method on channel 0 and waits for its answer.

        Raises:
            Timeout: it did not come.
            ServerClosed: the broker closed the connection instead.
            ConnectionLost: the connection is gone.
        """
        self.check_open()
        future = self._answers.expect(ids_of(method), kind)
        self.send(method)
        return await self._wait(
            future, f"{kind.NAME} after {method.NAME}", seconds or self.settings.answer_timeout_s
        )

    def send(self, method: Method) -> None:
        """Writes a method on channel 0."""
        self.codec.write(encoded(method))

    async def _wait(self, future: asyncio.Future[_M], what: str, seconds: float) -> _M:
        return await answer_of(future, f"{what} from {self.address}", seconds)

    def check_open(self) -> None:
        """Raises why the link is gone, if it is."""
        if self.error is not None:
            raise self.error

    # ------------------------------------------------------------------ heartbeats

    def start_heartbeats(self, seconds: int) -> None:
        """Sends one when nothing else was sent for half of that time, and expects as much."""
        self._heartbeat_s = float(seconds)
        if seconds:
            self._seen = (self.codec.received, self.loop.time())
            self._heartbeat = self.loop.call_later(seconds / 2, self._beat)

    def _beat(self) -> None:
        now = self.loop.time()
        if self._sent == self.codec.sent:
            self.codec.write_heartbeat()
        received, since = self._seen
        if self.codec.received != received:
            self._seen = (self.codec.received, now)
        elif now - since > 2 * self._heartbeat_s + GRACE_SECONDS:
            self.lose(
                ConnectionLost(
                    f"{self.address} sent nothing for {now - since:.1f} s, "
                    f"with a heartbeat of {self._heartbeat_s:.0f} s"
                )
            )
            return
        elif now - since > 2 * self._heartbeat_s:
            # What came meanwhile may not have been read yet.
            self._heartbeat = self.loop.call_later(GRACE_SECONDS, self._beat)
            return
        self.loop.call_soon(self._note_sent)
        self._heartbeat = self.loop.call_later(self._heartbeat_s / 2, self._beat)

    def _note_sent(self) -> None:
        self._sent = self.codec.sent

    # ------------------------------------------------------------------ the end

    def lose(self, error: Exception) -> None:
        """Gives the connection up; may be called again, without effect."""
        if self.error is not None:
            return
        self.error = error
        if self._heartbeat is not None:
            self._heartbeat.cancel()
        self._answers.fail(error, error)
        for channel in list(self.channels.values()):
            channel.lose(error)
        self.channels.clear()
        if self._transport is not None:
            if isinstance(error, ServerClosed):
                self._transport.close()
            else:
                self._transport.abort()
        elif not self._ended.done():
            self._ended.set_result(None)
        self._watcher.link_lost(self, error)

    async def close(self, reason: str = "") -> None:
        """Says goodbye and waits until the transport is gone, a few seconds at most."""
        self.closing = True
        seconds = min(CLOSE_SECONDS, self.settings.answer_timeout_s)
        if self.error is None:
            # Whatever goes wrong now, the connection ends.
            with contextlib.suppress(ClientError, OSError):
                await self.call(
                    ConnectionClose(ANSWER_CODES_OK, reason), ConnectionCloseOk, seconds
                )
        self.lose(LocalProtocolError("the connection is closed: close() was called"))
        if self._transport is not None and not self._ended.done():
            self._transport.close()
            await asyncio.wait([self._ended], timeout=seconds)
            if not self._ended.done():
                self._transport.abort()
                await asyncio.wait([self._ended], timeout=seconds)

    async def ended(self) -> None:
        """Waits until the transport is gone."""
        if self._transport is not None:
            await asyncio.wait([self._ended])

    # ------------------------------------------------------------------ channels

    async def open_channel(self, user: ChannelUser | None = None) -> ChannelLink:
        """Opens a channel.

        Args:
            user: told what happens to it; None: nobody.

        Raises:
            LocalProtocolError: there are as many as the broker allows.
        """
        self.check_open()
        if self._free_numbers:
            number = self._free_numbers.pop()
        elif self._next_number <= self.channels_max:
            number = self._next_number
            self._next_number += 1
        else:
            raise LocalProtocolError(
                f"{self.channels_max} channels are open, the most that {self.address} allows on a "
                "connection: close some, or open another connection"
            )
        channel = ChannelLink(self, number, user)
        self.channels[number] = channel
        await channel.call(ChannelOpen(), ChannelOpenOk)
        return channel

    def free(self, channel: ChannelLink) -> None:
        """A channel is closed on both sides: its number may be used again."""
        if self.channels.pop(channel.number, None) is not None:
            channel.codec.free()
            self._free_numbers.append(channel.number)


class ChannelUser(Protocol):
    """Who is told what happens to a channel that is not asked for."""

    def channel_lost(self, channel: ChannelLink, error: Exception) -> None:
        """The channel is closed, by the broker or with its connection."""

    def channel_flow(self, active: bool) -> None:
        """The broker does (not) want publishes."""

    def consumer_cancelled(self, consumer_tag: str) -> None:
        """The broker ended a consumer."""

    def message_returned(self, message: Message, exchange: str, code: int, text: str) -> None:
        """A message came back that waits for no confirm."""

    def ack_repeated(self, delivery: Delivery) -> None:
        """A message came again whose ack was lost."""

    def settled_late(self, error: Exception) -> None:
        """A delivery of a connection that is lost, for that reason, is settled."""

    async def publish_reply(self, key: str, body: bytes, properties: dict[str, Any]) -> None:
        """Publishes a reply."""


class ChannelLink:
    """A channel on one connection."""

    def __init__(self, link: Link, number: int, user: ChannelUser | None) -> None:
        self.link = link
        self.number = number
        self.codec: ChannelCodec = ChannelCodec(link.codec, number, self)
        self.error: Exception | None = None
        self._user = user
        self._closing = False
        self._answers = Answers(link.loop)
        # Of consumers that are being cancelled, whether deliveries still on their way need no ack.
        self._cancelled: dict[str, bool] = {}
        # Of each basic.get that is not answered, whether what is got needs no ack.
        self._gets: deque[bool] = deque()

    def __repr__(self) -> str:
        state = "open" if self.error is None else f"closed: {self.error}"
        return f"<ChannelLink {self.number}, {state}>"

    def check_open(self) -> None:
        """Raises why the channel is gone, if it is."""
        if self.error is not None:
            raise self.error

    def send(self, method: Method) -> None:
        """Writes a method that has no answer."""
        self.check_open()
        self.codec.write(encoded(method))

    async def call(self, method: Method, *kinds: type[Method], seconds: float | None = None) -> Any:
        """Sends a method and waits for its answer.

        Returns:
            The answer; for basic.get the delivery and how many messages are left.

        Raises:
            LocalProtocolError: it has no encoding; nothing was sent.
            Timeout: no answer came. Its place is kept, so that the next answer is not taken for it.
            ServerClosed: the broker closed the channel or the connection instead.
            ConnectionLost: the connection is gone.
        """
        self.check_open()
        payload = encoded(method)
        if isinstance(method, BasicConsume):
            future = self._answers.expect_tagged(BasicConsumeOk, method.consumer_tag)
        else:
            future = self._answers.expect(ids_of(method), *kinds)
        if isinstance(method, BasicGet):
            self._gets.append(method.no_ack)
        self.codec.write(payload)
        return await answer_of(
            future,
            f"{kinds[0].NAME} after {method.NAME} on channel {self.number} from "
            f"{self.link.address}",
            seconds or self.link.settings.answer_timeout_s,
        )

    def cancel(self, inbox: Inbox, *, requeue: bool = True) -> asyncio.Future[Any]:
        """Has a consumer cancelled; what nobody took, and what still comes, is given back.

        Returns:
            A future for the answer, which nobody needs to wait for.
        """
        self.codec.detach(inbox, requeue)
        self._cancelled[inbox.consumer_tag] = inbox.no_ack
        future = self._answers.expect_tagged(BasicCancelOk, inbox.consumer_tag)
        future.add_done_callback(_ignore)
        self.codec.write(BasicCancel(inbox.consumer_tag).encode())
        return future

    # ------------------------------------------------------------------ what the codec calls

    def on_method(self, payload: bytes) -> None:
        """A method that is no delivery and no confirm."""
        method = decode(payload)
        match method:
            case ChannelClose():
                self.codec.write(ChannelCloseOk().encode())
                if not self._closing:
                    self.link.free(self)
                self.lose(
                    server_closed(
                        method.reply_code,
                        method.reply_text,
                        method.class_id,
                        method.method_id,
                        connection=False,
                    )
                )
            case ChannelCloseOk() if self.error is not None:
                self.link.free(self)
            case _ if self.error is not None:
                pass  # it crossed our close
            case BasicCancel():
                if not method.no_wait:
                    self.codec.write(BasicCancelOk(method.consumer_tag).encode())
                if self._user is not None:
                    self._user.consumer_cancelled(method.consumer_tag)
            case ChannelFlow():
                self.codec.write(ChannelFlowOk(method.active).encode())
                if self._user is not None:
                    self._user.channel_flow(method.active)
            case _:
                self._on_answer(method)

    def _on_answer(self, method: Method) -> None:
        if isinstance(method, BasicCancelOk):
            self._cancelled.pop(method.consumer_tag, None)
        if not self._answers.give(method):
            raise RemoteProtocolError(
                f"{self.link.address} sent {method.NAME} on channel {self.number}, "
                "which nobody waits for"
            )
        if isinstance(method, BasicGetEmpty):
            self._gets.popleft()

    def on_got(self, delivery: Delivery, ready: int) -> None:
        """The answer to basic.get."""
        if not self._answers.give(_GOT, (delivery, ready)):
            raise RemoteProtocolError(
                f"{self.link.address} sent basic.get-ok on channel {self.number}, "
                "which nobody waits for"
            )
        if self._gets.popleft():
            self.codec.no_ack(delivery)

    def on_return(self, message: Message, exchange: str, code: int, text: str) -> None:
        """A message came back that waits for no confirm."""
        if self._user is not None:
            self._user.message_returned(message, exchange, code, text)

    def on_repeated(self, delivery: Delivery) -> None:
        """A message came again whose ack was lost."""
        if self._user is not None:
            self._user.ack_repeated(delivery)

    def on_late_settle(self) -> None:
        """A delivery is settled after its connection was lost."""
        if self._user is not None and self.error is not None:
            self._user.settled_late(self.error)

    def on_unwanted(self, delivery_tag: int, consumer_tag: str) -> None:
        """A delivery for a consumer that is being cancelled, or that there is not."""
        if self.error is not None or self._closing:
            return
        if consumer_tag not in self._cancelled:
            raise RemoteProtocolError(
                f"{self.link.address} delivered to consumer {consumer_tag!r} on channel "
                f"{self.number}, which there is not"
            )
        if not self._cancelled[consumer_tag]:
            self.codec.requeue(delivery_tag)

    async def publish_reply(self, key: str, body: bytes, properties: dict[str, Any]) -> None:
        """Publishes a reply to a delivery of this channel."""
        assert self._user is not None
        await self._user.publish_reply(key, body, properties)

    # ------------------------------------------------------------------ the end

    def lose(self, error: Exception) -> None:
        """The channel is gone; everybody who waits is told."""
        if self.error is not None:
            return
        self.error = error
        self.codec.end(error)
        self._answers.fail(error, self._interruption(error))
        if self._user is not None:
            self._user.channel_lost(self, error)

    def _interruption(self, error: Exception) -> Exception:
        """What those are told whose methods the broker does not blame: they may ask again."""
        if not self.link.settings.robust or not isinstance(error, ServerClosed):
            return error
        if not error.connection and not error.method:
            return error
        return ConnectionLost(f"interrupted by another call: {error}")

    async def close(self) -> None:
        """Closes the channel; waits for the broker's answer."""
        if self.error is not None:
            return
        closed = LocalProtocolError(f"channel {self.number} is closed: close() was called")
        self._closing = True
        answer = self._answers.expect(ids_of(_CLOSE), ChannelCloseOk)
        self.codec.write(_CLOSE.encode())
        # Nothing may be settled or requeued behind the close: the broker knows no channel then.
        self.codec.end(closed)
        try:
            await answer_of(
                answer,
                f"channel.close-ok on channel {self.number} from {self.link.address}",
                self.link.settings.answer_timeout_s,
            )
            self.link.free(self)
        except (ServerClosed, ConnectionLost, Timeout):
            pass
        finally:
            self.lose(closed)


def _ignore(future: asyncio.Future[Any]) -> None:
    """Looks at an exception, so that asyncio does not say that nobody has."""
    if not future.cancelled():
        future.exception()


_GOT: Final = BasicGetOk()
_CLOSE: Final = ChannelClose(ANSWER_CODES_OK)
GET_ANSWERS: Final = (BasicGetOk, BasicGetEmpty)


def ids_of(method: Method) -> Ids:
    """Returns the numbers of a method's class and of itself."""
    return method.CLASS_ID, method.METHOD_ID


def encoded(method: Method) -> bytes:
    """Encodes a method.

    Raises:
        LocalProtocolError: a field has no encoding.
    """
    try:
        return method.encode()
    except (ValueError, AttributeError, TypeError) as error:
        raise LocalProtocolError(f"{method.NAME} cannot be encoded: {error}") from None


_T = TypeVar("_T")


async def answer_of(future: asyncio.Future[_T], what: str, seconds: float) -> _T:
    """Waits for an answer.

    Raises:
        Timeout: it did not come; the text says what was waited for.
    """
    try:
        async with asyncio.timeout(seconds):
            return await future
    except TimeoutError as error:
        if isinstance(error, ClientError):
            raise
        raise Timeout(f"no {what} within {seconds:g} s") from None
