"""What the handlers are given: the broker, ways to wait for it, and threads for what takes long.

Responsible for holding these together for `application`, and for looking up what nearly every
request names: the user, the virtual host, a stream that the user may read. Must not know routes.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
)
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from starlette.requests import Request

from leporid.amqp.errors import BeingDeleted
from leporid.broker.access import tags
from leporid.broker.access.access import User
from leporid.broker.access.permissions import Right
from leporid.broker.access.remote_rights import (
    ROUNDS_MAX,
    RightPending,
    RightsJob,
    too_many_rounds,
)
from leporid.broker.broker import Broker
from leporid.broker.events.actor import acting_steps, actor, set_actor
from leporid.broker.registry import StepsTo
from leporid.broker.stream import partitions
from leporid.broker.vhost import VirtualHost
from leporid.engine.bounds.jobs import AWAITS
from leporid.filterserver.filter_class import FilterClass, FilterClassStatus
from leporid.limits.shares import Slot
from leporid.management import hosts
from leporid.management.admission import ENCODERS_MAX, Admission, waited_for
from leporid.management.audit import AuditLog
from leporid.management.authorization import answered
from leporid.management.histories import Histories
from leporid.management.listings import Listing
from leporid.management.live import Live
from leporid.management.login import ONLY_LOCAL, BasicLogin
from leporid.management.nodes import NODE, NodeFacts
from leporid.management.paths import name_of, visit_of
from leporid.management.rates import Samples
from leporid.management.refusals import Refusal, expired
from leporid.management.sessions import Session, Sessions, claim_in, ended, session_in
from leporid.storage.backup import Manifest

if TYPE_CHECKING:
    from leporid.engine.engine import Engine
    from leporid.engine.queue.lease import Lease
    from leporid.engine.stream.stream import Stream
    from leporid.management.sign_on import SignOn

T = TypeVar("T")


class BackupPort(Protocol):
    """What makes backups (`server.backups.Backups`)."""

    directory: Path

    async def make(self, name: str) -> Manifest:
        """Make one; raises BackupError."""

    async def listing(self) -> list[Manifest]:
        """Return those that there are."""


PIP_COMMAND: Final = "pip install 'leporid[arrow]'"
ARROW: Final = "pyarrow"


def _encoders() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(ENCODERS_MAX, "tables")


@dataclass(frozen=True)
class Holding:
    """One lease, and whose it is."""

    id: str
    user: str
    vhost: str
    queue: str
    lease: Lease
    timer: asyncio.TimerHandle
    slot: Slot


@dataclass(frozen=True)
class Surroundings:
    """What all handlers share: the broker, the server's callables, threads, sessions, limits.

    Attributes:
        broker: the rules; its state is this thread's.
        engine: the engine; likewise.
        is_loopback: whether a peer's address is of this machine.
        set_clock: tells the engine what time it is; it may not have had a turn for long.
        wake: says that something was given to the engine.
        until_synced: returns True when a generation is on disk, False if that will never be.
        monotonic: seconds, for how long something took.
        leases: those that are held, by id.
        loaded: what was imported since the start, for the first who needed it.
        try_filter_class: loads a filter class somewhere; raises FilterFailure.
        filter_class_status: says how the filter class of a name is.
        backups: makes them.
        look: compares memory and disk with their limits now, and not only each second.
        alarm_limits: the limits of memory and disk in bytes, by the alarm's name.
        body_bytes: for bodies of requests, of all together; 0 for what `admission` has.
        admission: what requests share.
        http_hosts: what the broker is called in requests, beside its addresses and localhost; may
            change.
        guest_registers: whether the user guest may register filter classes.
        node: the facts of the process, as of now.
        node_name: what it is called.
        encoders: threads in which tables are encoded, while messages go first.
        sessions: of who has logged in by the form of the web UI.
        sign_on: logs in to the web UI by OAuth 2; None: nobody does.
        sync_totals: how often files were synced, and the seconds that this took altogether.
        histories: samples of single objects.
        live: tells of samples.
        samples: of the whole broker; the server takes one each second.
        audit: of administrative acts.
    """

    broker: Broker
    engine: Engine
    is_loopback: Callable[[str], bool]
    set_clock: Callable[[], None]
    wake: Callable[[], None]
    until_synced: Callable[[int], Awaitable[bool]]
    monotonic: Callable[[], float]
    try_filter_class: Callable[[FilterClass], Awaitable[None]]
    filter_class_status: Callable[[str], FilterClassStatus]
    backups: BackupPort
    look: Callable[[], None] = lambda: None
    alarm_limits: Mapping[str, int] = field(default_factory=dict)
    body_bytes: int = 0
    http_hosts: Collection[str] = frozenset()
    guest_registers: bool = False
    node: Callable[[], NodeFacts] = NodeFacts
    node_name: str = NODE
    audit: AuditLog = field(default_factory=AuditLog)
    sign_on: SignOn | None = None
    sync_totals: Callable[[], tuple[int, float]] = lambda: (0, 0.0)
    samples: Samples = field(init=False)
    histories: Histories = field(init=False)
    live: Live = field(init=False)
    sessions: Sessions = field(init=False)
    leases: dict[str, Holding] = field(default_factory=dict)
    loaded: set[str] = field(default_factory=set)
    admission: Admission = field(init=False)
    encoders: ThreadPoolExecutor = field(default_factory=_encoders)

    def __post_init__(self) -> None:
        broker = self.broker
        admission = Admission(broker.refusals, broker.alarms, self.alarm_limits, self.body_bytes)
        object.__setattr__(self, "admission", admission)
        samples = Samples(broker, self.engine, self.monotonic, self._of_process)
        object.__setattr__(self, "samples", samples)
        histories = Histories(lambda: int(self.monotonic() * 1000))
        object.__setattr__(self, "histories", histories)
        object.__setattr__(self, "live", Live(self))
        sessions = Sessions(broker.access, admission.shares.sessions, self.monotonic)
        object.__setattr__(self, "sessions", sessions)

    def is_node(self, name: str) -> bool:
        """Say whether this is the node, by its name or as RabbitMQ calls one on this host."""
        host = self.node_name.partition("@")[2]
        return name in (self.node_name, f"rabbit@{host}")

    def _of_process(self) -> tuple[int, int, int, int]:
        node, (syncs, seconds) = self.node(), self.sync_totals()
        return node.memory_used, node.disk_free, syncs, int(seconds * 1_000_000)

    def sample(self) -> None:
        """Take samples of everything that is sampled, and tell who listens; once a second."""
        self.samples.take()
        self._sample_on(self.histories.taking())

    def _sample_on(self, steps: Iterator[None]) -> None:
        for _ in steps:
            asyncio.get_running_loop().call_soon(self._sample_on, steps)
            return
        self.live.publish()

    def load_arrow(self) -> None:
        """Have pyarrow imported soon, if it is installed.

        The import holds the interpreter for some 50 ms at a time, which should not happen when
        somebody asks for the first table.
        """
        self.encoders.submit(_load_arrow)

    def stop(self) -> None:
        """Let the threads go."""
        self.encoders.shutdown(wait=False, cancel_futures=True)

    async def user(self, request: Request) -> User:
        """Return who asks, whose request it is from now on.

        Raises:
            Refusal: nobody; or a page of another place asks by a session's cookie; or that user has
                too many requests under way; or the request would make the broker keep more, and an
                alarm is on; or it was not meant for this broker.
        """
        hosts.check(request, self.http_hosts)
        loopback = hosts.is_of_this_machine(request, self.is_loopback)
        session = session_in(request, self.sessions)
        if session is None:
            user = await BasicLogin(self.broker).user(request, loopback=loopback)
        else:
            user = await self._user_of(request, session, loopback=loopback)
        visit_of(request).log_in(user)
        set_actor(user.name)
        return user

    async def _user_of(self, request: Request, session: Session, *, loopback: bool) -> User:
        claim = claim_in(request, session)
        if claim is not None:
            # Another back end may have taken tags away, or the right to log in.
            try:
                found = await BasicLogin(self.broker).check(request, claim, loopback=loopback)
            except Refusal as refusal:
                if refusal.status != 401:
                    raise  # there are too many logins
                self.sessions.end(session)
                raise ended() from None
            session.user = found
        user = self.sessions.user_of(session)
        if user is None:
            raise ended()
        if user.loopback_only and not loopback:
            raise Refusal(401, "not_authorized", ONLY_LOCAL)
        return user

    def current(self, user: User) -> User:
        """Return a user as of now.

        Raises:
            Refusal: there is no such user any more, or it was one of a token, which has expired.
        """
        found = self.broker.access.current(user)
        if found is None:
            raise Refusal(401, "unauthorized", f"there is no user '{user.name}' any more")
        if found.expires_ms is not None and found.expires_ms <= time.time() * 1000:
            raise expired()
        return found

    def check_unchanged(self, user: User, vhost: str | None = None) -> None:
        """Refuse to act for a user whose rights have changed since the request was let in.

        To be called after the last wait before a change that rests on them. Other changes do not
        matter: a program that sets up a broker sends several requests at once, and one that makes
        a virtual host gives its user permissions.

        Args:
            user: as the request was let in.
            vhost: whose permissions it rests on, too; None: on the tags alone.

        Raises:
            Refusal: the user is gone, or what was checked may not hold any more. Or its token has
                expired.
        """
        now = self.broker.access.current(user)
        if now is not None and now.still_allows(user, vhost):
            self.current(user)
        else:
            raise Refusal(
                401,
                "not_authorised",
                f"user '{user.name}' was changed or deleted during the request; send it again",
            )

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
            raise no_vhost(name)
        await self.decided(lambda: user.check_vhost(name))
        return user, vhost

    async def find(self, request: Request, right: Right = "read") -> Found:
        """Return the stream in the path, if the user has that right on it.

        Raises what `enter` raises, AccessRefused and NotFound.
        """
        user, vhost = await self.enter(request)
        name = name_of(request, "stream")
        await self.decided(lambda: user.check(right, "queue", name, vhost.name))
        return Found(user, vhost, name, streams_of(vhost, name))

    async def decided(self, check: Callable[[], T]) -> T:
        """Return what a check of rights says, once they are known.

        Args:
            check: changes nothing.

        Raises:
            AccessRefused: it needs too many; and what the check raises.
        """
        for _ in range(ROUNDS_MAX):
            try:
                return check()
            except RightPending as unknown:
                pending = unknown.pending
            await answered(pending)
        raise too_many_rounds()

    async def entered_vhosts(self, user: User) -> list[VirtualHost]:
        """Return the virtual hosts whose contents a user sees (`tags.may_enter`)."""
        return await self._vhosts(user, tags.may_enter)

    async def seen_vhosts(self, user: User) -> list[VirtualHost]:
        """Return those that a user sees (`tags.may_see`)."""
        return await self._vhosts(user, tags.may_see)

    async def _vhosts(self, user: User, may: Callable[[User, str], bool]) -> list[VirtualHost]:
        there = tuple(self.broker.vhosts.values())
        if user.remote is None:
            return [vhost for vhost in there if may(user, vhost.name)]
        return [each for each in there if await self.decided(partial(may, user, each.name))]

    async def need_arrow(self, user: User) -> None:
        """Have pyarrow imported; raises Refusal if it is not installed."""
        # Not what stands in `sys.modules`: a thread may have imported it by half, and who imports
        # it as well waits for the thread, as the loop would.
        if ARROW not in self.loaded:
            async with self.encoding(user.name) as encode:
                await encode(need_arrow)
            self.loaded.add(ARROW)

    async def find_again(self, found: Found) -> Found:
        """Look a stream up once more, after others had turns; raises as `find`."""
        user, name = self.current(found.user), found.vhost.name
        await self.decided(lambda: user.check_vhost(name))
        await self.decided(lambda: user.check("read", "queue", found.name, name))
        vhost = self.broker.vhosts.get(name)
        if vhost is None:
            raise no_vhost(name)
        return Found(user, vhost, found.name, streams_of(vhost, found.name))

    @contextlib.asynccontextmanager
    async def encoding(self, user: Hashable) -> AsyncIterator[Encode]:
        """Wait until it is a user's turn for a thread; gives what runs one piece of work there.

        Raises:
            Refusal: it took too long.
        """
        encode = Encode(self.encoders, await waited_for(self.admission.shares.encoding, user))
        try:
            yield encode
        finally:
            encode.leave()

    def listing(
        self,
        user: User,
        value: Any,
        *,
        ended: Callable[[], None] = lambda: None,
        headers: Iterable[tuple[bytes, bytes]] = (),
    ) -> Listing:
        """Return an answer that is made in pieces; see `listings`."""
        turns = self.admission.turns
        return Listing(turns, user.name, value, self.monotonic, ended, headers=headers)

    async def job(self, begin: Callable[[], StepsTo[T]]) -> T:
        """Do work that goes on for several turns, once what is in its way is deleted.

        Args:
            begin: gives the steps. They are begun again when a name or a right is waited for, so
                nothing is changed before the last name is known to be free and the last right to
                be granted.

        Raises what the steps raise.
        """
        ended: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def steps() -> StepsTo[T]:
            rounds = 0
            while True:
                waits_for: object = AWAITS
                try:
                    return (yield from begin())
                except BeingDeleted:
                    pass
                except RightPending as unknown:
                    waits_for = unknown.pending
                    rounds += 1
                if rounds > ROUNDS_MAX:
                    raise too_many_rounds()
                yield waits_for

        work = acting_steps(actor(), steps())
        # It goes on without the client, and so its waiting does.
        RightsJob(self.engine.jobs, work, ended.set_result, ended.set_exception, {}, lambda: None)
        self.wake()
        return await asyncio.shield(ended)

    async def recorded(self, user: User) -> None:
        """Return when every change that was recorded so far is on disk."""
        self.wake()
        await self.synced(self.broker.recorded_generation, user)

    async def synced(self, generation: int, user: User) -> None:
        """Return when a generation is on disk, in a turn of the user's: many wait for the same.

        Raises:
            Refusal: the disk has failed. What was changed may be there after the next start or not.
        """
        if not await self.until_synced(generation):
            raise Refusal(
                503, "storage-failed", "nothing can be written to disk any more: the broker stops"
            )
        await self.admission.turns.next(user.name)


class SupportsClose(Protocol):
    """A window, or what has one."""

    def close(self) -> None:
        """Nobody reads it any more."""


class Encode:
    """One piece of work on a thread that encodes.

    Args:
        threads: they.
        slot: released when the thread is done, even if nobody waits for it any more.
    """

    def __init__(self, threads: ThreadPoolExecutor, slot: Slot) -> None:
        self._threads = threads
        self._slot = slot
        self._begun = False

    async def __call__(self, work: Callable[[], Any], window: SupportsClose | None = None) -> Any:
        """Wait for what a thread does with a window, which is closed when it is done."""
        self._begun = True
        done = asyncio.wrap_future(self._threads.submit(work))

        def end(_: object) -> None:
            if window is not None:
                window.close()
            self._slot.release()

        done.add_done_callback(end)
        try:
            return await asyncio.shield(done)
        finally:
            # Of an exception, which this future has: it would keep itself and all that was worked
            # on, for as long as nobody looks for such rings.
            del done

    def leave(self) -> None:
        """Nothing is begun from now on."""
        if not self._begun:
            self._slot.release()


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


def no_vhost(name: str) -> Refusal:
    """Say that there is no such virtual host."""
    return Refusal(404, "not-found", f"no vhost '{name}'")


def streams_of(vhost: VirtualHost, name: str) -> list[Stream]:
    """Return the engine's streams behind a name, in the order of partitions."""
    found: list[Any] = [queue.stream for queue in partitions.of(vhost, name)]
    return found


def _load_arrow() -> None:
    with contextlib.suppress(Refusal):
        need_arrow()


def need_arrow() -> None:
    """Import pyarrow, which takes a while; on a thread.

    Raises:
        Refusal: it is not installed.
    """
    try:
        # An extra: only who asks for tables needs it, or publishes some.
        import leporid.management.incoming  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name != "pyarrow":
            raise
        raise Refusal(
            501,
            "arrow-missing",
            f"the broker has no pyarrow, which reads and writes tables: {PIP_COMMAND}",
        ) from None
