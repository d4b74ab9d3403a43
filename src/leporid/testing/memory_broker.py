"""A broker inside the process, for the tests of applications: no port, no files, no waiting.

It is the real data plane and the real control plane; only the server around them is another one.
A connection is a pair of objects (`memory_link`) instead of a socket. What is durable counts as on
disk at once, and is gone with the broker. Time stands still until `advance` moves it, so messages
expire, delays end and queues go when a test says so. There is no HTTP, and no filter class, which
would need a process of its own.

    async with leporid.testing.broker() as broker:
        connection = await broker.connect()
        ...
        await broker.advance(60)

Responsible for turns, for the clock and for the users. It must not know what an application does.
Invariants: all of it runs on the loop that it was started on; brokers share nothing, so several may
run in one process; after `close` no connection is open.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from leporid import __version__
from leporid.broker.access.access import Access
from leporid.broker.access.passwords import salted_sha256
from leporid.broker.access.permissions import Permissions
from leporid.broker.broker import Broker, TuneLimits
from leporid.broker.connection.session import ConnectionState
from leporid.client import blocking
from leporid.client.connection import connect
from leporid.client.loop_thread import LoopThread
from leporid.client.opening import Opening
from leporid.engine.engine import Engine
from leporid.testing.memory_link import MemoryLink, MemoryTransport, caller, rounds_of

if TYPE_CHECKING:
    from leporid.client.connection import Connection
    from leporid.durable import Change
    from leporid.engine.connection.connection import Connection as EngineConnection

logger = logging.getLogger(__name__)

GUEST: Final = MappingProxyType({"guest": "guest"})
ALONE: Final = MappingProxyType({"heartbeat_s": 0, "api": "http://127.0.0.1:1"})
"""Settings of connections: nobody counts real seconds, and there is no HTTP to be looked for."""
SALT_BYTES: Final = 4
SECRET_BYTES: Final = 32
FIRST_MS: Final = 1_000
"""What the engine's clock says at first; it never says 0."""
STEP_MS: Final = 1
"""Delays never end early, so the engine gives each one millisecond more: `advance` does, too."""
ROUNDS_FOR_CLIENTS: Final = 4
"""Rounds of the loop from a delivery until a task that waits for it has answered."""


class Timed(Protocol):
    """Something of the broker's that is due at some time."""

    @property
    def next_due_ms(self) -> int:
        """When; 0: never."""

    def run(self, now_ms: int, /) -> None:
        """Do what is due."""


class QueueCount(NamedTuple):
    """How many messages a queue has."""

    ready: int
    unacked: int


