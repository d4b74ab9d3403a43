"""A stand-in for the engine, with just as much behaviour as the rules can see.

It keeps bodies in lists, delivers at once, and notes what was sent as method objects: what the
control plane tells the engine can be seen here, and cannot in the engine. Tests of what then
happens to messages use the real engine. `as_engine` is the one place where types are given up.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

from tests.broker.fake_route_cache import FakeRouteCache

from leporid.amqp.errors import Fault
from leporid.amqp.methods import Method, decode
from leporid.broker.registry import finished
from leporid.engine.bounds.clock import Clock
from leporid.engine.bounds.jobs import Jobs
from leporid.engine.internal.delays import DelayTotals
from leporid.engine.queue.counters import Totals
from leporid.engine.routing.route_cache import BY_MESSAGE
from leporid.engine.selectors.filter import FilterCounters

if TYPE_CHECKING:
    from leporid.broker.connection.session import ConnectionState
    from leporid.engine.connection.group_retries import GroupRetries
    from leporid.engine.selectors.filter import Filter
    from leporid.engine.stream.choice import Choice

F = TypeVar("F")


def as_engine(fake: object) -> Any:
    """Pass a fake for what it stands in for."""
    return fake


def fake_of(engine: object, kind: type[F]) -> F:
    """Return the fake that the control plane has for a part of the engine."""
    assert isinstance(engine, kind)
    return engine


@dataclass(eq=False)
class FakeQueue:
    id: int
    name: str
    durable: bool
    ready: list[str] = field(default_factory=list)
    consumers: list[FakeConsumer] = field(default_factory=list)
    unacked_count: int = 0
    held_count: int = 0
    backlog_count: int = 0
    given_up: Callable[[str], None] | None = None
    on_unroutable: Callable[[], None] | None = None
    retired: bool = False
    paused: bool = False

    dead_letters: Callable[[str, str, str, bytes, bytes], None] | None = None
    private: bool = False
    limits: dict[str, object] = field(default_factory=dict)

    def count_in(self, totals: Totals) -> None: ...

    def set_paused(self, paused: bool) -> None:
        self.paused = paused

    def uncount(self) -> None: ...

    def count_as(self, kind: str, vhost: str | None = None) -> None: ...

    @property
    def overflow(self) -> int:
        """Whether it refuses messages when it is full."""
        return int(self.limits.get("overflow") not in (None, "drop-head"))

    def set_limits(self, *, max_length: int | None, max_bytes: int | None, overflow: str) -> None:
        self.limits |= {"max_length": max_length, "max_bytes": max_bytes, "overflow": overflow}

    def set_message_ttl(self, ttl_ms: int | None) -> None:
        self.limits["ttl_ms"] = ttl_ms

    def set_delivery_limit(self, limit: int | None, counted: bool) -> None:
        self.limits["returns"] = (limit, counted)

    def set_retries(self, kind: str, min_ms: int, max_ms: int) -> None:
        self.limits["retries"] = (kind, min_ms, max_ms)

    def set_consumer_timeout(self, timeout_ms: int | None, requeues: bool) -> None:
        self.limits["timeout"] = (timeout_ms, requeues)

    def set_priorities(self, highest: int) -> None:
        self.limits["priorities"] = highest

    def set_single_active_consumer(self, single: bool) -> None:
        self.limits["single"] = single

    @property
    def ready_count(self) -> int:
        return len(self.ready)

    @property
    def ready_bytes(self) -> int:
        return sum(map(len, self.ready))

    def push(self, body: str) -> None:
        self.ready.append(body)
        self.deliver()

    def deliver(self) -> None:
        while self.ready and self.consumers:
            consumer = self.consumers[0]
            consumer.channel.connection.delivered.append((consumer.tag, self.ready.pop(0)))

    def purge(self) -> int:
        count = len(self.ready)
        self.ready.clear()
        return count

    def purging(self) -> Generator[None, None, int]:
        yield
        return self.purge()

    def retire(self) -> int:
        assert not self.consumers, "consumers must be gone before their queue"
        self.retired = True
        return self.purge()


@dataclass(eq=False)
class FakeCache(FakeQueue):
    """Remembers the properties that a test puts in."""

    known: set[bytes] = field(default_factory=set)

    def has(self, properties: bytes, /) -> bool:
        return properties in self.known


@dataclass(eq=False)
class FakeStream(FakeQueue):
    """Keeps what is pushed, delivers at once; a message comes at the time of its clock."""

    engine: FakePlane | None = None
    title: str = ""
    bodies: list[tuple[int, str]] = field(default_factory=list)
    first: int = 0
    retention: dict[str, int | None] = field(default_factory=dict)
    last_chunk: int = 0
    on_skipped: Callable[[list[tuple[FakeReader, int, int]]], None] | None = None

    @property
    def next_offset(self) -> int:
        return self.first + len(self.bodies)

    @property
    def end(self) -> int:
        return self.next_offset

    @property
    def ready_count(self) -> int:
        return len(self.bodies)

    def set_retention(
        self, *, max_bytes: int | None, max_age_ms: int | None, segment_bytes: int | None
    ) -> None:
        self.retention = {
            "max_bytes": max_bytes,
            "max_age_ms": max_age_ms,
            "segment_bytes": segment_bytes,
        }

    def offset_for(self, timestamp_ms: int, /) -> int:
        for offset, (came_ms, _) in enumerate(self.bodies, self.first):
            if came_ms >= timestamp_ms:
                return offset
        return self.end

    def push(self, body: str) -> None:
        assert self.engine is not None
        self.last_chunk = self.next_offset
        self.bodies.append((self.engine.clock.wall_ms, body))
        self.deliver()

    def deliver(self) -> None:
        for reader in self.consumers:
            assert isinstance(reader, FakeReader)
            reader.fill(self)

    def drop_before(self, offset: int) -> None:
        """Retention drops messages, and waits for no reader."""
        del self.bodies[: offset - self.first]
        self.first = offset
        skips = []
        for reader in self.consumers:
            assert isinstance(reader, FakeReader)
            if reader.offset < offset:
                skips.append((reader, reader.offset, offset))
                reader.note_skipped(offset - reader.offset)
                reader.offset = offset
        if skips and self.on_skipped is not None:
            self.on_skipped(skips)

    def purge(self) -> int:
        count = len(self.bodies)
        self.bodies.clear()
        return count


@dataclass(eq=False)
class FakeDelays(FakeQueue):
    """Keeps bodies until they are fired by hand."""

    routes: object = None
    routed: Callable[[str, Sequence[str], bytes], Sequence[FakeQueue]] = lambda name, keys, raw: []
    fired: int = 0
    cancelled: int = 0
    unroutable: int = 0

    def count_delays_in(self, totals: DelayTotals) -> None: ...

    def message(self, seq: int) -> tuple[int, int, str, str, int, bytes] | None:
        if seq >= len(self.ready) or not self.ready[seq]:
            return None
        return 1000 + seq, 900, "exchange", "key", len(self.ready[seq]), b"\0\0"

    def content(self, seq: int) -> tuple[bytes, bytes]:
        return b"\0\0", self.ready[seq].encode()

    def cancel(self, seq: int) -> bool:
        self.ready[seq] = ""
        self.cancelled += 1
        return True

    def upcoming(self, limit: int, after: tuple[int, int] | None = None) -> list[int]:
        first = 0 if after is None else after[1] + 1
        return [number for number in range(first, len(self.ready)) if self.ready[number]][:limit]


@dataclass(eq=False)
class FakeGroupRetries(FakeQueue):
    choice: Choice | None = None
    waiting: int = 0
    retried: int = 0
    dropped: int = 0
    filtered: int = 0
    missed: int = 0

    def set_stamps(self, *_: object) -> None: ...


@dataclass(eq=False)
class FakeConsumer:
    channel: FakeChannel
    queue: FakeQueue
    tag: str
    no_ack: bool
    priority: int
    prefetch: int
    timeout: tuple[int | None, bool | None] = (None, None)
    filter: Filter | None = None
    judging: int = 0


@dataclass(eq=False)
class FakeReader(FakeConsumer):
    offset: int = 0
    choice: Choice | None = None
    credit: FakeCredit | None = None
    filter_class: str | None = None
    unacked: list[int] = field(default_factory=list)
    wanted: int = 0
    skipped: int = 0
    unreported: int = 0

    def note_skipped(self, count: int) -> None:
        self.skipped += count
        self.unreported += count

    @property
    def settled_offset(self) -> int:
        return min(self.unacked, default=self.offset)

    has_unsettled = property(lambda self: bool(self.unacked))

    # What comes back is the engine's alone; here nothing does.
    retries: GroupRetries | None = None
    kept_generation: int = 0

    def withdraw_rejects(self) -> None: ...

    def keep_returned(self) -> None: ...

    @property
    def may_take(self) -> bool:
        if self.credit is not None:
            return self.credit.left > 0
        return len(self.unacked) < self.prefetch

    def fill(self, stream: FakeStream) -> None:
        self.offset = max(self.offset, stream.first)
        while self.offset < stream.end and self.may_take:
            _, body = stream.bodies[self.offset - stream.first]
            self.channel.connection.delivered.append((self.tag, body))
            self.unacked.append(self.offset)
            self.offset += 1

    def ack(self, count: int = 1) -> None:
        """The client acknowledges the oldest deliveries."""
        del self.unacked[:count]
        for reader in self.credit.readers if self.credit is not None else ():
            if reader in reader.queue.consumers:
                assert isinstance(reader.queue, FakeStream)
                reader.fill(reader.queue)


@dataclass(eq=False)
class FakeConditionalRoute:
    """Queues of every message, and such as depend on it."""

    queues: Sequence[FakeQueue]
    filtered: Sequence[tuple[Filter, FakeQueue]]
    amended: bool = False

    def queues_for(self, exchange: str, key: str, properties: bytes) -> list[FakeQueue]:
        some = [
            queue
            for wanted, queue in self.filtered
            if wanted.matches_message(exchange, key, properties)
        ]
        return list(dict.fromkeys([*self.queues, *some]))


@dataclass(eq=False)
class FakeFilterOutcomes:
    """Filters that must be asked for each message."""

    filters: Sequence[Filter]


@dataclass(eq=False)
class FakeCredit:
    """What readers may have unsettled together."""

    limit: int
    readers: list[FakeReader] = field(default_factory=list)

    @property
    def left(self) -> int:
        return self.limit - sum(len(reader.unacked) for reader in self.readers)


@dataclass(eq=False)
class FakeChannel:
    connection: FakeConnection
    number: int
    confirming: bool = False
    transactional: bool = False
    prefetch_count: int = 0
    prefetch_global: int = 0
    recovered: int = 0
    consumers: list[FakeConsumer] = field(default_factory=list)
    readers: list[FakeReader] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    tx_refused: bool = False
    muted: bool = False
    forgotten: int = 0
    trace: object | None = None

    def forget_exchange(self) -> None:
        self.forgotten += 1

    def consume(
        self,
        queue: FakeQueue,
        tag: str,
        no_ack: bool,
        priority: int,
        prefetch: int,
        timeout_ms: int | None = None,
        timeout_requeues: bool | None = None,
        filter: Filter | None = None,  # noqa: A002
    ) -> FakeConsumer:
        timeout = timeout_ms, timeout_requeues
        consumer = FakeConsumer(self, queue, tag, no_ack, priority, prefetch, timeout, filter)
        self.consumers.append(consumer)
        queue.consumers.append(consumer)
        queue.deliver()
        return consumer

    def credit(self, limit: int, /) -> FakeCredit:
        return FakeCredit(limit)

    def consume_stream(
        self,
        stream: FakeStream,
        tag: str,
        prefetch: int,
        offset: int,
        choice: Choice | None = None,
        credit: FakeCredit | None = None,
        filter_class: str | None = None,
    ) -> FakeReader:
        reader = FakeReader(
            self, stream, tag, False, 0, prefetch, offset=offset, choice=choice, credit=credit
        )
        reader.filter_class = filter_class
        reader.wanted = offset
        if credit is not None:
            credit.readers.append(reader)
        self.consumers.append(reader)
        self.readers.append(reader)
        stream.consumers.append(reader)
        stream.deliver()
        return reader

    def consume_retries(
        self, retries: FakeGroupRetries, tag: str, credit: FakeCredit
    ) -> FakeConsumer:
        consumer = FakeConsumer(self, retries, tag, False, 0, 0)
        retries.consumers.append(consumer)
        self.consumers.append(consumer)
        return consumer

    def cancel(self, consumer: FakeConsumer) -> None:
        if consumer in self.consumers:
            self.consumers.remove(consumer)
            consumer.queue.consumers.remove(consumer)

    def drop_unsettled(self, consumer: FakeReader) -> None:
        consumer.unacked.clear()

    def get(self, queue: FakeQueue, no_ack: bool) -> bool:
        if not queue.ready:
            return False
        self.connection.delivered.append(("", queue.ready.pop(0)))
        return True

    def recovering(self) -> Generator[None, None, None]:
        yield
        self.recovered += 1

    def select_confirm(self) -> None:
        self.confirming = True

    def select_tx(self) -> None:
        self.transactional = True

    def append_to_streams(self) -> bool:
        return False

    def commit(self) -> int:
        self.log.append("commit")
        return 7

    def rollback(self) -> None:
        self.log.append("rollback")

    def set_flow(self, active: bool) -> None:
        self.log.append(f"flow {active}")

    def mute(self) -> None:
        self.muted = True

    def end(self) -> Iterator[None]:
        self.mute()
        for consumer in tuple(self.consumers):
            self.cancel(consumer)
            yield
        # The engine forgets what was not settled; nobody may ask a reader afterwards.
        for reader in self.readers:
            reader.unacked.clear()


class FakeConnection:
    """Notes everything; `publish` does to the session what the engine's publish does."""

    session: ConnectionState

    def __init__(self) -> None:
        self.frame_max = 4096
        self.user_id = b""
        self.channels: dict[int, FakeChannel] = {}
        self.refused: set[int] = set()
        self.sent: list[tuple[int, Method]] = []
        self.events: list[str] = []
        self.delivered: list[tuple[str, str]] = []
        self.finished = self.blocked = False
        self.jobs = 0

    @property
    def output(self) -> FakeConnection:
        return self

    def send(self, channel: int, method: bytes) -> None:
        decoded = decode(method)
        self.sent.append((channel, decoded))
        self.events.append(decoded.NAME)

    def open_channel(self, number: int) -> FakeChannel:
        self.channels[number] = FakeChannel(self, number)
        return self.channels[number]

    def close_channel(self, number: int) -> None:
        self.refused.discard(number)
        channel = self.channels.pop(number, None)
        if channel is not None:
            list(channel.end())

    def refuse_channel(self, number: int) -> None:
        list(self.channels[number].end())
        self.refused.add(number)

    def mute(self) -> None:
        for channel in self.channels.values():
            channel.mute()
        self.channels = {}

    def unblock(self) -> None:
        self.blocked &= self.session.broker.engine.connections.publishers_blocked

    def begin_work(self) -> None:
        self.jobs += 1

    def end_work(self) -> None:
        self.jobs -= 1

    def hold(self, generation: int) -> None:
        self.events.append(f"hold {generation}")

    def await_eof(self) -> None:
        self.events.append("await eof")

    def finish(self) -> None:
        self.finished = True
        self.events.append("finish")

    def publish(
        self,
        channel: int,
        exchange: str,
        key: str,
        body: str = "m",
        *,
        properties: bytes = b"\0\0",
        copies: Sequence[str] = (),
    ) -> int:
        """Publish; returns to how many queues. None while an alarm is on."""
        self.blocked = self.session.broker.engine.connections.publishers_blocked
        if self.blocked:
            self.session.on_blocked()
            return 0
        try:
            routes = self.session.route_cache(exchange)
            assert routes is not None, "a right is waited for"
            if copies:
                queues: Sequence[FakeQueue] = as_engine(
                    finished(self.session.copies(routes, exchange, [key, *copies], properties))
                )
            else:
                given = None if routes.cacheable else properties
                resolve = fake_of(routes, FakeRouteCache).resolve
                assert resolve is not None
                found = finished(resolve(key, given))
                if found is BY_MESSAGE:
                    found = finished(resolve(key, properties))
                if isinstance(found, FakeConditionalRoute):
                    found = found.queues_for(exchange, key, properties)
                assert isinstance(found, Sequence)
                queues = found
        except Fault as fault:
            self.session.on_fault(channel, fault)
            return 0
        for queue in queues:
            queue.push(body)
        return len(queues)


