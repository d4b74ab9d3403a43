"""One connection to one broker: log-in, methods and their answers, heartbeats, the end.

Responsible for what is true of a connection until it is lost; it never comes back. It must not know
what was declared on it, nor whether another one will follow. Invariant: when a link is lost,
everybody who waits for an answer on it is told, once, and its transport is closed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Coroutine
from typing import Any, Final, Protocol, TypeVar, cast

from leporid.amqp.constants import PROTOCOL_HEADER
from leporid.amqp.errors import Fault
from leporid.amqp.methods import (
    ChannelOpen,
    ChannelOpenOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionUnblocked,
    Method,
    decode,
)
from leporid.client.answers import NOT_ASKED, Answers, answer_of, encoded, ids_of
from leporid.client.channel_link import ANSWER_CODES_OK, ChannelLink, ChannelUser
from leporid.client.codec import ConnectionCodec
from leporid.client.errors import (
    ClientError,
    ConnectionLost,
    LocalProtocolError,
    RemoteProtocolError,
    ServerClosed,
    fresh,
    server_closed,
)
from leporid.client.settings import Address, Settings

_M = TypeVar("_M", bound=Method)
# What may wait to be sent before publishes are held back.
WRITE_BYTES_MAX: Final = 1024 * 1024
# A closing broker that does not answer is left alone after so long, if not sooner.
CLOSE_SECONDS: Final = 5.0
# A link that seems dead may only have been read late, by a program that was busy.
GRACE_SECONDS: Final = 0.5


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
        self._free_numbers: deque[int] = deque()

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
        what = f"{kind.NAME} after {method.NAME}"
        try:
            answer: _M = await self._wait(future, what, seconds or self.settings.answer_timeout_s)
        finally:
            # The traceback of its error refers to this frame.
            del future
        return answer

    def send(self, method: Method) -> None:
        """Writes a method on channel 0."""
        self.codec.write(encoded(method))

    def _wait(
        self, future: asyncio.Future[_M], what: str, seconds: float
    ) -> Coroutine[Any, Any, _M]:
        return answer_of(future, f"{what} from {self.address}", seconds)

    def check_open(self) -> None:
        """Raises why the link is gone, if it is."""
        if self.error is not None:
            raise fresh(self.error)

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
        try:
            if self.error is None:
                # Whatever goes wrong now, the connection ends.
                with contextlib.suppress(ClientError, OSError):
                    await self.call(
                        ConnectionClose(ANSWER_CODES_OK, reason), ConnectionCloseOk, seconds
                    )
        finally:
            # Also if nobody waits for it any more.
            self.lose(LocalProtocolError("the connection is closed: close() was called"))
        await self.ended()

    async def ended(self) -> None:
        """Waits until the transport is gone, some seconds for what it has still to send."""
        if self._transport is None:
            return
        try:
            await asyncio.wait([self._ended], timeout=CLOSE_SECONDS)
        finally:
            if not self._ended.done():
                self._transport.abort()
        await asyncio.wait([self._ended], timeout=CLOSE_SECONDS)

    # ------------------------------------------------------------------ channels

    async def open_channel(self, user: ChannelUser | None = None) -> ChannelLink:
        """Opens a channel.

        Args:
            user: told what happens to it; None: nobody.

        Raises:
            LocalProtocolError: there are as many as the broker allows.
        """
        self.check_open()
        # A number is used again as late as possible: what a broker still sends for the channel that
        # had it is not to be taken for the new one's.
        if self._next_number <= self.channels_max:
            number = self._next_number
            self._next_number += 1
        elif self._free_numbers:
            number = self._free_numbers.popleft()
        else:
            raise LocalProtocolError(
                f"{self.channels_max} channels are open, the most that {self.address} allows on a "
                "connection: close some, or open another connection"
            )
        channel = ChannelLink(self, number, user)
        self.channels[number] = channel
        try:
            await channel.call(ChannelOpen(), ChannelOpenOk)
        except BaseException:
            channel.abandon()
            raise
        return channel

    def free(self, channel: ChannelLink) -> None:
        """A channel is closed on both sides: its number may be used again."""
        if self.channels.pop(channel.number, None) is not None:
            channel.codec.free()
            self._free_numbers.append(channel.number)
