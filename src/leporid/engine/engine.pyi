# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of engine.pyx."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import TypeAlias

from leporid.engine.bounds.clock import Clock
from leporid.engine.bounds.jobs import Jobs
from leporid.engine.connection.connection import Connection, _Session
from leporid.engine.connection.connections import Connections
from leporid.engine.connection.group_retries import GroupRetries
from leporid.engine.internal.delays import Delays
from leporid.engine.internal.verdict_queue import VerdictQueue
from leporid.engine.log.log import RecordMemory
from leporid.engine.log.logs import Logs
from leporid.engine.publishing.publishing import Publishing
from leporid.engine.queue.counters import Totals
from leporid.engine.queue.exchange_cache import ExchangeCache
from leporid.engine.queue.queue import Queue
from leporid.engine.queue.queues import Queues
from leporid.engine.queue.unique_queue import UniqueQueue
from leporid.engine.routing.conditional_routes import ConditionalRoute, FilterOutcomes
from leporid.engine.routing.route_cache import CachedRoutes, RouteCache
from leporid.engine.selecting.filtered_consumers import Searches
from leporid.engine.selecting.verdicts import Verdicts
from leporid.engine.selectors.filter import Filter
from leporid.engine.stream.stream import Stream, Streams

# Segment number, size of its file, offset, bytes.
_Write: TypeAlias = tuple[int, int, int, memoryview | bytes]
_StreamWork: TypeAlias = tuple[int, list[_Write] | None, list[int] | None]

class Engine:
    """The data plane of one broker; one thread uses it."""

    def __init__(
        self,
        seed: int = 0,
        *,
        durable_segment_bytes: int = ...,
        transient_segment_bytes: int = ...,
    ) -> None: ...
    @property
    def clock(self) -> Clock:
        """The time; set at each turn."""

    @property
    def jobs(self) -> Jobs:
        """Work that goes on for many turns."""

    @property
    def logs(self) -> Logs: ...
    @property
    def queues(self) -> Queues: ...
    @property
    def streams(self) -> Streams: ...
    @property
    def verdicts(self) -> Verdicts: ...
    @property
    def searches(self) -> Searches: ...
    @property
    def publishing(self) -> Publishing: ...
    @property
    def cached_routes(self) -> CachedRoutes: ...
    @property
    def connections(self) -> Connections: ...
    @property
    def next_due_ms(self) -> int:
        """When `run` must be called even if there is no input; 0: never."""

    @property
    def busy(self) -> bool:
        """Whether `run` would find something to do."""

    def queue(self, queue_id: int, name: str, durable: bool) -> Queue:
        """Make a queue; the id is 0 for a queue that a restart forgets."""

    def unique_queue(self, queue_id: int, name: str, durable: bool) -> UniqueQueue:
        """Make a queue that takes no message twice."""

    def cache(
        self, queue_id: int, name: str, durable: bool, *, size: int, ttl_ms: int | None
    ) -> ExchangeCache:
        """Make the deduplication cache of an exchange."""

    def stream(self, queue_id: int, name: str) -> Stream:
        """Make a stream; before replay."""

    def delays(
        self,
        queue_id: int,
        routes: object,
        routed: Callable[[str, Sequence[str], bytes], Sequence[object] | Iterator[object]],
        elsewhere: Callable[[str, Sequence[str], bytes], Sequence[object]] | None = None,
    ) -> Delays:
        """Make the queue of an exchange's delayed messages.

        It is made with the first of them, or before replay.
        """

    def verdict_queue(
        self,
        queue_id: int,
        name: str,
        queue: object | None,
        routed: Callable[[str, Sequence[str], bytes], Iterator[object]] | None = None,
        elsewhere: Callable[[str, Sequence[str], bytes], Sequence[object]] | None = None,
    ) -> VerdictQueue:
        """Make the queue of a binding's messages that wait for a filter class.

        `queue` is None if the destination is an exchange; `routed` then finds that exchange's
        queues for (exchange, keys, properties), in steps.
        """

    def group_retries(self, queue_id: int, name: str) -> GroupRetries:
        """Make the queue of messages that members of a group returned.

        It is made with the group's first option, or before replay.
        """

    def route_cache(
        self,
        name: str,
        resolve: Callable[[str, bytes | None], object],
        cacheable: bool,
        totals: Totals | None = None,
    ) -> RouteCache:
        """Make the route cache of an exchange; `totals` counts what clients publish to it."""

    def forget_deliveries(self, vhost: str) -> None:
        """A virtual host is gone: its deliveries stay in the totals."""

    def conditional_route(
        self, queues: Iterable[object], filtered: Iterable[tuple[Filter, object]]
    ) -> ConditionalRoute:
        """Make what a resolver returns for a key of which some bindings have filters.

        Args:
            queues: take every message.
            filtered: (filter, queue); none of these queues is among `queues`.
        """

    def filter_outcomes(self, filters: Iterable[Filter]) -> FilterOutcomes:
        """Make what a resolver returns for a key if filters decide more than the queues."""

    def connection(self, session: _Session | None = None) -> Connection:
        """Make a connection; set its `session` before it reads."""

    def run(self) -> None:
        """Expire, deliver and confirm what is due; called after each turn's input."""

    def storing(
        self,
        queues: Sequence[Queue],
        exchange: str,
        key: str,
        properties: bytes,
        body: bytes | RecordMemory,
    ) -> Generator[None, None, tuple[list[Queue], bytes | RecordMemory]]:
        """Do what takes long of a message of the broker itself, in steps, before `publish`.

        Returns the queues that do not have it yet, and its body for them.
        """

    def publish(
        self,
        queues: Sequence[object],
        exchange: str,
        key: str,
        properties: bytes,
        body: bytes | RecordMemory,
        producer: bytes | None = None,
        sequence: int = 0,
        elsewhere: Callable[[], Sequence[object]] | None = None,
    ) -> bool:
        """Publish a message of the broker itself, such as a dead letter; return if it is new."""

    def mark_clean(self) -> None:
        """Append the last facts of an orderly shutdown."""

    @property
    def noting_streams(self) -> bool:
        """Whether messages of streams are on disk, and cannot be read yet."""

    def begin_sync(self) -> tuple[int, list[_Write], list[int], list[_StreamWork]] | None:
        """Close the generation: its number, writes, drops, streams; None when there is nothing."""

    def close_generation(self) -> tuple[int, list[_Write], list[int]] | None:
        """Close it without the streams, which `collected_streams` gives."""

    def collected_streams(self, *, whole: bool = False) -> list[_StreamWork] | None:
        """Streams of the generation that was closed; None: there was no time for all of them."""

    def end_sync(
        self,
        generation: int,
        writes: list[_Write],
        streams: list[_StreamWork] | None = None,
        *,
        whole: bool = True,
    ) -> None:
        """The generation is on disk."""
