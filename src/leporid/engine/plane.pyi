# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of plane.pyx."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from typing_extensions import Buffer

from leporid.engine.connection.connection import Connection
from leporid.engine.connection.group_retries import GroupRetries
from leporid.engine.connection.interceptor import Interceptor
from leporid.engine.connection.judged_stream_consumer import JudgedStreamConsumer
from leporid.engine.connection.peer import _Session
from leporid.engine.log.log import Log, Segment
from leporid.engine.log.producers import Producers
from leporid.engine.queue.consumer_verdicts import ConsumerVerdicts
from leporid.engine.queue.delays import Delays
from leporid.engine.queue.exchange_cache import Cache
from leporid.engine.queue.queue import Queue
from leporid.engine.queue.unique_queue import UniqueQueue
from leporid.engine.queue.verdict_queue import VerdictQueue
from leporid.engine.routing.conditional_routes import ConditionalRoute, FilterOutcomes
from leporid.engine.routing.route_cache import RouteCache
from leporid.engine.selectors.filter import Filter
from leporid.engine.selectors.filter_counters import FilterCounters
from leporid.engine.stream.stream import Stream

# Segment number, size of its file, offset, bytes.
_Write: TypeAlias = tuple[int, int, int, memoryview | bytes]
_StreamWork: TypeAlias = tuple[int, list[_Write] | None, list[int] | None]

MESSAGE_BYTES_MAX: Final[int]

