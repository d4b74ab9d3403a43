"""A queue as the rules see it: its definition, its owner, and who consumes from it.

Responsible for holding that together with the engine's half of the queue. Must not know
exchanges, permissions or messages. Invariant: a subscription stands in the queue's list and in
its channel's table, or in neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from leporid.amqp.errors import ResourceLocked
from leporid.amqp.tables import Value
from leporid.broker.names import queue_in
from leporid.broker.policy.policies import NOT_GOVERNED, Governed
from leporid.broker.queue.dead_letters import DeadLetterTotals
from leporid.broker.queue.queue_types import QueueType
from leporid.broker.settings.equivalence import check_same, check_same_arguments
from leporid.broker.settings.values import Arguments

if TYPE_CHECKING:
    from leporid.broker.settings.effects import Effect
    from leporid.broker.stream.readers import Progress, Skips, TrackedConsumer
    from leporid.engine.bounds.accounts import Account
    from leporid.engine.connection.consumer import Consumer
    from leporid.engine.queue.queue import Queue
    from leporid.engine.stream.stream import Stream


# A dict of so many grows in 4 microseconds at most.
PART_CONSUMERS: Final = 1024


class Owner(Protocol):
    """The connection of an exclusive queue, as the queue sees it."""

    def disown(self, queue: QueueState) -> None:
        """The queue is gone."""


class Subscriber(Protocol):
    """The channel of a consumer, as the queue sees it."""

    def lose(self, subscription: ConsumerState) -> None:
        """The queue is being deleted: end the consumer, and have the client told."""


@dataclass(eq=False, slots=True)
class ConsumerState:
    """What basic.consume made."""

    tag: str
    queue: QueueState
    subscriber: Subscriber
    exclusive: bool
    # The engine's half; None only while it is being made.
    consumer: Consumer | None = None
    # Set if it is a named reader of a stream.
    tracked: TrackedConsumer | None = None
    # The filter class that it has; None: none.
    filter_class: str | None = None
    arguments: Arguments = field(default_factory=dict)
    kept_bytes: int = 0
    """What its connection's account was charged for it."""
    place: int = 0
    """A matter of `Subscriptions` alone."""


class Subscriptions:
    """The consumers of a queue, the oldest first.

    A client may make very many. A dict of all of them would be copied when it grows, 10 ms for
    170,000; so they are in parts, by the order in which they came.
    """

    __slots__ = ("_added", "_count", "_parts")

    def __init__(self) -> None:
        self._parts: dict[int, dict[ConsumerState, None]] = {}
        self._added = 0
        self._count = 0

    def __repr__(self) -> str:
        return f"<Subscriptions {self._count}>"

    def __len__(self) -> int:
        return self._count

    def __contains__(self, subscription: ConsumerState) -> bool:
        return subscription in self._parts.get(subscription.place, ())

    def __iter__(self) -> Iterator[ConsumerState]:
        """Go through them, as slowly as one likes: who is there all the time is met once."""
        for place in tuple(self._parts):
            yield from tuple(self._parts.get(place, ()))

    @property
    def oldest(self) -> ConsumerState | None:
        """The one that came first; None: there is none."""
        return next(iter(next(iter(self._parts.values()), ())), None)

    def add(self, subscription: ConsumerState) -> None:
        """There is one more."""
        subscription.place = self._added // PART_CONSUMERS
        self._parts.setdefault(subscription.place, {})[subscription] = None
        self._added += 1
        self._count += 1

    def remove(self, subscription: ConsumerState) -> None:
        """There is one less; it must be there."""
        part = self._parts[subscription.place]
        del part[subscription]
        if not part:
            del self._parts[subscription.place]
        self._count -= 1


class Consumers:
    """The consumers of all queues of a virtual host: how many, and who asks a filter class."""

    def __init__(self) -> None:
        self.count = 0
        self._asking: dict[str, dict[ConsumerState, None]] = {}

    def __repr__(self) -> str:
        return f"<Consumers {self.count}>"

    def asking(self, filter_class: str) -> Iterable[ConsumerState]:
        """Go through those that ask a filter class."""
        return self._asking.get(filter_class, {}).keys()

    def add(self, subscription: ConsumerState) -> None:
        """There is one more."""
        self.count += 1
        if subscription.filter_class is not None:
            self._asking.setdefault(subscription.filter_class, {})[subscription] = None

    def remove(self, subscription: ConsumerState) -> None:
        """There is one less."""
        self.count -= 1
        if subscription.filter_class is not None:
            asking = self._asking[subscription.filter_class]
            del asking[subscription]
            if not asking:
                del self._asking[subscription.filter_class]


