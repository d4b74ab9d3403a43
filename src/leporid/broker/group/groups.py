"""The groups of one virtual host: made, agreed on, replaced by a newer version, forgotten.

Responsible for what the members of a group have to agree on, for where a new group begins, for
recording groups, and for their end. Must not know how a group reads (`members` does), nor when time
passes. Invariant: a group is as it was until everything about its new filter was understood.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Final, TypeAlias

from leporid.amqp.errors import BeingDeleted, NotFound, PreconditionFailed
from leporid.broker.filter.filter_arguments import FILTER_ARGUMENTS
from leporid.broker.group.group_retries import RETRY_ARGUMENTS, GroupRetriesState, options_of
from leporid.broker.group.members import Group, Member
from leporid.broker.settings.values import (
    GROUP,
    GROUP_VERSION,
    MATCH_UNFILTERED,
    STREAM_FILTER,
    Arguments,
    plain,
)
from leporid.broker.stored import StoredGroup, StoredGroupRetries
from leporid.broker.stream import partitions as partitioned
from leporid.broker.stream import stream_arguments
from leporid.broker.stream.choices import choice_of
from leporid.broker.stream.readers import check_room
from leporid.engine.queue.counters import Totals

if TYPE_CHECKING:
    from leporid.broker.connection.channel import ChannelState
    from leporid.broker.queue.queue import QueueState
    from leporid.broker.registry import Registry, Steps
    from leporid.broker.stored import Recorder
    from leporid.broker.vhost import VirtualHost
    from leporid.engine.bounds.jobs import Job

logger = logging.getLogger(__name__)

GROUPS_MAX: Final = 10_000
"""Groups of one virtual host. Each is a definition that stays until it expires, so a client that
makes up a new name each time would fill the disk."""

LOOKS_A_ROUND: Final = 500
"""Groups that are looked at once a second; the others are next."""

LOOKS_A_STEP: Final = 10
"""Groups of one stream that are looked at in one go: its partitions are found once for them, which
may take some hundred microseconds, as all of these together."""

Done: TypeAlias = Callable[[object], None]

FILTERING: Final = (*FILTER_ARGUMENTS, STREAM_FILTER, MATCH_UNFILTERED)
AGREED: Final = (*FILTERING, *RETRY_ARGUMENTS)
"""Arguments on which the members of a group have to agree: what is for it, and its retries."""


class Groups:
    """The groups of one virtual host.

    Args:
        vhost: whose they are.
        recorder: told of each group that is to last.
        registry: told of what has to be looked at again, and knows the filter classes.
    """

    def __init__(self, vhost: VirtualHost, recorder: Recorder, registry: Registry) -> None:
        self.vhost = vhost
        self._new_id = registry.new_queue_id
        self.handovers = registry.handovers
        self._classes = registry.filter_classes
        self._registry = registry
        self._recorder = recorder
        self._groups: dict[tuple[str, str], Group] = {}
        self._retrying = Totals()
        # How many of them were looked at since the first of them was; and the job that does so.
        self._looked = 0
        self._looking: Job | None = None

    def __repr__(self) -> str:
        return f"<Groups of {self.vhost.name!r} count={len(self._groups)}>"

    # ------------------------------------------------------------------ asking

    def __iter__(self) -> Iterator[Group]:
        return iter(self._groups.values())

    def __contains__(self, group: object) -> bool:
        """Say whether a group is one of these still."""
        if not isinstance(group, Group) or group.ending:
            return False
        return self._groups.get((group.stream, group.name)) is group

    def of(self, stream: str) -> Iterator[Group | None]:
        """Go through the groups of a stream, or of a partitioned one; None for each other one.

        Whoever goes through many can stop after each and leave the turn to others: those that come
        meanwhile are left out, those that go are still given.

        Raises:
            NotFound: there is no such stream.
        """
        partitioned.of(self.vhost, stream)
        groups = list(self._groups.values())
        return (group if group.stream == stream else None for group in groups)

    def find(self, stream: str, name: str) -> Group:
        """Return one group.

        Raises:
            NotFound: there is no such stream, or it has no such group.
        """
        partitioned.of(self.vhost, stream)
        group = self._groups.get((stream, name))
        if group is None or group.ending:
            raise NotFound(f"no group '{name}' of stream '{stream}' in vhost '{self.vhost.name}'")
        return group

    @property
    def retrying(self) -> int:
        """How many messages wait for another attempt."""
        return self._retrying.ready + self._retrying.held

    # ------------------------------------------------------------------ joining

    def admit(
        self, channel: ChannelState, tag: str, stream: str, prefetch: int, arguments: Arguments
    ) -> Member:
        """Return a member, still to `join`, of a group that is made or brought up if need be.

        Args:
            channel: where it consumes.
            tag: of its consumer.
            stream: or a partitioned one.
            prefetch: what it may have unsettled, of all partitions.
            arguments: those of the consumer, checked one by one.

        Raises:
            NotFound: there is no such stream, or no such filter class.
            BeingDeleted: a group of that name is.
            PreconditionFailed: the filter is wrong, or is not that of the group.
        """
        found = partitioned.of(self.vhost, stream)
        agreed = {key: arguments[key] for key in AGREED if key in arguments}
        choice = choice_of(agreed, self._classes.require)
        name, version = plain(arguments[GROUP]), arguments.get(GROUP_VERSION, 0)
        assert isinstance(version, int)
        group = self._groups.get((stream, name))
        if group is not None and group.streams_deleted:
            self._end(group, "the stream was deleted")
        if group is not None and group.ending:
            group = self._groups.get((stream, name))
        if group is not None and group.ending:
            raise BeingDeleted(f"{group.title} is being deleted")
        if group is None:
            group = self._make(stream, name, version, agreed)
            self._begin(group, found, arguments)
            self._set_retries(group)
        elif version > group.version:
            why = f"version {version} has replaced version {group.version}"
            self.vhost.engine.jobs.start(group.evict(why))
            group.version, group.agreed = version, agreed
            self._recorder.put(StoredGroup.of(self.vhost.name, group))
            self._set_retries(group)
        elif version < group.version or agreed != group.agreed:
            raise PreconditionFailed(_disagreement(group, version))
        group.unused_since_ms = 0
        if group.retries is not None:
            group.retries.engine.choice = choice
        group.look(found)
        return Member(group, channel, tag, channel.engine.credit(prefetch), choice)

    def _make(self, stream: str, name: str, version: int, agreed: Arguments) -> Group:
        if len(self._groups) >= GROUPS_MAX:
            raise PreconditionFailed(
                f"vhost '{self.vhost.name}' has {GROUPS_MAX} groups; delete some that nobody needs"
            )
        return Group(self, stream, name, version, agreed)

    def _begin(self, group: Group, partitions: Iterable[QueueState], arguments: Arguments) -> None:
        """Decide where a new group begins, once: a partition without an offset is read whole."""
        new = [each for each in partitions if group.name not in each.reader_offsets]
        for partition in new:
            check_room(partition, group.name)
        where = arguments.get(stream_arguments.OFFSET, "next")
        now_ms = self.vhost.engine.clock.wall_ms
        for partition in new:
            assert partition.stream is not None
            offset = stream_arguments.start_offset(partition.stream, where, now_ms)
            if offset:
                self.vhost.offset_tracking.set(partition, group.name, offset - 1)
        group.used_ms = now_ms
        self._groups[group.stream, group.name] = group
        self._recorder.put(StoredGroup.of(self.vhost.name, group))

    def _set_retries(self, group: Group) -> None:
        """Have a group retry what its members ask for; what waits is kept, whatever they do."""
        options = options_of(group.agreed)
        if options is not None and group.retries is None:
            number = self._new_id()
            self._recorder.put(
                StoredGroupRetries(number, self.vhost.name, group.stream, group.name)
            )
            self._add_retries(group, number)
        if group.retries is not None:
            group.retries.set(options)

    def _add_retries(self, group: Group, number: int) -> None:
        engine = self.vhost.engine.group_retries(number, f"retries of {group.name}")
        engine.count_in(self._retrying)
        stream = self.vhost.find_queue(group.stream)
        engine.set_paused(stream is not None and stream.engine.paused)
        group.retries = GroupRetriesState(self.vhost, group.title, number, engine)

    # ------------------------------------------------------------------ leaving

    def left(self, group: Group) -> None:
        """A group has a member less."""
        if not group.member_count and group in self:
            group.used_ms = self.vhost.engine.clock.wall_ms
            self._recorder.put(StoredGroup.of(self.vhost.name, group))

    def drop(self, stream: str, name: str, done: Done | None = None) -> None:
        """Forget a group, its filter and its offsets, as a job.

        Args:
            stream: whose it is.
            name: of it.
            done: is called when all of that is recorded; with nothing of interest.

        Raises:
            NotFound: there is none.
            PreconditionFailed: it has members.
        """
        group = self.find(stream, name)
        group.check_empty()
        self._end(group, "it was deleted", done)

    def check_offset(self, stream: str, name: str) -> None:
        """Check that no group is about to store an offset, which would undo what is stored now.

        Raises:
            PreconditionFailed: a group of that name reads there.
        """
        for group in self._groups.values():
            if group.name != name:
                continue
            if group.ending:
                raise PreconditionFailed(f"{group.title} is being deleted; try again")
            if any(each.name == stream for each in group.partitions):
                group.check_abandoned()

    def _end(self, group: Group, why: str, done: Done | None = None) -> None:
        """Forget a group, as a job; nobody joins it any more."""
        if not group.ending:
            group.ending = True
            self.vhost.engine.jobs.start(self._ending(group, why), done)

    def _ending(self, group: Group, why: str) -> Steps:
        partitions = group.partitions or self._found(group.stream) or []
        yield from group.evict(why)
        self._hold_cancels()
        # Who was leaving settles nothing more: there may be another of its name.
        yield from group.end()
        for partition in partitions:
            if not partition.deleted:
                self.vhost.offset_tracking.drop(partition, group.name)
            yield None
        if group.retries is not None:
            retries, group.retries = group.retries, None
            if retries.engine.waiting:
                logger.warning(
                    "%s is forgotten (%s), with %d messages that waited for a retry",
                    group.title,
                    why,
                    retries.engine.waiting,
                )
            retries.engine.retire()
            self._recorder.drop(StoredGroupRetries, retries.number)
        self._recorder.drop(StoredGroup, self.vhost.name, group.stream, group.name)
        del self._groups[group.stream, group.name]
        self._hold_cancels()

    def _hold_cancels(self) -> None:
        """A stream is deleted for a client that waits for its reply, which waits for the disk."""
        self._registry.cancels.hold(self._registry.recorded_generation)

    def close(self) -> None:
        """The virtual host is going, with all that waits for a retry."""
        for group in self:
            if group.retries is not None:
                group.retries.engine.retire()

    # ------------------------------------------------------------------ time

    def look(self, group: Group) -> None:
        """See whether the partitions of a group are those that it knows."""
        self._compare(group, self._found(group.stream))

    def _found(self, stream: str) -> list[QueueState] | None:
        try:
            return partitioned.of(self.vhost, stream)
        except NotFound:
            return None

    def _compare(self, group: Group, found: list[QueueState] | None) -> None:
        if group not in self:
            return
        if found is None or group.streams_deleted:
            self._end(group, "the stream was deleted")
        else:
            group.look(found)

    def look_at_all(self, now_ms: int, expires_ms: int) -> None:
        """See that of some, in turn, and forget those that had no member for so long: a job."""
        if not self._groups or (self._looking is not None and not self._looking.ended):
            return
        groups = tuple(self._groups.values())
        begin = self._looked if self._looked < len(groups) else 0
        some = (groups[begin:] + groups[:begin])[:LOOKS_A_ROUND]
        self._looked = begin + LOOKS_A_ROUND
        self._looking = self.vhost.engine.jobs.start(self._look_at(some, now_ms, expires_ms))

    def _look_at(self, groups: Iterable[Group], now_ms: int, expires_ms: int) -> Steps:
        some = sorted(groups, key=lambda each: each.stream)
        for stream, of_stream in groupby(some, key=lambda each: each.stream):
            same = list(of_stream)
            for at in range(0, len(same), LOOKS_A_STEP):
                self._look_at_some(same[at : at + LOOKS_A_STEP], stream, now_ms, expires_ms)
                yield None

    def _look_at_some(
        self, groups: Iterable[Group], stream: str, now_ms: int, expires_ms: int
    ) -> None:
        found = self._found(stream)
        for group in groups:
            self._compare(group, found)
            if group.member_count or group not in self:
                continue
            if not group.unused_since_ms:
                group.unused_since_ms = now_ms
            elif now_ms - group.unused_since_ms >= expires_ms:
                logger.info(
                    "%s: had no member for %d ms, and is forgotten", group.title, expires_ms
                )
                self._end(group, "nobody used it")

    def restore(
        self, stream: str, name: str, version: int, agreed: Arguments, used_ms: int
    ) -> None:
        """Have a group back that was recorded."""
        group = Group(self, stream, name, version, agreed)
        group.used_ms = used_ms
        self._groups[stream, name] = group

    def restore_retries(self, stream: str, name: str, number: int) -> None:
        """Make where a group that was restored keeps what came back; nothing is recorded.

        Raises:
            LookupError: there is no such group.
        """
        group = self._groups[stream, name]
        self._add_retries(group, number)
        self._set_retries(group)


def _disagreement(group: Group, version: int) -> str:
    agreed = ", ".join(f"{key} '{plain(value)}'" for key, value in group.agreed.items())
    has = f"{group.title} has version {group.version} with {agreed or 'no filter'}"
    if version < group.version:
        return f"{has}, which has replaced version {version}"
    return f"{has}; other arguments need a higher {GROUP_VERSION}"