class Plane:
    """All state of the data plane; one thread uses it."""

    now_ms: int
    """Monotonic; set at each turn."""
    wall_ms: int
    """Unix time; set at each turn."""
    publishers_blocked: bool
    """Do not read from connections that have published."""
    search_work: int
    """What filters of consumers may do in one turn, in units of one to three nanoseconds."""

    message_bytes_max: int
    interceptor: Interceptor | None
    """Changes the properties of what clients publish; None: nobody does."""
    consumer_timeout_ms: int
    """How long a delivery may be unsettled whose queue and consumer say nothing; 0: for ever."""

    map_segment: Callable[[int], Buffer] | None
    map_stream_segment: Callable[[int, int], Buffer] | None
    """The file of a stream's segment: stream id, segment number."""

    incarnation_prefix: str
    """Of this data directory; a part of every stream's incarnation."""

    """Gives the file of a sealed segment."""

    def __init__(
        self,
        seed: int = 0,
        *,
        durable_segment_bytes: int = ...,
        transient_segment_bytes: int = ...,
    ) -> None: ...
    @property
    def streams(self) -> dict[int, Stream]:
        """Those that there are, by id."""

    @property
    def generation(self) -> int:
        """The one that what happens now belongs to."""

    @property
    def synced(self) -> int:
        """The newest one that is on disk."""

    @property
    def dirty(self) -> bool:
        """Something of this generation must reach the disk."""

    @property
    def awaited(self) -> bool:
        """And somebody waits for it."""

    @property
    def transient(self) -> Log: ...
    @property
    def durable(self) -> Log: ...
    @property
    def published(self) -> int:
        """Messages routed to a queue."""

    @property
    def delivered(self) -> int:
        """Deliveries to consumers."""

    @property
    def got(self) -> int:
        """Deliveries by basic.get."""

    @property
    def acked(self) -> int:
        """Deliveries settled for good."""

    @property
    def confirmed(self) -> int: ...
    @property
    def returned(self) -> int: ...
    @property
    def redelivered(self) -> int: ...
    @property
    def unroutable(self) -> int:
        """Messages for which there was no queue."""

    @property
    def requeued(self) -> int: ...
    def counters_of_queue(self, queue: Queue) -> FilterCounters | None:
        """What filters were asked about a queue's messages; None: there were none."""

    def note_browsed(self, queue: Queue, counts: tuple[int, int, int, int]) -> None:
        """A request for a table filtered some of a queue's messages, as `Chosen.filtering` says."""

    @property
    def wishes_asked(self) -> int:
        """FilterCounters of filters of consumers: of each distinct one about each message."""

    @property
    def wishes_evaluated(self) -> int:
        """Those of them that took more than a look-up by a value."""

    @property
    def wishes_matched(self) -> int:
        """Those of them that were answered with yes."""

    @property
    def wishes_failed(self) -> int:
        """Those of them that met a type error."""

    @property
    def expired(self) -> int: ...
    @property
    def timed_out(self) -> int:
        """Deliveries that were not settled in time."""

    @property
    def received_bytes(self) -> int: ...
    @property
    def sent_bytes(self) -> int: ...
    @property
    def inbox_bytes(self) -> int:
        """Size of the buffer that every connection reads to."""

    @property
    def next_due_ms(self) -> int:
        """When `run` must be called although nothing came; 0: never."""

    @property
    def busy(self) -> bool:
        """Whether `run` would find queues to look at."""

    @property
    def segments(self) -> list[Segment]:
        """Segments of the durable log that exist, oldest first."""

    def queue(self, queue_id: int, name: str, durable: bool) -> Queue:
        """A new queue; the number is 0 for one that a restart forgets."""

    def unique_queue(self, queue_id: int, name: str, durable: bool) -> UniqueQueue:
        """A new queue that takes no message twice."""

    def cache(
        self, queue_id: int, name: str, durable: bool, *, size: int, ttl_ms: int | None
    ) -> Cache:
        """What an exchange remembers of messages, at most so many and for so long."""

    def stream(self, queue_id: int, name: str) -> Stream:
        """A new stream, made before replay."""

    def delays(
        self,
        queue_id: int,
        routes: object,
        routed: Callable[[str, Sequence[str], bytes], Sequence[object]],
        elsewhere: Callable[[str, Sequence[str], bytes], Sequence[object]] | None = None,
    ) -> Delays:
        """What waits in an exchange; made when something does, or before replay."""

    def verdict_queue(
        self,
        queue_id: int,
        name: str,
        queue: object | None,
        routed: Callable[[str, Sequence[str], bytes], Sequence[object]] | None = None,
        elsewhere: Callable[[str, Sequence[str], bytes], Sequence[object]] | None = None,
    ) -> VerdictQueue:
        """What of a binding waits for a filter class.

        `queue` is None where an exchange is bound; `routed` gives its queues for (exchange, keys,
        properties).
        """

    def group_retries(self, queue_id: int, name: str) -> GroupRetries:
        """What members of a group gave back; made with its first option, or before replay."""

    def take_judging(self) -> list[VerdictQueue | JudgedStreamConsumer | ConsumerVerdicts]:
        """Who has something to ask a filter class since the last call; some may be gone."""

    def waiting_for(self, name: str) -> int:
        """How many messages of queues wait for a filter class, as far as consumers have looked."""

    def renew_filter_class(self, name: str) -> None:
        """Another version counts: consumers of queues have it look at everything that is there."""

    def route_cache(
        self,
        name: str,
        resolve: Callable[[str, bytes | None], object],
        cacheable: bool,
    ) -> RouteCache:
        """The cache of routes for one exchange."""

    def conditional_route(
        self, queues: Iterable[object], filtered: Iterable[tuple[Filter, object]]
    ) -> ConditionalRoute:
        """What a resolver answers for a key if some of its queues take some messages only.

        Args:
            queues: of every message.
            filtered: None of the queues is among `queues`.
        """

    @property
    def filters_asked(self) -> int:
        """FilterCounters to filters of bindings: each filter that a message met is one."""

    @property
    def filters_evaluated(self) -> int:
        """Those of them that no tag or value answered, so that properties were looked at."""

    @property
    def filters_matched(self) -> int:
        """Those that were answered with yes."""

    @property
    def filters_failed(self) -> int:
        """Those that were answered with no, and met a type error."""

    def filter_outcomes(self, filters: Iterable[Filter]) -> FilterOutcomes:
        """What a resolver answers for a key if filters decide more than which queues take it."""

    def note_filtered(self, evaluated: int, matched: int, failed: int) -> None:
        """Filters were asked by somebody else about a message."""

    def connection(self, session: _Session | None = None) -> Connection:
        """A new connection; set its `session` before it reads."""

    def run(self) -> None:
        """Expire, deliver and confirm what is due; after each turn."""

    @property
    def stream_filtering(self) -> tuple[int, int, int, int]:
        """What filters made of all streams there were, as each of them has it."""

    def take_touched(self) -> list[Connection]:
        """Connections that have output or want to be closed, since the last call."""

    def publish(
        self,
        queues: Sequence[object],
        exchange: str,
        key: str,
        properties: bytes,
        body: bytes,
        producer: bytes | None = None,
        sequence: int = 0,
        elsewhere: Callable[[], Sequence[object]] | None = None,
    ) -> bool:
        """A message of the broker's own, such as a dead letter; returns whether it is new."""

    def snapshot(self, queue: object) -> list[tuple[str, str, bytes, bytes]]:
        """What is ready in a queue, to be published again; `engine.snapshot` says how it looks."""

    @property
    def producers(self) -> Producers:
        """Those that say who they are, of messages to queues."""

    def note_change(self) -> int:
        """A definition changed; returns the generation it belongs to."""

    def mark_clean(self) -> None:
        """The last facts of an orderly shutdown."""

    def begin_sync(self) -> tuple[int, list[_Write], list[int], list[_StreamWork]] | None:
        """Close the generation: its number, writes, drops, streams; None when there is nothing."""

    def end_sync(
        self, generation: int, writes: list[_Write], streams: Sequence[_StreamWork] = ()
    ) -> None:
        """That generation is on disk."""
