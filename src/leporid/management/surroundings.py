"""What the handlers are given: the broker, ways to wait for it, and threads for what takes long.

Responsible for holding these together for `application`, and for looking up what nearly every
request names: the user, the virtual host, a stream that the user may read. Must not know routes.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request

from leporid.broker.access.access import User
from leporid.broker.access.permissions import Right
from leporid.broker.broker import Broker
from leporid.broker.stream import partitions
from leporid.broker.vhost import VirtualHost
from leporid.filterserver.filter_class import FilterClass, FilterClassStatus
from leporid.management.login import Login
from leporid.management.paths import name_of
from leporid.management.refusals import Refusal

if TYPE_CHECKING:
    from leporid.engine.engine import Engine
    from leporid.engine.queue.lease import Lease
    from leporid.engine.stream.stream import Stream

# Passwords being hashed at a time: each takes a core and 19 MiB for tens of milliseconds.
HASHERS_MAX: Final = 2
# Threads that encode tables. One core stays with the broker's own thread.
ENCODERS_MAX: Final = max(1, min(4, (os.cpu_count() or 1) - 1))
# Theirs beside the broker's own, as `nice` counts: somebody waits for each message, while tables
# want throughput.
ENCODERS_NICENESS: Final = 10
NICENESS_MAX: Final = 19

PIP_COMMAND: Final = "pip install 'leporid[arrow]'"


def _yield_to_messages() -> None:
    """Let the broker's own thread go first where both want a core; of Linux alone, by thread."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        niceness = os.getpriority(os.PRIO_PROCESS, thread) + ENCODERS_NICENESS
        os.setpriority(os.PRIO_PROCESS, thread, min(niceness, NICENESS_MAX))


def _encoders() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(ENCODERS_MAX, "tables", _yield_to_messages)


def _hashers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(HASHERS_MAX, "passwords")


@dataclass(frozen=True)
class Holding:
    """One lease, and whose it is."""

    id: str
    user: str
    vhost: str
    queue: str
    lease: Lease
    timer: asyncio.TimerHandle


@dataclass(frozen=True)
class Surroundings:
    """The world as handlers see it.

    Attributes:
        broker: the rules; its state is this thread's.
        engine: the engine; likewise.
        is_loopback: whether a peer's address is of this machine.
        set_clock: tells the engine what time it is; it may not have had a turn for long.
        wake: says that something was given to the engine.
        until_synced: returns when a generation is on disk.
        monotonic: seconds, for how long something took.
        leases: those that are held, by id.
        try_filter_class: loads a filter class somewhere; raises FilterFailure.
        filter_class_status: says how the filter class of a name is.
    """

    broker: Broker
    engine: Engine
    is_loopback: Callable[[str], bool]
    set_clock: Callable[[], None]
    wake: Callable[[], None]
    until_synced: Callable[[int], Awaitable[None]]
    monotonic: Callable[[], float]
    try_filter_class: Callable[[FilterClass], Awaitable[None]]
    filter_class_status: Callable[[str], FilterClassStatus]
    leases: dict[str, Holding] = field(default_factory=dict)
    encoders: ThreadPoolExecutor = field(default_factory=_encoders)
    hashers: ThreadPoolExecutor = field(default_factory=_hashers)

    def stop(self) -> None:
        """Let the threads go."""
        self.encoders.shutdown(wait=False, cancel_futures=True)
        self.hashers.shutdown(wait=False, cancel_futures=True)

    async def user(self, request: Request) -> User:
        """Return who asks; raises Refusal."""
        return await Login(self.broker.access, self.is_loopback, self.hashers).user(request)

    async def enter(self, request: Request) -> tuple[User, VirtualHost]:
        """Return who asks, and the virtual host in the path.

        Raises:
            Refusal: nobody, or there is no such virtual host.
            NotAllowed: the user may not use it.
        """
        user = await self.user(request)
        name = name_of(request, "vhost")
        vhost = self.broker.vhosts.get(name)
        if vhost is None:
            raise Refusal(404, "not-found", f"no vhost '{name}'")
        user.check_vhost(name)
        return user, vhost

    async def find(self, request: Request, right: Right = "read") -> Found:
        """Return the stream in the path, if the user has that right on it.

        Raises what `enter` raises, AccessRefused and NotFound.
        """
        user, vhost = await self.enter(request)
        name = name_of(request, "stream")
        user.check(right, "queue", name, vhost.name)
        return Found(user, vhost, name, streams_of(vhost, name))

    async def on_thread(self, work: Callable[[], Any]) -> Any:
        """Run what takes long where it stops nobody; it is not cancelled half-way."""
        loop = asyncio.get_running_loop()
        return await asyncio.shield(loop.run_in_executor(self.encoders, work))

    async def recorded(self) -> None:
        """Return when every change that was recorded so far is on disk."""
        self.wake()
        await self.until_synced(self.broker.recorded_generation)


@dataclass(frozen=True)
class Found:
    """A stream, by one or several partitions."""

    user: User
    vhost: VirtualHost
    name: str
    streams: list[Stream]

    def partition(self, number: int) -> Stream:
        """Return one partition; raises Refusal (404) without it."""
        if number >= len(self.streams):
            raise Refusal(
                404,
                "not-found",
                f"stream '{self.name}' has no partition {number}, only 0 to "
                f"{len(self.streams) - 1}",
            )
        return self.streams[number]


def streams_of(vhost: VirtualHost, name: str) -> list[Stream]:
    """Return the engine's streams behind a name, in the order of partitions."""
    found: list[Any] = [queue.stream for queue in partitions.of(vhost, name)]
    return found


def need_arrow() -> None:
    """Import pyarrow, which takes a while; on a thread.

    Raises:
        Refusal: it is not installed.
    """
    try:
        import leporid.management.tables  # noqa: F401 - an extra: only who asks for tables needs it
    except ModuleNotFoundError as error:
        if error.name != "pyarrow":
            raise
        raise Refusal(
            501,
            "arrow-missing",
            f"the broker has no pyarrow, which reads and writes tables: {PIP_COMMAND}",
        ) from None
