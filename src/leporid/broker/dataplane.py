"""What the rules need of the engine, as protocols.

Responsible for saying which of the engine's methods the control plane uses, and what it relies
on. Must not know how the engine does it. Invariant: everything in `broker/` reaches the engine
through these, so that its tests run against a fake of a hundred lines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from leporid.engine.stream.choice import Choice

from leporid.engine.selectors.filter import Filter
from leporid.engine.selectors.filter_counters import FilterCounters

# Asked for the queues of one routing key; with the properties only where the route cache is not
# cacheable, because an exchange on the way looks at more than keys. Without them the answer may be
# a fork.
Resolve = Callable[[str, bytes | None], "Sequence[Queue] | ConditionalRoute | FilterOutcomes"]

# A message: exchange, routing key, encoded properties, body.
Stored = tuple[str, str, bytes, bytes]


class DeadLetterPort(Protocol):
    """Takes what died in a queue: why, and the message."""

    def __call__(
        self, reason: str, exchange: str, key: str, properties: bytes, body: bytes
    ) -> None:
        """Take one message, whose properties are encoded."""


class Queue(Protocol):
    """The engine's half of a queue: its entries and who takes from it."""

    @property
    def name(self) -> str:
        """Its name, as it was made."""

    @property
    def ready_count(self) -> int:
        """Messages that wait for a consumer."""

    @property
    def unacked_count(self) -> int:
        """Messages delivered and not settled."""

    @property
    def ready_bytes(self) -> int:
        """Bytes of the bodies that wait."""

    @property
    def held_count(self) -> int:
        """Messages that came back, and are not ready again yet."""

    @property
    def backlog_count(self) -> int:
        """Messages of the broker's own that wait for room."""

    dead_letters: DeadLetterPort | None
    """Called with each message that leaves unacknowledged."""

    given_up: Callable[[str], None] | None
    """Called with the reason when a message that waited for room is not kept any longer."""

    private: bool
    """It is the broker's own: what comes to no other queue is unroutable all the same."""

    def set_limits(self, *, max_length: int | None, max_bytes: int | None, overflow: str) -> None:
        """Bound the ready messages; `overflow` says what happens beyond."""

    def set_message_ttl(self, ttl_ms: int | None) -> None:
        """How long a message stays at most."""

    def set_delivery_limit(self, limit: int | None, counted: bool) -> None:
        """How often a message may come back; and whether it says how often it did."""

    def set_retries(self, kind: str, min_ms: int, max_ms: int) -> None:
        """Hold what comes back before it is ready again."""

    def set_consumer_timeout(self, timeout_ms: int | None, requeues: bool) -> None:
        """How long a delivery may be unsettled; and whether it then goes back alone."""

    def set_priorities(self, highest: int) -> None:
        """Have messages leave by priority, 0 to `highest`."""

    def set_single_active_consumer(self, single: bool) -> None:
        """Have one consumer at a time."""

    def purge(self) -> int:
        """Drop what is ready or held; return how many there were."""

    def retire(self) -> int:
        """Drop everything for good; return how many were ready. Consumers are gone by then."""


class Cache(Queue, Protocol):
    """The engine's half of what an exchange remembers; stands among the queues of a route."""

    def has(self, properties: bytes, /) -> bool:
        """Whether a message with these properties came before."""


class Delays(Queue, Protocol):
    """What waits in an exchange; entries have numbers."""

    on_unroutable: Callable[[], None] | None
    """Called for each message that came to no queue when it was due."""

    @property
    def fired(self) -> int:
        """Messages that went their way, since the start."""

    @property
    def cancelled(self) -> int:
        """Messages that were cancelled."""

    @property
    def unroutable(self) -> int:
        """Messages that went their way and came to no queue."""

    def message(self, seq: int) -> tuple[int, int, str, str, int, bytes] | None:
        """(due_ms, came_ms, exchange, key, body_bytes, properties) of what waits under a number."""

    def content(self, seq: int) -> tuple[bytes, bytes]:
        """(properties, body) of what waits under a number, which must be there."""

    def cancel(self, seq: int) -> bool:
        """Drop what waits under a number; returns whether it was there."""

    def upcoming(self, limit: int, after: tuple[int, int] | None = None) -> list[int]:
        """The numbers of what is due next; `after` is (due_ms, number) of the last one known."""


