"""A TCP proxy between a client and a broker that does harm to a connection at a chosen place.

It cuts a connection between two frames, truncates it within one (`share`), delays what follows
(`stalled`), or has it overtaken by the next connection (`late`). It knows frames, and nothing of
what is in them; with TLS, the client's side is encrypted here. Places are counted from the first
byte of a connection: the protocol header is the first frame of the way up. A `Cut` says after how
many frames of a direction, and how many bytes of the next one, a connection ends. Connections
without a cut are left alone, and their frames counted, so that a test can go through all places
there are.

What was forwarded before a cut has arrived, or will: the socket is closed in order unless the cut
says `reset`. With `late`, the broker gets what the client had sent up to the cut only when the next
connection has been opened, as a network does that loses packets of one connection only.
"""

from __future__ import annotations

import asyncio
import math
import socket
import ssl
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Self

HEADER_BYTES = 8
HEAD = struct.Struct(">BHI")
READ_BYTES = 65536
PIECE_S = 0.0005
# Longer than the other side and other frames take.
STALL_S = 0.01
# tune-ok, open and channel.open: the next connection is in use.
OPENED_FRAMES = 5

Direction = Literal["up", "down"]


@dataclass(frozen=True)
class Cut:
    """Where a connection ends.

    Attributes:
        direction: "up" is from the client to the broker.
        frames: after how many whole frames.
        share: of the next frame's bytes that pass as well; 0: none, the cut is between two frames.
        reset: whether the client sees a reset, and not an end.
        late: whether the broker gets the bytes of that last frame after the next connection.
        stalled: whether it goes on there, after a while, instead of ending.
    """

    direction: Direction
    frames: int
    share: float = 0.0
    reset: bool = False
    late: bool = False
    stalled: bool = False

    def __str__(self) -> str:
        if self.stalled:
            return f"{self.direction}-{self.frames}-stalled"
        how = ("reset" if self.reset else "end") + ("-late" if self.late else "")
        return f"{self.direction}-{self.frames}+{self.share}-{how}"


class Frames:
    """Cuts a stream of bytes into frames."""

    def __init__(self, *, header: bool) -> None:
        self.rest = bytearray()
        self._header = header

    def split(self, data: bytes) -> list[bytes]:
        """Take more bytes; return the frames that are whole."""
        self.rest += data
        found = []
        while size := self._whole():
            found.append(bytes(self.rest[:size]))
            del self.rest[:size]
        return found

    def _whole(self) -> int:
        """How long the first frame is; 0: it is not whole."""
        if self._header:
            size = HEADER_BYTES
        elif len(self.rest) < HEAD.size:
            return 0
        else:
            size = HEAD.size + HEAD.unpack_from(self.rest)[2] + 1
        if len(self.rest) < size:
            return 0
        self._header = False
        return size


@dataclass
class Passed:
    """How many frames a connection has passed on, each way."""

    up: int = 0
    down: int = 0


@dataclass
class Relay:
    """One connection through the proxy."""

    client: asyncio.StreamWriter
    broker: asyncio.StreamWriter
    passed: Passed = field(default_factory=Passed)
    held: bytes = b""
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class Proxy:
    """Listens on 127.0.0.1 and connects each client to the broker.

    Args:
        host, port: the broker's.
        cuts: where each connection ends, in the order in which they come; later ones do not.
        pieces: forward so many bytes at a time, each after the other side had its turn; 0: frames.
        tls: for the clients' side; None: without encryption.

    Attributes:
        port: its own.
        connections: what each connection has passed on, in the order in which they came.
        cuts_made: how many there were.
    """

    def __init__(
        self,
        host: str,
        port: int,
        cuts: Sequence[Cut] = (),
        *,
        pieces: int = 0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._address = host, port
        self._tls = tls
        self._cuts = cuts
        self._pieces = pieces
        self.port = 0
        self.connections: list[Passed] = []
        self.cuts_made = 0
        self._late: Relay | None = None
        self._relays: list[Relay] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self._late = None
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        writers = [writer for each in self._relays for writer in (each.client, each.broker)]
        for writer in writers:
            writer.close()
        await asyncio.gather(*(each.wait_closed() for each in writers), return_exceptions=True)
        await self._server.wait_closed()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            from_broker, to_broker = await asyncio.open_connection(*self._address)
        except OSError:
            writer.close()
            return
        relay = Relay(writer, to_broker)
        count = len(self._relays)
        cut = self._cuts[count] if count < len(self._cuts) else None
        self._relays.append(relay)
        self.connections.append(relay.passed)
        for way in (
            self._pass_on(relay, "up", reader, to_broker, cut),
            self._pass_on(relay, "down", from_broker, writer, cut),
        ):
            self._tasks.add(asyncio.create_task(way))

    async def _pass_on(
        self,
        relay: Relay,
        direction: Direction,
        source: asyncio.StreamReader,
        target: asyncio.StreamWriter,
        cut: Cut | None,
    ) -> None:
        frames = Frames(header=direction == "up")
        here = cut if cut is not None and cut.direction == direction else None
        try:
            while not relay.ended.is_set() and (data := await source.read(READ_BYTES)):
                for frame in frames.split(data):
                    if here is not None and getattr(relay.passed, direction) == here.frames:
                        if not here.stalled:
                            await self._make_cut(relay, here, frame, target)
                            return
                        await asyncio.sleep(STALL_S)
                        self.cuts_made += 1
                    if relay.ended.is_set():
                        return
                    await self._forward(frame, target)
                    setattr(relay.passed, direction, getattr(relay.passed, direction) + 1)
                    if direction == "up" and relay.passed.up == OPENED_FRAMES:
                        self._release_late(relay)
                await target.drain()
        except OSError:
            pass
        self._end(relay)

    async def _forward(self, frame: bytes, target: asyncio.StreamWriter) -> None:
        """Hand a frame on: at once, or late and in pieces."""
        step = self._pieces or len(frame)
        for start in range(0, len(frame), step):
            target.write(frame[start : start + step])
            if self._pieces:
                # The piece leaves by itself, and is read before the next one comes.
                await target.drain()
                await asyncio.sleep(PIECE_S)

    async def _make_cut(
        self, relay: Relay, cut: Cut, frame: bytes, target: asyncio.StreamWriter
    ) -> None:
        # Of a small frame 0.01 is its first byte, and 0.99 all but the last.
        part = frame[: min(len(frame) - 1, math.ceil(len(frame) * cut.share))]
        relay.ended.set()
        if cut.late:
            # The whole frame is under way, and this end does not know what becomes of it.
            relay.held = frame if cut.direction == "up" else b""
            self._late = relay
        elif part:
            target.write(part)
            await target.drain()
        if cut.reset:
            _reset(relay.client)
        relay.client.close()
        if not cut.late:
            relay.broker.close()
        self.cuts_made += 1

    def _release_late(self, newer: Relay) -> None:
        """Have the broker get what the cut connection had sent."""
        late, self._late = self._late, None
        if late is not None and late is not newer:
            late.broker.write(late.held)
            late.broker.close()

    def _end(self, relay: Relay) -> None:
        relay.ended.set()
        for writer in (relay.client, relay.broker):
            if relay is not self._late or writer is relay.client:
                writer.close()


def _reset(writer: asyncio.StreamWriter) -> None:
    """Have the peer see a reset instead of an end."""
    sock = writer.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
