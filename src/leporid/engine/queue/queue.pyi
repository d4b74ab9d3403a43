# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of queue.pyx."""

from collections.abc import Callable, Generator
from typing import Final, Protocol

from leporid.engine.queue.counters import DeliveryCounts, Totals
from leporid.engine.queue.queues import Queues
from leporid.engine.queue.sequence_heap import SequenceHeap
from leporid.engine.selectors.filter import FilterCounters

OVERFLOW: Final[dict[str, int]]
RETRIES: Final[dict[str, int]]

class _DeadLetters(Protocol):
    """Publishes a dead letter: the reason, and the message.

    Returns an iterator of the steps in which that is done, the last of which publishes; anything
    else: it was published.
    """

    def __call__(
        self, reason: str, exchange: str, key: str, properties: bytes, body: bytes
    ) -> object: ...

class Queue:
    """One queue's entries; made by `Engine.queue`."""

    dead_letters: _DeadLetters | None
    """Called with each message that leaves unacknowledged."""

    given_up: Callable[[str], None] | None
    """Called with the reason when a message that waits for room is dropped."""

    private: bool
    """It is hidden: a message that goes to no other queue counts as unroutable."""

    def __init__(self, queues: Queues, queue_id: int, name: str, durable: bool) -> None: ...
    @property
    def remembers(self) -> bool:
        """Whether it remembers the keys of its messages, and takes none twice."""

    @property
    def counters(self) -> FilterCounters | None:
        """Of its consumers' filters; None: there were none."""

    @property
    def id(self) -> int:
        """Its number in the log."""

    @property
    def returned(self) -> SequenceHeap:
        """Requeued entries, without priorities."""

    @property
    def lanes(self) -> list[SequenceHeap] | None:
        """With priorities: the entries of each."""

    @property
    def name(self) -> str: ...
    @property
    def durable(self) -> bool: ...
    @property
    def retired(self) -> bool:
        """It was deleted."""

    @property
    def totals(self) -> Totals:
        """Its counts are among these; those of a queue that was just made are among none."""

    def count_in(self, totals: Totals) -> None:
        """Have its counts, and its backlog's, among others from now on."""

    def uncount(self) -> None:
        """Have its counts among none from now on."""

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
        """Requeued messages whose delay is not over."""

    @property
    def counted(self) -> bool:
        """Its deliveries have the header x-delivery-count."""

    @property
    def next_seq(self) -> int:
        """Sequence number of the next entry."""

    @property
    def published(self) -> int:
        """Messages that ever came."""

    @property
    def delivered(self) -> int:
        """Deliveries to consumers, those of the same message included."""

    @property
    def counts(self) -> DeliveryCounts:
        """Of its deliveries."""

    @property
    def type_counts(self) -> DeliveryCounts:
        """Of the deliveries of all queues of its type in its virtual host."""

    def count_as(self, kind: str, vhost: str | None = None) -> None:
        """Count its deliveries among those of all queues of a type, and of a virtual host.

        Before its first consumer.
        """

    @property
    def consumer_count(self) -> int: ...
    @property
    def overflow(self) -> int:
        """What happens beyond the limits; a value of OVERFLOW."""

    @property
    def limited(self) -> bool:
        """It has a limit of length or bytes."""

    @property
    def max_priority(self) -> int:
        """The highest priority; 0: it has no priorities."""

    def set_limits(
        self,
        *,
        max_length: int | None = None,
        max_bytes: int | None = None,
        overflow: str = "drop-head",
    ) -> None:
        """Limit the ready messages and their body bytes; `overflow` says what happens beyond."""

    @property
    def backlog_count(self) -> int:
        """Messages from the broker itself that wait for room."""

    def set_message_ttl(self, ttl_ms: int | None) -> None:
        """Set the time to live of messages, from when they enter; None: no limit."""

    def set_delivery_limit(self, limit: int | None, counted: bool) -> None:
        """Set how often a message may be requeued before it is dropped; None: no limit.

        Args:
            limit: of returns, up to 32766.
            counted: deliveries have the header x-delivery-count.
        """

    def set_retries(self, kind: str, min_ms: int, max_ms: int) -> None:
        """Hold a requeued message for `min_ms` times its number of returns, at most `max_ms`.

        Args:
            kind: what is held: "failed" (rejected, or the channel closed), "returned" (the rest),
                "all" or "disabled".
            min_ms: for each return.
            max_ms: at most.
        """

    def set_consumer_timeout(self, timeout_ms: int | None, requeues: bool) -> None:
        """Set how long a delivery may stay unsettled; 0: no limit, None: the broker's default.

        Args:
            timeout_ms: since it was delivered.
            requeues: an overdue message is requeued and its channel stays open.
        """

    def set_priorities(self, highest: int) -> None:
        """Deliver by priority, from `highest` down to 0; only before the first message."""

    @property
    def paused(self) -> bool:
        """Whether it delivers nothing, to nobody."""

    def set_paused(self, paused: bool) -> None:
        """Deliver nothing from now on, to consumers or anybody else, or go on.

        All else goes on: publishes, times to live, limits, what was delivered before.
        """

    def set_single_active_consumer(self, single: bool) -> None:
        """One consumer at a time gets messages."""

    def purging(self) -> Generator[None, None, int]:
        """Drop every ready or held message, in steps; returns how many were dropped.

        What comes meanwhile stays.
        """

    def retire(self) -> int:
        """The queue was deleted, and is empty from now on; returns how many were ready or held."""
