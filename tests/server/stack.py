"""A broker with a real listener in the test's own event loop, and with a clock that the test moves.

All of the server but start-up, disk and HTTP. What is durable here is on disk at once.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from dataclasses import replace

from tests.server.client import PATIENCE_S, Client

from leporid.amqp.tables import Value
from leporid.broker.access.access import Access, guest
from leporid.broker.broker import Broker
from leporid.engine.engine import Engine
from leporid.server.addresses import bind
from leporid.server.link import Link
from leporid.server.listener import Listener, hashing_threads, on_thread
from leporid.server.tls import Certificates
from leporid.server.turns import Turns

SECRET = b"secret of this test process"
OTHER_USER = "other"  # with guest's password and rights
IDENTITY: Mapping[str, Value] = {"product": "Leporid", "version": "0"}


class Clock:
    """What stands for the module `time`."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s

    def monotonic_ns(self) -> int:
        return int(self.now_s * 1e9)

    def time(self) -> float:
        return 1e9 + self.now_s

    def time_ns(self) -> int:
        return int(self.time() * 1e9)

    def move(self, seconds: float) -> None:
        self.now_s += seconds


class Stack:
    """Engine, turns, broker and listener, as a node joins them."""

    def __init__(
        self,
        *,
        handshake_ms: int = 10_000,
        connections_max: int = 100,
        handshakes_max: int = 100,
        certificates: Certificates | None = None,
    ) -> None:
        self.engine = Engine(1)
        self.hashers = hashing_threads()
        self.turns = Turns(self.engine)
        self.turns.after = self._after
        self.broker = Broker(
            self.engine,
            Access([guest(SECRET), replace(guest(SECRET), name=OTHER_USER)], SECRET),
            record=lambda _: None,
            random_bytes=os.urandom,
            offload=on_thread(self.turns, self.hashers),
            identity=IDENTITY,
        )
        self.turns.timed += [self.broker.unused, self.broker.cancels]
        self.broker.add_vhost("/")
        self.sockets = bind(["127.0.0.1"], 0)
        self.port: int = self.sockets[0].getsockname()[1]
        tls_sockets = bind(["127.0.0.1"], 0) if certificates is not None else []
        self.tls_port: int = tls_sockets[0].getsockname()[1] if tls_sockets else 0
        self.listener = Listener(
            self.sockets,
            self.broker,
            self.turns,
            handshake_ms=handshake_ms,
            connections_max=connections_max,
            handshakes_max=handshakes_max,
            tls_sockets=tls_sockets,
            certificates=certificates,
        )
        self.listener.start()
        self.clients: list[Client] = []
        self._waiting: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []

    def _after(self) -> None:
        work = self.engine.begin_sync()
        if work is not None:
            generation, writes, _, streams = work
            self.engine.end_sync(generation, writes, streams)
            self.turns.wake()
        for entry in list(self._waiting):
            condition, future = entry
            if future.done():
                self._waiting.remove(entry)
            elif condition():
                future.set_result(None)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for the end of the turn after which the condition holds."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.append((condition, future))
        self.turns.wake()
        async with asyncio.timeout(PATIENCE_S):
            await future

    async def connect(self, *, receive_bytes: int = 0, source: str = "") -> Client:
        """A client that has said nothing yet."""
        client = await Client.connect(self.port, receive_bytes=receive_bytes, source=source)
        self.clients.append(client)
        return client

    async def client(
        self,
        *,
        heartbeat_s: int = 0,
        capabilities: tuple[str, ...] = (),
        receive_bytes: int = 0,
    ) -> Client:
        """A client that is logged in."""
        client = await self.connect(receive_bytes=receive_bytes)
        return await client.log_in(heartbeat_s=heartbeat_s, capabilities=capabilities)

    def link_of(self, client: Client) -> Link:
        """The server's end of a client's socket."""
        ours = client.sock.getsockname()
        (link,) = [one for one in self.turns.links.values() if one.sock.getpeername() == ours]
        return link

    def set_alarm(self, reason: str, on: bool) -> None:
        """As a node does when it is told of an alarm."""
        self.broker.set_alarm(reason, on)
        self.turns.resume_reading()
        self.turns.wake()

    def stop(self) -> None:
        """Close everything."""
        for client in self.clients:
            client.close()
        self.listener.stop()
        self.turns.stop()
        self.hashers.shutdown()
        for link in list(self.turns.links.values()):
            link.close()