@dataclass(eq=False, slots=True)
class QueueState:
    """One queue of a virtual host."""

    id: int
    """The number it is recorded under; 0 for a queue that ends with the process."""
    vhost: str
    name: str
    durable: bool
    auto_delete: bool
    arguments: Arguments
    type: QueueType
    engine: Queue
    consumers: Consumers = field(default_factory=Consumers)
    """Those of all queues; its own are among them."""
    owner: Owner | None = None
    """The connection that an exclusive queue belongs to."""
    subscriptions: Subscriptions = field(default_factory=Subscriptions)
    """Its consumers, the oldest first."""
    exclusive_subscription: ConsumerState | None = None
    stream: Stream | None = None
    """The engine's half once more if it is a stream; None if it is not."""
    reader_offsets: dict[str, int] = field(default_factory=dict)
    """Of a stream's named readers: the last message that each has read."""
    reader_skips: dict[str, Skips] = field(default_factory=dict)
    """Of a stream's named readers: what each missed."""
    reader_progress: dict[str, Progress] = field(default_factory=dict)
    """Of a stream's named readers: who each is, and when it went on."""
    governed: Governed = NOT_GOVERNED
    """Its policies."""
    in_force: dict[Effect, Any] = field(default_factory=dict)
    """What the engine was told of its arguments and policies."""
    goes_at_ms: int = 0
    """When it expires unless it is used; only `unused` reads this and `timer_ms`."""
    timer_ms: int = 0
    recent: object = None
    """Samples of its counters for the rates that management shows; a matter of that alone."""
    dead_lettered: DeadLetterTotals = field(default_factory=DeadLetterTotals)
    """What died in it since the start, where there was somewhere to send it."""
    told_given_up: bool = False
    """The log says that messages which waited for room in it were dropped."""
    deleted: bool = False
    kept_bytes: int = 0
    kept_by: Account | None = None
    """The account that was charged so many bytes for it: of whoever declared it."""

    def __repr__(self) -> str:
        return (
            f"<QueueState {self.name!r} in {self.vhost!r} ready={self.engine.ready_count}"
            f" consumers={len(self.subscriptions)}{' deleted' if self.deleted else ''}>"
        )

    @property
    def title(self) -> str:
        """Its name as reply texts have it."""
        return queue_in(self.vhost, self.name)

    def effective(self, key: str) -> Value:
        """Return what arguments and policies say together; None if they say nothing.

        Args:
            key: the argument's name without `x-`, which is how policies name it.
        """
        return self.governed.effective(key, self.arguments, self.type)

    @property
    def single_active_consumer(self) -> bool:
        """Whether it was declared with x-single-active-consumer."""
        return self.arguments.get("x-single-active-consumer") is True

    def add(self, subscription: ConsumerState) -> None:
        """Note a new consumer."""
        self.subscriptions.add(subscription)
        self.consumers.add(subscription)
        if subscription.exclusive:
            self.exclusive_subscription = subscription

    def remove(self, subscription: ConsumerState) -> None:
        """Note that a consumer is gone."""
        self.subscriptions.remove(subscription)
        self.consumers.remove(subscription)
        if self.exclusive_subscription is subscription:
            self.exclusive_subscription = None

    def check_access(self, asker: Owner | None) -> None:
        """Raise ResourceLocked if the queue belongs exclusively to another connection."""
        if self.owner is not None and self.owner is not asker:
            raise self._locked()

    def check_same(
        self, *, durable: bool, auto_delete: bool, arguments: Arguments, owner: Owner | None
    ) -> None:
        """Check that a redeclaration describes this queue.

        Raises:
            ResourceLocked: it is exclusive to somebody else, or to nobody, and should not be.
            PreconditionFailed: something else differs.
        """
        if self.owner is not owner:
            raise self._locked()
        check_same(self.title, "durable", self.durable, durable)
        check_same(self.title, "auto_delete", self.auto_delete, auto_delete)
        compared = self.type.queue_arguments
        check_same_arguments(self.title, self.arguments, arguments, compared)

    def _locked(self) -> ResourceLocked:
        return ResourceLocked(
            f"cannot obtain exclusive access to locked {self.title}. It could be originally "
            "declared on another connection or the exclusive property value does not match that "
            "of the original declaration."
        )