class Staging(Queue, Protocol):
    """What waits for the verdicts of a filter class, whose name it has."""

    @property
    def name(self) -> str:
        """The class's."""


class Stream(Queue, Protocol):
    """The engine's half of a stream: messages that stay, numbered by offset from 0."""

    title: str
    """Its name as reply texts have it; the rules give it."""

    @property
    def first(self) -> int:
        """Offset of the oldest message."""

    @property
    def end(self) -> int:
        """Messages below are on disk, and may be read."""

    @property
    def next_offset(self) -> int:
        """The offset of the next message that comes."""

    @property
    def last_chunk(self) -> int:
        """First offset of what the last sync brought."""

    def offset_for(self, timestamp_ms: int, /) -> int:
        """The first offset that came at that time or later; `end` if none did yet."""

    def set_retention(
        self, *, max_bytes: int | None, max_age_ms: int | None, segment_bytes: int | None
    ) -> None:
        """What may go: whole segments beyond a size or an age, never the newest."""


class ConditionalRoute(Protocol):
    """Where a key leads if some of its queues take some messages only."""

    @property
    def amended(self) -> bool:
        """Whether it has other filters than it was made of."""


class FilterOutcomes(Protocol):
    """Where a key leads if filters decide more than which queues take a message."""


class RouteCache(Protocol):
    """The engine's half of an exchange: a cache of routes."""

    cacheable: bool

    make_delays: Callable[[], object] | None
    """Asked for what waits in the exchange when the first message is to wait."""

    delaying: bool
    """Whether x-delay counts here, and not only x-deliver-at."""

    check_key: Callable[[str], None] | None
    """Raises a fault for a key that may not be published with; None: there is no such."""

    spread_keys: Callable[[], Sequence[str]] | None
    """Gives keys that lead to the partitions in turn, for rows of tables that have no key."""

    @property
    def counters(self) -> FilterCounters:
        """What filters were asked about messages that come in here."""

    def forget(self) -> None:
        """Drop all cached routes."""

    def amend(
        self, meets: Callable[[str], bool], wanted: Filter, queue: object, comes: bool, /
    ) -> None:
        """A binding with a filter came or went that leads from here to a queue."""

    def forget_key(self, key: str, /) -> None:
        """Drop the cached route of one key."""

    def retire(self) -> None:
        """The exchange is gone: whoever publishes to it asks the session again."""


class Consumer(Protocol):
    """One subscription of a channel to a queue."""

    @property
    def tag(self) -> str:
        """The consumer tag."""

    @property
    def judging(self) -> int:
        """Messages that wait for a filter class to say whether they are for it."""


class Credit(Protocol):
    """What several subscriptions to streams may have unsettled together."""


class StreamConsumer(Consumer, Protocol):
    """A subscription of a channel to a stream."""

    @property
    def offset(self) -> int:
        """Of the message that is next to be delivered."""

    @property
    def settled_offset(self) -> int:
        """Everything below was delivered and settled, and nothing of it is to be read again."""

    @property
    def has_unsettled(self) -> bool:
        """Whether something that was delivered is not settled."""

    retries: GroupRetries | None
    """Where what comes back is kept; None: nowhere."""

    @property
    def kept_generation(self) -> int:
        """`settled_offset` must not be on disk before that generation is."""

    def withdraw_rejects(self) -> None:
        """What was rejected a moment ago was not handled: it is for who reads next."""

    def keep_returned(self) -> None:
        """Have all that came back kept now."""


