# ruff: noqa: PYI021 - what a name is for should be seen where it is looked up
"""Types of queue.pyx."""

from collections.abc import Callable
from typing import Final, Protocol

from leporid.engine.queue.queues import Queues
from leporid.engine.selectors.filter_counters import FilterCounters

OVERFLOW: Final[dict[str, int]]
RETRIES: Final[dict[str, int]]

class _DeadLetters(Protocol):
    """Takes what died in a queue: why, and the message."""

    def __call__(
        self, reason: str, exchange: str, key: str, properties: bytes, body: bytes
    ) -> None: ...

class Queue:
    """One queue's entries; made by `Engine.queue`."""

    dead_letters: _DeadLetters | None
    """Called with each message that leaves without having been acknowledged."""

    given_up: Callable[[str], None] | None
    """Called with the reason when a message that waited for room is not kept any longer."""

    private: bool
    """It is the broker's own: what comes to no other queue is unroutable all the same."""

    def __init__(self, queues: Queues, queue_id: int, name: str, durable: bool) -> None: ...
    @property
    def remembers(self) -> bool:
        """Whether it knows the keys of its messages, and takes none twice."""

    @property
    def counters(self) -> FilterCounters | None:
        """What filters were asked about its messages; None: there were none."""

    @property
    def id(self) -> int:
        """Its number in the log."""

    @property
    def name(self) -> str: ...
    @property
    def durable(self) -> bool: ...
    @property
    def retired(self) -> bool:
        """It was deleted."""

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
    def counted(self) -> bool:
        """Its deliveries say how often they came back."""

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
    def consumer_count(self) -> int: ...
    @property
    def overflow(self) -> int:
        """What happens beyond the limits; a value of OVERFLOW."""

    @property
    def limited(self) -> bool:
        """It has a limit of length or bytes."""

    @property
    def max_priority(self) -> int:
        """The highest priority that it knows; 0: it knows none."""

    def set_limits(
        self,
        *,
        max_length: int | None = None,
        max_bytes: int | None = None,
        overflow: str = "drop-head",
    ) -> None:
        """Bounds on ready messages and on their body bytes, and what happens beyond them."""

    @property
    def backlog_count(self) -> int:
        """Messages of the broker's own that wait for room."""

    def set_message_ttl(self, ttl_ms: int | None) -> None:
        """How long a message stays at most, from when it enters; None: for ever."""

    def set_delivery_limit(self, limit: int | None, counted: bool) -> None:
        """How often a message may come back from consumers before it is dropped; None: always.

        Args:
            limit: of returns, up to 32766.
            counted: deliveries say how often that was (header x-delivery-count).
        """

    def set_retries(self, kind: str, min_ms: int, max_ms: int) -> None:
        """Hold what comes back `min_ms` for each time that it did, `max_ms` at most.

        Args:
            kind: what is held: "failed" (rejected, or its channel ended), "returned" (the rest),
                "all" or "disabled".
            min_ms: for each time.
            max_ms: at most.
        """

    def set_consumer_timeout(self, timeout_ms: int | None, requeues: bool) -> None:
        """How long a delivery may be unsettled; 0: for ever, None: as long as anywhere.

        Args:
            timeout_ms: since it was delivered.
            requeues: what is overdue goes back alone, and its channel lives.
        """

    def set_priorities(self, highest: int) -> None:
        """Messages leave by priority first, 0 to `highest`; only while the queue is empty."""

    def set_single_active_consumer(self, single: bool) -> None:
        """One consumer at a time gets messages."""

    def purge(self) -> int:
        """Drop every message that is ready or held; returns how many there were."""

    def retire(self) -> int:
        """The queue was deleted; returns how many were ready."""