class MemoryBroker:
    """A broker in memory on the loop that runs; made by `async with broker()`.

    Its users may do everything, unless `add_user` says otherwise.

    Attributes:
        passwords: of the users, by name.
    """

    def __init__(
        self, *, vhosts: Sequence[str], users: Mapping[str, str], now: datetime | None
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._engine = Engine(secrets.randbits(32))
        self._links: dict[EngineConnection, MemoryLink] = {}
        self._connections: list[Connection] = []
        self._count = 0
        self._scheduled = self._closed = False
        start = datetime.now(UTC) if now is None else now
        self._start_ms = int(start.timestamp() * 1000) - FIRST_MS
        self._set_clock(FIRST_MS)
        self._engine.jobs.on_defect = _log_defect
        self._broker = Broker(
            self._engine,
            Access((), secrets.token_bytes(SECRET_BYTES)),
            record=_forget_change,
            random_bytes=secrets.token_bytes,
            limits=TuneLimits(heartbeat_s=0),
            identity={
                "product": "Leporid",
                "version": __version__,
                "cluster_name": "leporid@memory",
            },
        )
        self._timed: list[Timed] = [
            self._broker.unused,
            self._broker.handovers,
            self._broker.cancels,
        ]
        self.passwords: dict[str, str] = {}
        for vhost in vhosts:
            self._broker.add_vhost(vhost)
        for name, password in users.items():
            self.add_user(name, password)
        self._wake()

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"connections={len(self._links)}"
        return f"<MemoryBroker {state} at {self.now:%Y-%m-%d %H:%M:%S}>"

    # ------------------------------------------------------------- clients

    def connect(
        self, *, user: str = "guest", password: str | None = None, vhost: str = "/", **changes: Any
    ) -> Opening[Connection]:
        """Open a connection of `leporid.client`; `await` it, or enter it.

        One that is still open when the broker closes is closed by it.

        Args:
            user: who logs in.
            password: None: the right one.
            vhost: where to.
            changes: other settings of the client.

        Raises:
            ClientError: as `leporid.client.connect`.
        """
        given = self.passwords.get(user, "") if password is None else password
        settings = {"user": user, "password": given, "vhost": vhost, **ALONE, **changes}

        async def opening() -> Connection:
            connection = await connect("amqp://memory", opener=self.open, **settings)
            connection.now = self._now
            self._connections.append(connection)
            return connection

        return Opening(opening)

    async def open(
        self, factory: Callable[[], asyncio.BaseProtocol], *_: object
    ) -> MemoryTransport:
        """Open a transport: an `Opener` of `leporid.client`. May be awaited on any loop.

        Args:
            factory: makes the protocol.

        Raises:
            ConnectionRefusedError: the broker is closed.
        """
        if self._closed:
            raise ConnectionRefusedError("the broker in memory is closed")
        here = asyncio.get_running_loop()
        if here is self._loop:
            link = self._accept()
        else:
            accepting = asyncio.run_coroutine_threadsafe(self._accept_later(), self._loop)
            link = await asyncio.wrap_future(accepting)
        protocol = factory()
        transport = MemoryTransport(
            protocol, link, caller(self._loop, here), here, link.session.name
        )
        link.join(transport, here, caller(here, self._loop))
        protocol.connection_made(transport)
        return transport

    async def _accept_later(self) -> MemoryLink:
        return self._accept()

    def _accept(self) -> MemoryLink:
        self._count += 1
        connection = self._engine.connection()
        session = ConnectionState(
            self._broker, connection, peer_is_loopback=True, name=f"memory:{self._count}"
        )
        connection.session = session
        link = self._links[connection] = MemoryLink(connection, session, self._wake, self._forget)
        return link

    def _forget(self, connection: EngineConnection) -> None:
        self._links.pop(connection, None)

    def disconnect(self) -> None:
        """Cut every connection, as a network does: nobody is told why."""
        for link in list(self._links.values()):
            link.cut()

    # ------------------------------------------------------------- what a test says and asks

    @property
    def now(self) -> datetime:
        """The broker's time, in UTC."""
        return self._now()

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._engine.clock.wall_ms / 1000, UTC)

    async def advance(self, duration: float | timedelta) -> None:
        """Move the broker's clock, and have everything happen that is due until then.

        Each moment comes by itself, in order, and clients get what it brings before the next.

        Args:
            duration: seconds, or a timedelta.

        Raises:
            ValueError: it is negative.
        """
        given = duration.total_seconds() if isinstance(duration, timedelta) else duration
        if not given >= 0:
            raise ValueError(f"time does not go back: {duration!r}")
        end_ms = self._engine.clock.now_ms + round(given * 1000) + STEP_MS
        await self.settle()
        while (due_ms := self._next_due_ms()) and due_ms <= end_ms:
            self._set_clock(max(due_ms, self._engine.clock.now_ms))
            self._wake()
            await self.settle()
        self._set_clock(end_ms)
        self._broker.save_reader_offsets()
        self._broker.look_at_groups()
        self._wake()
        await self.settle()

    async def settle(self) -> None:
        """Return when the broker has nothing left to do, and clients had a moment to answer."""
        quiet = 0
        while quiet < ROUNDS_FOR_CLIENTS:
            await asyncio.sleep(0)
            links = list(self._links.values())
            for each in links:
                each.look_at_client()
            if self._scheduled or not all(each.quiet for each in links):
                quiet = 0
                continue
            quiet += 1
            # The rounds of this loop say nothing of a client in a thread of its own.
            for loop in {each.other_loop for each in links}:
                if loop is not None:
                    await rounds_of(loop, ROUNDS_FOR_CLIENTS)

    def count(self, queue: str, vhost: str = "/") -> QueueCount:
        """Count a queue's messages, as of now.

        Raises:
            LookupError: there is no such queue.
        """
        found = self._broker.vhosts[vhost].find_queue(queue)
        if found is None:
            raise LookupError(f"no queue '{queue}' in vhost '{vhost}'")
        return QueueCount(found.engine.ready_count, found.engine.unacked_count)

    def set_alarm(self, *, on: bool) -> None:
        """Begin or end a memory alarm: publishers are blocked while there is one."""
        self._broker.set_alarm("memory", on)
        self._wake()

    def add_vhost(self, name: str) -> None:
        """Make a virtual host, if there is none; users that exist get no rights there."""
        self._broker.add_vhost(name)
        self._wake()

    def add_user(
        self,
        name: str,
        password: str,
        *,
        vhosts: Sequence[str] | None = None,
        configure: str = ".*",
        write: str = ".*",
        read: str = ".*",
    ) -> None:
        """Make a user, or another one of it.

        Args:
            name: the user's.
            password: the user's.
            vhosts: which it may enter; None: all that there are.
            configure: pattern of the names that it may declare and delete.
            write: that it may publish and bind to.
            read: that it may consume and bind from.
        """
        rights = Permissions.of(configure, write, read)
        # A slow hash would cost time, and protect nothing.
        hashed = salted_sha256(password, secrets.token_bytes(SALT_BYTES))
        self._broker.users.put(name, hashed, frozenset(), loopback_only=False)
        for vhost in self._broker.vhosts if vhosts is None else vhosts:
            self._broker.users.permit(name, vhost, rights)
        self.passwords[name] = password
        self._wake()

    async def close(self) -> None:
        """Close the connections that `connect` has made, and cut all others."""
        for connection in self._connections:
            await connection.close()
        self._connections.clear()
        await self.settle()
        self._closed = True
        self.disconnect()
        while self._scheduled or self._engine.jobs.waiting:  # noqa: ASYNC110 - a turn each
            await asyncio.sleep(0)

    # ------------------------------------------------------------- turns

    def _set_clock(self, now_ms: int) -> None:
        self._engine.clock.now_ms = now_ms
        self._engine.clock.wall_ms = self._start_ms + now_ms

    def _next_due_ms(self) -> int:
        dues = [self._engine.next_due_ms, *(each.next_due_ms for each in self._timed)]
        return min((due_ms for due_ms in dues if due_ms), default=0)

    def _wake(self) -> None:
        """Have a turn in the next round of the loop."""
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        """Read, deliver, confirm, send: what a round of the server's loop does."""
        self._scheduled = False
        for link in list(self._links.values()):
            link.read()
        now_ms = self._engine.clock.now_ms
        for each in self._timed:
            each.run(now_ms)
        self._engine.run()
        self._sync()
        for connection in self._engine.connections.take_touched():
            touched = self._links.get(connection)
            if touched is not None:
                touched.send()
        reading = any(each.unread and each.connection.reading for each in self._links.values())
        due_ms = self._next_due_ms()
        if self._engine.busy or reading or (due_ms and due_ms <= now_ms):
            self._wake()

    def _sync(self) -> None:
        """What is durable is as good as on disk; the next turn confirms it."""
        work = self._engine.begin_sync()
        if work is not None:
            generation, writes, _drops, streams = work
            self._engine.end_sync(generation, writes, streams)
            self._wake()