class GroupRetries(Queue, Protocol):
    """What members of a group gave back, kept for another attempt."""

    choice: Choice | None
    """What the group wants; None: everything."""

    def set_stamps(
        self,
        stamp: Callable[[bytes, str | None, int, int], bytes],
        count_of: Callable[[bytes], int],
        /,
    ) -> None:
        """Set how headers are written (properties, stream, offset, count), and a count is read."""

    @property
    def waiting(self) -> int:
        """Messages that are with no member."""

    @property
    def retried(self) -> int:
        """Returns since the start after which a message was kept."""

    @property
    def dropped(self) -> int:
        """Messages that came back too often, where there was no dead-letter exchange."""

    @property
    def filtered(self) -> int:
        """Messages that the group's filter did not let pass any more."""

    @property
    def missed(self) -> int:
        """Messages that retention had dropped when they came back."""


class Channel(Protocol):
    """The engine's half of a channel."""

    prefetch_count: int
    prefetch_global: int

    @property
    def confirming(self) -> bool:
        """Whether publishes are confirmed."""

    @property
    def transactional(self) -> bool:
        """Whether publishes and settles wait for commit."""

    def consume(
        self,
        queue: Queue,
        tag: str,
        no_ack: bool,
        priority: int,
        prefetch: int,
        timeout_ms: int | None = None,
        timeout_requeues: bool | None = None,
        filter: Filter | None = None,  # noqa: A002 - the engine's word
    ) -> Consumer:
        """Subscribe to what a filter lets pass; deliveries may be sent before this returns.

        What it says of its timeout counts instead of what its queue says.
        """

    def credit(self, limit: int, /) -> Credit:
        """Make what several subscriptions to streams may have unsettled together."""

    def consume_stream(
        self,
        stream: Stream,
        tag: str,
        prefetch: int,
        offset: int,
        choice: Choice | None = None,
        credit: Credit | None = None,
        filter_class: str | None = None,
    ) -> StreamConsumer:
        """Subscribe to a stream, from an offset on; to what is chosen, or everything.

        A filter class is asked about it.
        """

    def consume_retries(self, retries: GroupRetries, tag: str, credit: Credit) -> Consumer:
        """Subscribe to what members of a group gave back, on the credit of one of them."""

    def cancel(self, consumer: Consumer) -> None:
        """Unsubscribe; nothing is delivered to it after this."""

    def drop_unsettled(self, consumer: Consumer) -> None:
        """Forget what a consumer of a stream has not settled; settling it late is no fault."""

    def get(self, queue: Queue, no_ack: bool) -> bool:
        """Send basic.get-ok with the next message, or return False."""

    def recover(self) -> None:
        """Requeue everything unsettled."""

    def select_confirm(self) -> None:
        """Confirm publishes from now on."""

    def select_tx(self) -> None:
        """Collect publishes and settles from now on."""

    def commit(self) -> int:
        """Publish and settle what waited; return the generation to hold the answer for."""

    @property
    def tx_refused(self) -> bool:
        """Whether a queue refused something of the last transaction that was committed."""

    def rollback(self) -> None:
        """Drop what was collected."""

    def set_flow(self, active: bool) -> None:
        """Stop or go on delivering."""


class Connection(Protocol):
    """The engine's half of a connection."""

    frame_max: int
    user_id: bytes

    def send(self, channel: int, method: bytes) -> None:
        """Send one method."""

    def open_channel(self, number: int) -> Channel:
        """Make the state of a channel."""

    def close_channel(self, number: int) -> None:
        """Forget a channel: consumers removed, deliveries requeued, transaction dropped."""

    def refuse_channel(self, number: int) -> None:
        """As `close_channel`, but ignore what comes on it until it is closed by both sides."""

    def shut(self) -> None:
        """connection.close was sent or came: all channels give everything back and are deaf."""

    def hold(self, generation: int) -> None:
        """Send nothing and read nothing more until that generation is on disk; 0 is."""

    def await_eof(self) -> None:
        """Hear only whether connection.close comes again, until the peer closes the socket."""

    def finish(self) -> None:
        """Ignore all input, send what is pending, then close the socket."""


