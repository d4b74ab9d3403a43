"""A group of consumers that read a stream, or the partitions of one, together (`x-group`).

Responsible for its members, and for reading each partition for the member that `assignment` gives
it to. `groups` knows which groups there are, and who may join. Must not know when time passes
(`handovers` does), nor permissions. Invariants: a partition has one reader at a time; the next
reader begins after the offset that the one before has committed. To begin or end many readings, or
to cancel many members, is a job; the assignment is changed before, at once.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from leporid.amqp.errors import PreconditionFailed
from leporid.broker.filter.filter_arguments import class_of
from leporid.broker.group.assignment import Coordinator, Moves
from leporid.broker.queue.queue import ConsumerState, QueueState
from leporid.broker.settings.values import Arguments
from leporid.broker.stream.readers import TrackedConsumer
from leporid.engine.bounds.jobs import AWAITS

if TYPE_CHECKING:
    from leporid.broker.connection.channel import ChannelState
    from leporid.broker.group.group_retries import GroupRetriesState
    from leporid.broker.group.groups import Groups
    from leporid.broker.registry import Steps
    from leporid.engine.connection.consumer import Consumer
    from leporid.engine.connection.credit import Credit
    from leporid.engine.connection.stream_consumer import StreamConsumer
    from leporid.engine.stream.choice import Choice

logger = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class Reading:
    """One partition at the member whose it is."""

    queue: QueueState
    member: Member
    consumer: StreamConsumer
    tracked: TrackedConsumer
    subscription: ConsumerState | None = None
    """None once it was stopped."""
    until_ms: int = 0
    """When it is over although something is not settled; 0 until the stop was noticed."""

    @property
    def is_settled(self) -> bool:
        """Whether nothing that was delivered is unsettled."""
        return not self.consumer.has_unsettled

    def lose(self, _subscription: ConsumerState) -> None:
        """The stream is going."""
        self.member.group.lose(self)


@dataclass(eq=False, slots=True)
class Member:
    """One consumer: a tag on a channel, and the readings behind it."""

    group: Group
    channel: ChannelState
    tag: str
    credit: Credit
    """For all of them together."""
    choice: Choice | None
    """What is for it, of each partition; None: everything."""
    readings: dict[QueueState, Reading] = field(default_factory=dict)
    retrying: Consumer | None = None
    """Of what members of the group gave back; None without retries, or once it has ended."""
    kept_bytes: int = 0
    """That its connection was charged for it."""

    def __repr__(self) -> str:
        return f"<Member {self.tag!r} of {self.group.name!r} readings={len(self.readings)}>"

    def __str__(self) -> str:
        return f"'{self.tag}' on channel {self.channel.number} of {self.channel.session.name}"


class Group:
    """One group; made by `Groups`."""

    def __init__(
        self, groups: Groups, stream: str, name: str, version: int, agreed: Arguments
    ) -> None:
        self.stream = stream
        self.name = name
        self.version = version
        # Arguments that all members have: what is for the group, and its retries.
        self.agreed = agreed
        # None until the members ask for some.
        self.retries: GroupRetriesState | None = None
        # When it had members last; 0 for not known. By the wall's clock, for people.
        self.used_ms = 0
        # When that was noticed, by the clock that nobody sets; 0 while it has some.
        self.unused_since_ms = 0
        # It is on its way out, and nobody joins it any more.
        self.ending = False
        self.groups = groups
        self._coordinator: Coordinator[Member, QueueState] = Coordinator()
        # Partitions whose readings are not yet as the coordinator says; a linked list, whose first
        # one is found at once. And readings of those that are none of the group any more: these end
        # before anything else begins.
        self._pending: OrderedDict[QueueState, None] = OrderedDict()
        self._gone: OrderedDict[Reading, None] = OrderedDict()
        self._following = False

    def __repr__(self) -> str:
        return f"<Group {self.name!r} of {self.stream!r} members={self.member_count}>"

    @property
    def title(self) -> str:
        """What it is called in texts."""
        vhost = self.groups.vhost.name
        return f"group '{self.name}' of stream '{self.stream}' in vhost '{vhost}'"

    @property
    def members(self) -> list[Member]:
        """The members, in the order in which they joined."""
        return self._coordinator.members

    @property
    def member_count(self) -> int:
        """How many there are."""
        return len(self._coordinator)

    @property
    def partitions(self) -> Sequence[QueueState]:
        """The streams, in order."""
        return self._coordinator.partitions

    def member_at(self, partition: QueueState) -> Member | None:
        """Return the member that reads a partition."""
        if self._coordinator.is_stopping(partition):
            return None
        return self._coordinator.holder(partition)

    @property
    def streams_deleted(self) -> bool:
        """Whether everything that it read was deleted."""
        return bool(self.partitions) and all(each.deleted for each in self.partitions)

    def check_empty(self) -> None:
        """Check that nobody is in it.

        Raises:
            PreconditionFailed: it has members.
        """
        count = self.member_count
        if count:
            several = f"{count} members; end these" if count > 1 else "a member; end it"
            raise PreconditionFailed(f"{self.title} has {several} first")

    def check_abandoned(self) -> None:
        """Check that nobody stores an offset in its name, now or soon.

        Raises:
            PreconditionFailed: it has members, or what one had is still being handed over.
        """
        self.check_empty()
        if not self._coordinator.is_abandoned:
            raise PreconditionFailed(
                f"{self.title}: its last member may still settle what it was sent; try again in a "
                "second"
            )

    # ------------------------------------------------------------------ members

    def join(self, member: Member) -> None:
        """Somebody reads along from now on."""
        if self.retries is not None:
            member.retrying = member.channel.engine.consume_retries(
                self.retries.engine, member.tag, member.credit
            )
        self._do(self._coordinator.join(member))

    def leave(self, member: Member) -> None:
        """A member's consumer ends; what it has, it may still settle."""
        self._end(member)
        for reading in member.readings.values():
            reading.consumer.withdraw_rejects()
        if member in self._coordinator:
            self._do(self._coordinator.leave(member))
            self.groups.left(self)

    def crash(self, member: Member) -> Steps:
        """A channel is closing, and settles nothing more; the engine has not forgotten it yet."""
        self.leave(member)
        for reading in tuple(member.readings.values()):
            if member.readings.get(reading.queue) is reading:
                self._stop(reading)
                self.release(reading)
                yield None
        # What was never begun.
        self._do(self._coordinator.crash(member))

    def evict(self, why: str) -> Steps:
        """All members are cancelled, and told so; from the first step on nobody is one."""
        members, moves = self._coordinator.leave_all()
        self._do(moves)
        for member in members:
            if member.channel.members.get(member.tag) is member:
                logger.info("%s: member %s is cancelled: %s", self.title, member, why)
                self._end(member)
                member.channel.evict(member)
            yield None

    def _end(self, member: Member) -> None:
        """Nothing that was given back is for a member any more; what it has, it settles."""
        if member.retrying is not None:
            retrying, member.retrying = member.retrying, None
            member.channel.engine.cancel(retrying)

    # ------------------------------------------------------------------ partitions

    def look(self, partitions: Sequence[QueueState]) -> None:
        """The stream has these partitions."""
        if self.partitions == partitions:
            return
        there = set(partitions)
        for partition in self.partitions:
            holder = None if partition in there else self._coordinator.holder(partition)
            reading = None if holder is None else holder.readings.get(partition)
            if reading is not None:
                self._gone[reading] = None
        self._do(self._coordinator.change(partitions))

    def end(self) -> Steps:
        """Nobody reads anything in its name any more, once all steps are done."""
        self.look(())
        while self._gone or self._pending:
            yield AWAITS

    def lose(self, reading: Reading) -> None:
        """A stream is going."""
        self._forsake(reading)
        self.groups.handovers.look_at(self)

    def release(self, reading: Reading) -> None:
        """A reading that was stopped is settled, or out of time: the next one may begin."""
        self._do(self._let_go(reading))

    def _let_go(self, reading: Reading) -> Moves[Member, QueueState]:
        if reading.member.readings.get(reading.queue) is not reading:
            return Moves()  # its member is gone meanwhile
        self._finish(reading)
        coordinator, partition = self._coordinator, reading.queue
        if coordinator.holder(partition) is reading.member and coordinator.is_stopping(partition):
            return coordinator.release(partition)
        return Moves()  # the partition is none of the group any more

    def _do(self, moves: Moves[Member, QueueState]) -> None:
        """Have readings follow; what several events ask of one partition is done once."""
        for partition, _ in (*moves.stop, *moves.start):
            self._pending[partition] = None
        if (self._pending or self._gone) and not self._following:
            self._following = True
            self.groups.vhost.engine.jobs.start(self._follow())

    def _follow(self) -> Steps:
        try:
            while self._pending or self._gone:
                try:
                    if self._gone:
                        self._forsake(self._gone.popitem(last=False)[0])
                    else:
                        self._bring(self._pending.popitem(last=False)[0])
                except Exception:
                    # The others are read all the same.
                    logger.exception("defect: %s: a partition has no reader", self.title)
                yield None
        finally:
            self._following = False

    def _forsake(self, reading: Reading) -> None:
        """End a reading, unless it has ended, of a partition that the group no longer has."""
        if reading.member.readings.get(reading.queue) is reading:
            self._stop(reading)
            self._finish(reading)

    def _bring(self, partition: QueueState) -> None:
        """Begin or end the reading of a partition, as the coordinator says by now."""
        holder = self._coordinator.holder(partition)
        if holder is None:
            return
        reading = holder.readings.get(partition)
        if not self._coordinator.is_stopping(partition):
            # A channel that closes soon passes on what it gets: nothing begins there.
            if reading is None and not partition.deleted and not holder.channel.is_ending:
                self._start(partition, holder)
        elif reading is None:
            self._do(self._coordinator.release(partition))
        else:
            self._stop(reading)
            if reading.is_settled:
                self.release(reading)
            else:
                self.groups.handovers.add(reading)

    def _start(self, partition: QueueState, member: Member) -> None:
        vhost, stream = self.groups.vhost, partition.stream
        assert stream is not None
        committed = partition.reader_offsets.get(self.name)
        consumer = member.channel.engine.consume_stream(
            stream,
            member.tag,
            0,
            0 if committed is None else committed + 1,
            member.choice,
            member.credit,
            class_of(self.agreed),
        )
        if self.retries is not None:
            consumer.retries = self.retries.engine
        user = member.channel.session.user.name
        tracked = vhost.offset_tracking.open(partition, self.name, consumer, user)
        reading = Reading(partition, member, consumer, tracked)
        reading.subscription = ConsumerState(
            member.tag, partition, reading, False, consumer, filter_class=class_of(self.agreed)
        )
        partition.add(reading.subscription)
        member.readings[partition] = reading

    def _stop(self, reading: Reading) -> None:
        """Nothing more is delivered."""
        if reading.subscription is None:
            return
        subscription, reading.subscription = reading.subscription, None
        reading.member.channel.engine.cancel(reading.consumer)
        reading.tracked.ended = True
        self.groups.vhost.unsubscribed(subscription)

    def _finish(self, reading: Reading) -> None:
        """What is settled is committed; what is not is no concern of the member any more."""
        reading.consumer.keep_returned()
        self.groups.vhost.offset_tracking.close(reading.tracked)
        reading.member.channel.engine.drop_unsettled(reading.consumer)
        member = reading.member
        del member.readings[reading.queue]
        if not member.readings:
            member.channel.settled(member)