def _forget_change(_: Change) -> None:
    """Record nothing: there is no next start."""


def _log_defect(error: Exception) -> None:
    logger.error("defect in work that went on for several turns", exc_info=error)


class BlockingMemoryBroker:
    """A broker in memory for programs without asyncio; made by `with broker()`.

    It runs on an event loop in a thread of its own.

    Attributes:
        behind: the broker on that loop.
    """

    def __init__(self, thread: LoopThread, broker: MemoryBroker) -> None:
        self._thread = thread
        self.behind = broker

    def __repr__(self) -> str:
        return f"<Blocking {self.behind!r}>"

    def connect(
        self, *, user: str = "guest", password: str | None = None, vhost: str = "/", **changes: Any
    ) -> blocking.Connection:
        """Open a connection of `leporid.client.blocking`; closing it is the caller's."""
        given = self.behind.passwords.get(user, "") if password is None else password
        settings = {"user": user, "password": given, "vhost": vhost, **ALONE, **changes}
        connection = blocking.connect("amqp://memory", opener=self.behind.open, **settings)
        connection.behind.now = lambda: self.behind.now
        return connection

    @property
    def now(self) -> datetime:
        """The broker's time, in UTC."""
        return self.behind.now

    def advance(self, duration: float | timedelta) -> None:
        """Move the broker's clock, and have everything happen that is due until then."""
        self._thread.wait(self.behind.advance(duration))

    def settle(self) -> None:
        """Return when the broker has nothing left to do."""
        self._thread.wait(self.behind.settle())

    def count(self, queue: str, vhost: str = "/") -> QueueCount:
        """Count a queue's messages, as of now."""
        return self._thread.call(lambda: self.behind.count(queue, vhost))

    def disconnect(self) -> None:
        """Cut every connection, as a network does."""
        self._thread.call(self.behind.disconnect)

    def set_alarm(self, *, on: bool) -> None:
        """Begin or end a memory alarm."""
        self._thread.call(lambda: self.behind.set_alarm(on=on))

    def add_vhost(self, name: str) -> None:
        """Make a virtual host."""
        self._thread.call(lambda: self.behind.add_vhost(name))

    def add_user(self, name: str, password: str, **rights: Any) -> None:
        """Make a user, or another one of it; arguments as in `MemoryBroker.add_user`."""
        self._thread.call(lambda: self.behind.add_user(name, password, **rights))


class broker:  # noqa: N801 - it is called, and says what there is then
    """Start a broker in memory, for as long as a block.

    `async with broker() as it` gives a `MemoryBroker` on the running loop; `with broker() as it` a
    `BlockingMemoryBroker`, whose loop runs in a thread of its own.

    Args:
        vhosts: the virtual hosts there are.
        users: passwords by name; each user may do everything in all of these virtual hosts.
        now: what time it is; None: the real time. It stands still until `advance`.
    """

    def __init__(
        self,
        *,
        vhosts: Sequence[str] = ("/",),
        users: Mapping[str, str] = GUEST,
        now: datetime | None = None,
    ) -> None:
        self._vhosts, self._users, self._now = tuple(vhosts), dict(users), now
        self._made: MemoryBroker | None = None
        self._thread: LoopThread | None = None

    async def __aenter__(self) -> MemoryBroker:
        self._made = MemoryBroker(vhosts=self._vhosts, users=self._users, now=self._now)
        return self._made

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        made, self._made = self._made, None
        if made is not None:
            await made.close()

    def __enter__(self) -> BlockingMemoryBroker:
        self._thread = LoopThread("leporid broker in memory")
        made = self._thread.wait(self.__aenter__())
        return BlockingMemoryBroker(self._thread, made)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            try:
                thread.wait(self.__aexit__(kind, error, trace))
            finally:
                thread.stop()
