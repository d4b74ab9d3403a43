"""An AMQP client over a real socket that does what a test tells it to, frame by frame.

Clients that nobody here wrote are kept from most of what these tests do: never to read, to say
nonsense, to send no heartbeat.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Self, TypeVar

from leporid.amqp.constants import (
    CLASS_BASIC,
    FRAME_BODY,
    FRAME_HEADER,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
    PROTOCOL_HEADER,
)
from leporid.amqp.frames import frame, method_frame
from leporid.amqp.methods import (
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicPublish,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
    QueueDeclare,
    QueueDeclareOk,
    decode,
)
from leporid.amqp.properties import Properties, encode_properties
from leporid.amqp.tables import Value

# Whatever is waited for comes at once, or never; on a machine that is busy, a little later.
PATIENCE_S = 20

M = TypeVar("M", bound=Method)

HEARTBEAT = frame(FRAME_HEARTBEAT, 0, b"")
GARBAGE = b"\x01\x00\x01\x00\x00\x00\x04\x00\x0a\x00\x0b?"
"""A frame that does not end like one."""


def published(
    key: str,
    body: bytes = b"",
    *,
    exchange: str = "",
    channel: int = 1,
    persistent: bool = False,
    mandatory: bool = False,
    expiration: str | None = None,
    frame_max: int = 131072,
) -> bytes:
    """The frames of one basic.publish."""
    properties = Properties(delivery_mode=2 if persistent else None, expiration=expiration)
    head = struct.pack(">HHQ", CLASS_BASIC, 0, len(body)) + encode_properties(properties)
    method = method_frame(
        channel, BasicPublish(exchange=exchange, routing_key=key, mandatory=mandatory)
    )
    step = frame_max - 8
    parts = [body[at : at + step] for at in range(0, len(body), step)]
    rest = b"".join(frame(FRAME_BODY, channel, part) for part in parts)
    return method + frame(FRAME_HEADER, channel, head) + rest


class Client:
    """One peer."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._loop = asyncio.get_running_loop()
        self._received = bytearray()

    @classmethod
    async def connect(cls, port: int, *, receive_bytes: int = 0, source: str = "") -> Self:
        """Connect, and say nothing.

        Args:
            source: the address to come from; all of 127.0.0.0/8 are of this machine.
            receive_bytes: how much the kernel keeps for this client until it reads; 0: a lot.
        """
        sock = socket.socket()
        sock.setblocking(False)
        if source:
            sock.bind((source, 0))
        if receive_bytes:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        try:
            await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
        except OSError:
            sock.close()
            raise
        return cls(sock)

    def close(self) -> None:
        """Close the socket, without a word."""
        self.sock.close()

    def reset(self) -> None:
        """Close the socket as a crash does."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    # ------------------------------------------------------------- sending

    async def write(self, data: bytes) -> None:
        """Send bytes; returns when the kernel has them all."""
        async with asyncio.timeout(PATIENCE_S):
            await self._loop.sock_sendall(self.sock, data)

    async def say(self, *methods: Method, channel: int = 1) -> None:
        """Send methods."""
        await self.write(b"".join(method_frame(channel, each) for each in methods))

    async def publish(self, key: str, body: bytes = b"", *, exchange: str = "") -> None:
        """Publish one message on channel 1."""
        await self.write(published(key, body, exchange=exchange))

    # ------------------------------------------------------------- receiving

    async def _fill(self, count: int) -> bool:
        """Have `count` bytes; False when the server closed before."""
        while len(self._received) < count:
            try:
                async with asyncio.timeout(PATIENCE_S):
                    data = await self._loop.sock_recv(self.sock, 65536)
            except ConnectionResetError:
                raise AssertionError(f"reset, after {bytes(self._received)!r}") from None
            if not data:
                return False
            self._received += data
        return True

    async def read(self, count: int) -> bytes:
        """The next `count` bytes."""
        assert await self._fill(count), f"end of stream after {bytes(self._received)!r}"
        data = bytes(self._received[:count])
        del self._received[:count]
        return data

    async def frame(self) -> tuple[int, int, bytes]:
        """Kind, channel and payload of the next frame."""
        kind, channel, size = struct.unpack(">BHI", await self.read(7))
        payload = await self.read(size + 1)
        assert payload[-1] == 0xCE
        return kind, channel, payload[:-1]

    async def heartbeat(self) -> None:
        """The next frame, which is a heartbeat."""
        assert await self.frame() == (FRAME_HEARTBEAT, 0, b"")

    async def hear(self, kind: type[M]) -> M:
        """The next method, which is of that kind; heartbeats are passed over."""
        while True:
            frame_kind, _, payload = await self.frame()
            if frame_kind != FRAME_HEARTBEAT:
                break
        assert frame_kind == FRAME_METHOD
        method = decode(payload)
        assert isinstance(method, kind), method
        return method

    async def delivered(self) -> tuple[BasicDeliver, bytes]:
        """The next delivery, with its body."""
        deliver = await self.hear(BasicDeliver)
        kind, _, payload = await self.frame()
        assert kind == FRAME_HEADER
        left = int.from_bytes(payload[4:12], "big")
        body = b""
        while len(body) < left:
            kind, _, payload = await self.frame()
            assert kind == FRAME_BODY
            body += payload
        return deliver, body

    async def ends(self) -> None:
        """The server closes, and says nothing more before it but heartbeats."""
        while await self._fill(1):
            await self.heartbeat()

    async def drain(self) -> None:
        """Read until the server closes, whatever comes."""
        while await self._fill(1):
            self._received.clear()

    # ------------------------------------------------------------- conversations

    async def call(self, method: Method, answer: type[M], *, channel: int = 1) -> M:
        """Send a method and wait for its answer."""
        await self.say(method, channel=channel)
        return await self.hear(answer)

    async def greet(self) -> ConnectionStart:
        """Say who we are; returns what the server says about itself."""
        await self.write(PROTOCOL_HEADER)
        return await self.hear(ConnectionStart)

    async def log_in(
        self,
        *,
        heartbeat_s: int = 0,
        capabilities: tuple[str, ...] = (),
        frame_max: int = 0,
        user: str = "guest",
    ) -> Self:
        """Open the connection, and channel 1.

        Args:
            frame_max: largest frame in bytes, header and end included; 0: what the server proposes.
        """
        announced: dict[str, Value] = dict.fromkeys(capabilities, True)
        properties: dict[str, Value] = {"capabilities": announced}
        await self.greet()
        await self.say(
            ConnectionStartOk(
                client_properties=properties, response=b"\0%s\0guest" % user.encode()
            ),
            channel=0,
        )
        tune = await self.hear(ConnectionTune)
        await self.say(
            ConnectionTuneOk(tune.channel_max, frame_max or tune.frame_max, heartbeat_s),
            ConnectionOpen("/"),
            channel=0,
        )
        await self.hear(ConnectionOpenOk)
        await self.call(ChannelOpen(), ChannelOpenOk)
        return self

    async def declare(self, name: str, **settings: bool) -> str:
        """Declare a queue that only this client needs."""
        settings = settings or {"exclusive": True}
        declare = QueueDeclare(queue=name, **settings)  # type: ignore[arg-type]
        return (await self.call(declare, QueueDeclareOk)).queue

    async def consume(self, queue: str, *, no_ack: bool = True) -> None:
        """Start a consumer."""
        await self.call(BasicConsume(queue=queue, no_ack=no_ack), BasicConsumeOk)
