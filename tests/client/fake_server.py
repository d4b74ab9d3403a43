"""A server that says what a test has it say: for what no real broker does."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Awaitable, Callable

from leporid.amqp.constants import PROTOCOL_HEADER
from leporid.amqp.frames import frame, method_frame
from leporid.amqp.methods import (
    ChannelOpenOk,
    ConfirmSelectOk,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionTune,
    Method,
    decode,
)
from leporid.amqp.properties import Properties, encode_properties


class Peer:
    """The server's end of a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def receive(self) -> tuple[int, int, bytes]:
        """The next frame that is no heartbeat: its kind, channel and payload."""
        while True:
            kind, channel, size = struct.unpack(">BHI", await self.reader.readexactly(7))
            payload = (await self.reader.readexactly(size + 1))[:-1]
            if kind != 8:
                return kind, channel, payload

    async def method(self) -> Method:
        """The next method."""
        while True:
            kind, _, payload = await self.receive()
            if kind == 1:
                return decode(payload)

    def send(self, method: Method, channel: int = 1) -> None:
        """Sends a method."""
        self.writer.write(method_frame(channel, method))

    def content(self, body: bytes, channel: int = 1, properties: Properties | None = None) -> None:
        """Sends a header and a body."""
        encoded = encode_properties(properties or Properties())
        head = struct.pack(">HHQ", 60, 0, len(body))
        self.writer.write(frame(2, channel, head + encoded))
        if body:
            self.writer.write(frame(3, channel, body))

    async def log_in(self, tune: ConnectionTune | None = None) -> None:
        """From the protocol header to connection.open-ok."""
        assert await self.reader.readexactly(8) == PROTOCOL_HEADER
        self.send(ConnectionStart(server_properties={"product": "Fake", "version": "1"}), 0)
        await self.method()
        self.send(tune or ConnectionTune(10, 8192, 0), 0)
        await self.method()
        await self.method()
        self.send(ConnectionOpenOk(), 0)

    async def open_channel(self) -> None:
        """Answers channel.open and confirm.select."""
        _, channel, _ = await self.receive()
        self.send(ChannelOpenOk(), channel)
        await self.method()
        self.send(ConfirmSelectOk(), channel)


@contextlib.asynccontextmanager
async def serving(script: Callable[[Peer], Awaitable[None]]) -> AsyncIterator[str]:
    """Runs a script for each connection; gives the URL."""
    peers: list[asyncio.StreamWriter] = []
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peers.append(writer)
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await script(Peer(reader, writer))
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            tasks.discard(task)
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"amqp://guest:guest@127.0.0.1:{port}/"
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        for writer in peers:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
        await server.wait_closed()