class FakePlane:
    """An engine whose parts are itself."""

    def __init__(self) -> None:
        self.jobs = Jobs(Clock())
        self.publishers_blocked = False
        self.generation = 1
        self.synced = 1
        self.queues: list[FakeQueue] = []
        self.wall_ms = 0
        self.filtered: tuple[int, ...] = (0, 0, 0)
        self.publishing = SimpleNamespace(filters=FilterCounters())
        self.now_ms = 0

    def storing(
        self,
        queues: Sequence[FakeQueue],
        _exchange: str,
        _key: str,
        _properties: bytes,
        body: bytes,
    ) -> Generator[None, None, tuple[Sequence[FakeQueue], bytes]]:
        """It takes no step."""
        yield from ()
        return queues, body

    def publish(
        self,
        queues: Sequence[FakeQueue],
        exchange: str,
        key: str,
        properties: bytes,
        body: bytes,
        *,
        elsewhere: Callable[[], Sequence[FakeQueue]] | None = None,
    ) -> bool:
        for queue in queues:
            queue.push(body.decode())
        return bool(queues)

    @property
    def clock(self) -> FakePlane:
        return self

    logs = searches = connections = clock

    def waiting_for(self, name: str) -> int:
        return 0

    def note_change(self) -> int:
        return self.generation

    def queue(self, queue_id: int, name: str, durable: bool) -> FakeQueue:
        queue = FakeQueue(queue_id, name, durable)
        self.queues.append(queue)
        return queue

    def unique_queue(self, queue_id: int, name: str, durable: bool) -> FakeQueue:
        queue = self.queue(queue_id, name, durable)
        queue.limits["unique"] = True
        return queue

    def cache(
        self, queue_id: int, name: str, durable: bool, *, size: int, ttl_ms: int | None
    ) -> FakeCache:
        cache = FakeCache(queue_id, name, durable, private=True)
        cache.limits |= {"size": size, "ttl_ms": ttl_ms}
        self.queues.append(cache)
        return cache

    def stream(self, queue_id: int, name: str) -> FakeStream:
        stream = FakeStream(queue_id, name, True, engine=self)
        self.queues.append(stream)
        return stream

    def snapshot(self, queue: FakeQueue) -> list[tuple[str, str, bytes, bytes]]:
        return [("published", "k", b"\0\0", body.encode()) for body in queue.ready]

    def delays(
        self,
        queue_id: int,
        routes: object,
        routed: Callable[[str, Sequence[str], bytes], Sequence[FakeQueue]],
        elsewhere: Callable[[str, Sequence[str], bytes], Sequence[FakeQueue]],
    ) -> FakeDelays:
        delays = FakeDelays(queue_id, "", queue_id != 0, routes=routes, routed=routed)
        self.queues.append(delays)
        return delays

    def verdict_queue(
        self,
        queue_id: int,
        name: str,
        queue: FakeQueue | None,
        routed: Callable[[str, Sequence[str], bytes], Sequence[FakeQueue]] | None = None,
        elsewhere: Callable[[str, Sequence[str], bytes], Sequence[FakeQueue]] | None = None,
    ) -> FakeQueue:
        queue = FakeQueue(queue_id, name, queue_id != 0)
        self.queues.append(queue)
        return queue

    def group_retries(self, queue_id: int, name: str) -> FakeGroupRetries:
        retries = FakeGroupRetries(queue_id, name, True)
        self.queues.append(retries)
        return retries

    def note_filtered(self, evaluated: int, matched: int, failed: int) -> None:
        counted = evaluated, matched, failed
        self.filtered = tuple(map(sum, zip(self.filtered, counted, strict=True)))

    def forget_deliveries(self, vhost: str) -> None: ...

    conditional_route, filter_outcomes, route_cache = (
        FakeConditionalRoute,
        FakeFilterOutcomes,
        FakeRouteCache,
    )
