"""A channel as the rules see it: its consumers, its last declared queue, its reply address.

Responsible for taking consumers off their queues when they, or the channel, end. Must not know
the methods that lead there. Invariants: the engine's consumers are gone before the rules forget
them, so nothing is ever delivered to a consumer nobody knows; a named reader's offset is stored
before the engine forgets which of its deliveries were settled; a consumer tag is taken until the
client knows that its consumer has ended.
"""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final

from leporid.amqp.errors import NotFound
from leporid.amqp.methods import BasicCancel
from leporid.broker.access.remote_rights import decided
from leporid.broker.group.members import Member
from leporid.broker.memory import consumer_bytes
from leporid.broker.names import GENERATED_QUEUE_PREFIX, REPLY_PREFIX
from leporid.broker.queue.queue import ConsumerState, QueueState
from leporid.broker.stream.readers import TrackedConsumer
from leporid.engine.bounds.jobs import AWAITS
from leporid.engine.bounds.sharded_dict import ShardedDict

if TYPE_CHECKING:
    from leporid.broker.connection.session import ConnectionState
    from leporid.broker.registry import Steps
    from leporid.broker.settings.values import Arguments
    from leporid.engine.connection.channel import Channel
    from leporid.engine.connection.stream_consumer import StreamConsumer

LOOKED_AT_ONCE: Final = 2
"""Named readers, of which some may have ended."""