class Plane(Protocol):
    """The engine: what all queues and connections share."""

    publishers_blocked: bool

    @property
    def synced(self) -> int:
        """The last generation that is on disk."""

    def note_change(self) -> int:
        """A definition changed; return the generation that brings it to the disk."""

    def queue(self, queue_id: int, name: str, durable: bool) -> Queue:
        """Make the engine's half of a queue; the number is 0 for one that is not durable."""

    def unique_queue(self, queue_id: int, name: str, durable: bool) -> Queue:
        """Make the engine's half of a queue that takes no message twice."""

    def cache(
        self, queue_id: int, name: str, durable: bool, *, size: int, ttl_ms: int | None
    ) -> Cache:
        """Make the engine's half of what an exchange remembers, in bounds."""

    def stream(self, queue_id: int, name: str) -> Stream:
        """Make the engine's half of a stream."""

    @property
    def now_ms(self) -> int:
        """The time of this turn, by a clock that nobody sets."""

    @property
    def wall_ms(self) -> int:
        """Unix time of this turn."""

    def publish(
        self,
        queues: Sequence[Queue],
        exchange: str,
        key: str,
        properties: bytes,
        body: bytes,
        *,
        elsewhere: Callable[[], Sequence[Queue]] | None = None,
    ) -> bool:
        """Put a message of the broker's own into queues; returns whether it is anywhere.

        A full queue that refuses publishes gets it later, unless `elsewhere` has queues for what
        none takes.
        """

    def snapshot(self, queue: Queue) -> list[Stored]:
        """Return what is ready in a queue, oldest first."""

    def delays(
        self,
        queue_id: int,
        routes: object,
        routed: Callable[[str, Sequence[str], bytes], Sequence[Queue]],
        elsewhere: Callable[[str, Sequence[str], bytes], Sequence[Queue]],
    ) -> Delays:
        """Make what waits in an exchange; the number is 0 for one that is not durable.

        `routed` is asked for the queues of a message by what it was published to, its keys, and its
        properties, where its key alone does not say it; `elsewhere` for those of the alternate
        exchange, for what full queues refuse.
        """

    def verdict_queue(
        self,
        queue_id: int,
        name: str,
        queue: Queue | None,
        routed: Callable[[str, Sequence[str], bytes], Sequence[Queue]] | None = None,
        elsewhere: Callable[[str, Sequence[str], bytes], Sequence[Queue]] | None = None,
    ) -> Staging:
        """Make where messages wait for a filter class; the number is 0 if they may be forgotten.

        What passes goes to the queue; without one, `routed` is asked by what a message was
        published to, its keys and its properties. `elsewhere` is asked for queues of an alternate
        exchange, for what full queues refuse.
        """

    def group_retries(self, queue_id: int, name: str) -> GroupRetries:
        """Make what keeps the messages that members of a group give back."""

    def waiting_for(self, name: str, /) -> int:
        """How many messages of queues wait for a filter class, as far as consumers have looked."""

    def route_cache(self, name: str, resolve: Resolve, cacheable: bool) -> RouteCache:
        """Make the engine's half of an exchange."""

    def conditional_route(
        self, queues: Sequence[Queue], filtered: Sequence[tuple[Filter, Queue]]
    ) -> ConditionalRoute:
        """Make a route that depends on the message; no queue is in both."""

    def filter_outcomes(self, filters: Sequence[Filter]) -> FilterOutcomes:
        """Make a route for which these filters must be asked, and then the resolver."""

    def note_filtered(self, evaluated: int, matched: int, failed: int) -> None:
        """Count filters that the rules asked themselves."""