class ChannelState:
    """One open channel."""

    __slots__ = (
        "_cancelled",
        "_ended",
        "_ending",
        "_leaving",
        "_new_name",
        "_tracked",
        "engine",
        "last_queue",
        "members",
        "number",
        "recent",
        "replies",
        "session",
        "subscriptions",
    )

    def __init__(self, session: ConnectionState, number: int, engine: Channel) -> None:
        self.session = session
        self.number = number
        self.engine = engine
        # By consumer tag. The consumer of direct reply-to is not among them, as in RabbitMQ,
        # where its tag may be used a second time.
        self.subscriptions: ShardedDict[str, ConsumerState] = ShardedDict()
        # By consumer tag: those that the broker has ended, until their client is told.
        self._cancelled: ShardedDict[str, ConsumerState | Member] = ShardedDict()
        self.replies: ConsumerState | None = None
        self.last_queue = ""
        self._new_name = ""
        # Of groups, by consumer tag; and those that were cancelled and may still settle something.
        self.members: dict[str, Member] = {}
        self._leaving: dict[Member, None] = {}
        # Of the named readers here, also of those that have ended and may still settle something.
        self._tracked: dict[TrackedConsumer, None] = {}
        self._ending = self._ended = False
        # Samples of its counters for the rates that management shows; a matter of that alone.
        self.recent: object = None
        session.vhost.tracing.begin(self)

    def __repr__(self) -> str:
        return f"<ChannelState {self.number} consumers={len(self.subscriptions)}>"

    @property
    def is_ending(self) -> bool:
        """Whether it is being closed."""
        return self._ending

    def queue_name(self, name: str) -> str:
        """Replace an empty name by that of the queue last declared on this channel."""
        if not name and not self.last_queue:
            raise NotFound("no previously declared queue")
        return name or self.last_queue

    def new_queue_name(self) -> str:
        """Return a name for a queue that has none; the same one until `name_is_used`.

        A right on it may have to be asked for before there is a queue.
        """
        if not self._new_name:
            self._new_name = self.session.broker.new_name(GENERATED_QUEUE_PREFIX)
        return self._new_name

    def name_is_used(self) -> None:
        """There is a queue of that name."""
        self._new_name = ""

    def is_taken(self, tag: str) -> bool:
        """Say whether a consumer here has that tag, or had it as far as the client knows."""
        return tag in self.subscriptions or tag in self.members or tag in self._cancelled

    def subscribe(
        self,
        queue: QueueState,
        tag: str,
        arguments: Arguments,
        *,
        exclusive: bool,
        filter_class: str | None,
    ) -> ConsumerState:
        """Note a consumer, before the engine makes its half.

        Raises:
            PreconditionFailed: the connection, or its user, keeps too much.
        """
        size = consumer_bytes(tag, arguments)
        self.session.broker.memory.check_consumer(self.session.account, queue.title, size)
        self.session.account.add(size)
        subscription = ConsumerState(
            tag,
            queue,
            self,
            exclusive,
            filter_class=filter_class,
            arguments=arguments,
            kept_bytes=size,
        )
        queue.add(subscription)
        self.subscriptions[tag] = subscription
        return subscription

    def read(
        self, subscription: ConsumerState, consumer: StreamConsumer, reader: str | None
    ) -> None:
        """The engine's half of a consumer of a stream was made; it may be a named reader."""
        subscription.consumer = consumer
        if reader is not None:
            self._close_some()
            tracking, user = self.session.vhost.offset_tracking, self.session.user.name
            subscription.tracked = tracking.open(subscription.queue, reader, consumer, user)
            self._tracked[subscription.tracked] = None

    def unsubscribe(self, subscription: ConsumerState) -> None:
        """End a consumer; the queue goes with its last one if it is auto-delete."""
        del self.subscriptions[subscription.tag]
        self._cancel(subscription)
        self.session.vhost.unsubscribed(subscription)

    def lose(self, subscription: ConsumerState) -> None:
        """The queue is going: end the consumer; the client is told in the next round."""
        self.subscriptions.pop(subscription.tag)
        self._cancel(subscription)
        subscription.queue.remove(subscription)
        self._will_tell(subscription)

    def revoking(self) -> Steps:
        """End the consumers of queues that the user may not read any more, in steps."""
        session = self.session
        user, vhost = session.user, session.vhost
        for subscription in self.subscriptions.values():
            queue = subscription.queue.name
            may = yield from decided(partial(user.may, "read", "queue", queue, vhost.name))
            if not may and self.subscriptions.get(subscription.tag) is subscription:
                self.unsubscribe(subscription)
                self._will_tell(subscription)
            yield None
        for member in tuple(self.members.values()):
            stream = member.group.stream
            may = yield from decided(partial(user.may, "read", "queue", stream, vhost.name))
            if not may and self.members.get(member.tag) is member:
                self.leave(member)
                self._will_tell(member)
            yield None

    def _will_tell(self, consumer: ConsumerState | Member) -> None:
        self._cancelled[consumer.tag] = consumer
        self.session.broker.cancels.add(self, consumer)

    def tell_cancelled(self, consumer: ConsumerState | Member) -> None:
        """Send basic.cancel, if the client wants to be told and has not cancelled it meanwhile."""
        if self._cancelled.get(consumer.tag) is not consumer:
            return
        del self._cancelled[consumer.tag]
        if self.session.announced("consumer_cancel_notify"):
            self.session.send(self.number, BasicCancel(consumer.tag, no_wait=True))

    def cancel(self, tag: str) -> None:
        """The client cancels a consumer; a missing one is cancelled already."""
        if self.replies is not None and self.replies.tag == tag:
            self.stop_replies()
        elif tag in self.subscriptions:
            self.unsubscribe(self.subscriptions[tag])
        elif tag in self.members:
            self.leave(self.members[tag])
        else:
            self._cancelled.pop(tag)

    def join(self, member: Member) -> None:
        """A consumer here reads in a group."""
        self.session.account.add(member.kept_bytes)
        self.members[member.tag] = member
        member.group.join(member)

    def leave(self, member: Member) -> None:
        """End it; what it has not settled it may still settle, for a while."""
        self._drop_member(member)
        member.group.leave(member)

    def evict(self, member: Member) -> None:
        """End a member that its group has dropped; its client is told when that is on disk."""
        self._drop_member(member)
        self._will_tell(member)

    def _drop_member(self, member: Member) -> None:
        del self.members[member.tag]
        self._release(member)
        if member.readings:
            self._leaving[member] = None

    def settled(self, member: Member) -> None:
        """A member of a group has no reading any more; it may have left the group before."""
        self._leaving.pop(member, None)

    def await_replies(self, tag: str) -> None:
        """Make the hidden queue of direct reply-to, and its consumer."""
        name = self.session.broker.new_name(REPLY_PREFIX)
        queue = self.session.vhost.make_queue(name)
        self.replies = ConsumerState(tag, queue, self, exclusive=True)
        self.replies.consumer = self.engine.consume(queue.engine, tag, True, 0, 0)

    def stop_replies(self) -> None:
        """Remove that queue; what is published to it from now on is dropped."""
        if self.replies is not None:
            replies, self.replies = self.replies, None
            self._cancel(replies)
            self.session.vhost.remove_queue(replies.queue)
            replies.queue.engine.retire()

    def end(self) -> Steps:
        """Close it: end its consumers, give back what they have, take them off their queues.

        From the first step on nothing is delivered.
        """
        self.engine.mute()
        self._cancelled = ShardedDict()
        if self._ending:
            while not self._ended:
                yield AWAITS
            return
        self._ending = True
        for subscription in self.subscriptions.values():
            self._cancel(subscription)
            yield None
        # Those that joined last are those that wait for a partition: they go first.
        members, self.members = (*self._leaving, *reversed(self.members.values())), {}
        self._leaving = {}
        for member in members:
            self._release(member)
            yield from member.group.crash(member)
            yield None
        for tracked in tuple(self._tracked):
            if tracked in self._tracked:
                self._close_tracked(tracked)
                yield None
        yield from self.engine.end()
        self.stop_replies()
        while self.subscriptions:
            _, subscription = self.subscriptions.popitem()
            self.session.vhost.unsubscribed(subscription)
            yield None
        self._ended = True
        self.session.broker.events.channel_closed(self)

    def _release(self, consumer: ConsumerState | Member) -> None:
        """A consumer is going: its connection keeps it no more."""
        self.session.account.release(consumer.kept_bytes)
        consumer.kept_bytes = 0

    def _cancel(self, subscription: ConsumerState) -> None:
        self._release(subscription)
        if subscription.consumer is not None:
            consumer, subscription.consumer = subscription.consumer, None
            self.engine.cancel(consumer)
            self.session.broker.events.consumer_deleted(subscription, self)
        if subscription.tracked is not None:
            tracked, subscription.tracked = subscription.tracked, None
            tracked.ended = True
            if tracked.settles_no_more:
                self._close_tracked(tracked)
            else:
                self.session.vhost.offset_tracking.save(tracked)

    def _close_some(self) -> None:
        """Forget some of those that have ended and settle nothing more.

        To look at one may take as long as there are unsettled deliveries; there comes one for two
        that are looked at, so that few are left.
        """
        for tracked in tuple(islice(self._tracked, LOOKED_AT_ONCE)):
            if tracked.settles_no_more:
                self._close_tracked(tracked)
            else:
                del self._tracked[tracked]
                self._tracked[tracked] = None

    def _close_tracked(self, tracked: TrackedConsumer) -> None:
        del self._tracked[tracked]
        self.session.vhost.offset_tracking.close(tracked)
