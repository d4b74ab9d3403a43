"""Named readers of streams: up to where each has read, kept for when it comes back.

Responsible for following the consumers that were started with x-reader, for what their offsets may
be, and for telling what a reader missed because retention dropped it first. Must not know where
offsets are stored, nor when it is time to look.
Invariant: a stored offset is that of a message that was acknowledged, or rejected for good, as were
all before it that its consumer was sent; what is not stored yet when a broker is killed is
delivered again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final

from leporid.amqp.errors import PreconditionFailed
from leporid.broker.queue.queue import QueueState
from leporid.broker.queue.queue_types import check_consumer_arguments
from leporid.broker.settings.values import READER
from leporid.broker.stored import Recorder, StoredReaderOffset, StoredReaderProgress
from leporid.broker.stream.offset_ranges import OffsetRanges, Range
from leporid.broker.stream.stream_arguments import NUMBER_MAX

if TYPE_CHECKING:
    from leporid.broker.registry import Steps
    from leporid.engine.connection.stream_consumer import StreamConsumer
    from leporid.engine.engine import Engine
    from leporid.engine.stream.stream import Stream

logger = logging.getLogger(__name__)

READERS_MAX: Final = 10_000
"""Stored offsets of one stream. They stay until somebody drops them, so a client that makes up a
new name each time would fill the disk; whoever means it has fewer."""


SAVED_AT_ONCE: Final = 8
"""Consumers of one reader; more than one is a mistake, or a handover."""

NOTHING_READ: Final = -1
"""The stored offset of a reader that begins at offset 0 and has read nothing yet."""


@dataclass(slots=True)
class Skips:
    """What a named reader missed since the broker's start: retention dropped it first."""

    messages: int = 0
    counted: OffsetRanges = field(default_factory=OffsetRanges)
    """Those in `messages`, so that none is counted twice."""
    untold: OffsetRanges = field(default_factory=OffsetRanges)
    """Of these, those that no delivery had told of when the consumer ended that missed them."""


@dataclass(slots=True)
class Progress:
    """Who a named reader is and when it went on."""

    user: str
    """Who reads in its name, or moved its offset, last."""
    since_ms: int
    """Since when that user does, without another one in between."""
    moved_ms: int | None = None
    """When the offset changed last."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a named reader of one stream, or partition, is when it is looked at."""

    queue: QueueState
    stream: Stream
    name: str
    offset: int
    """Of the last message that it has read."""
    stream_name: str
    """What readers know the stream by: the name of all partitions together."""
    partition: int

    @property
    def next_offset(self) -> int:
        """The offset after the last message that it has read: where it goes on."""
        return self.offset + 1

    @property
    def first_unread(self) -> int:
        """The offset of the first message that it has not read and that is kept."""
        return max(self.stream.first, self.next_offset)

    @property
    def lag(self) -> int:
        """How many messages it has not read."""
        return max(0, self.stream.end - self.first_unread)

    def lag_ms(self, now_ms: int) -> int | None:
        """Return how long the first message that it has not read waits; None without one."""
        came_ms = self.stream.timestamp_of(self.first_unread) if self.lag else None
        return None if came_ms is None else max(0, now_ms - came_ms)

    @property
    def user(self) -> str | None:
        """Who reads in its name; None if the offset was stored before that was kept."""
        known = self.queue.reader_progress.get(self.name)
        return None if known is None else known.user

    @property
    def since_ms(self) -> int | None:
        """Since when that user does."""
        known = self.queue.reader_progress.get(self.name)
        return None if known is None else known.since_ms

    @property
    def moved_ms(self) -> int | None:
        """When it went on last; None if it did not since that is kept."""
        known = self.queue.reader_progress.get(self.name)
        return None if known is None else known.moved_ms


@dataclass(eq=False, slots=True)
class TrackedConsumer:
    """A consumer that reads in the name of a reader, whose offset is stored."""

    queue: QueueState
    reader: str
    consumer: StreamConsumer
    settled: int = field(init=False)
    """As `consumer.settled_offset` was when it was stored last, or when the consumer began."""
    ended: bool = False
    """Whether the consumer was cancelled; it may still settle what it was sent."""
    untold: OffsetRanges = field(default_factory=OffsetRanges)
    """What the reader missed with this consumer, and its next delivery tells of."""
    unreported: int = 0
    """As `consumer.unreported` was then: if it is less, a delivery has told of it."""

    def __post_init__(self) -> None:
        self.settled = self.consumer.settled_offset

    @property
    def settles_no_more(self) -> bool:
        """Whether it has ended, and what it was sent is settled or has nowhere to be stored."""
        if not self.ended:
            return False
        return self.queue.deleted or not self.consumer.has_unsettled


class OffsetTracking:
    """Follows the consumers of one virtual host that are named readers, and stores their offsets.

    Args:
        recorder: told of every offset that is to last.
        engine: says what is on disk.
    """

    def __init__(self, recorder: Recorder, engine: Engine) -> None:
        self._recorder = recorder
        self._engine = engine
        self._open: dict[TrackedConsumer, None] = {}
        self._by_queue: dict[QueueState, dict[TrackedConsumer, None]] = {}
        self._by_reader: dict[tuple[QueueState, str], dict[TrackedConsumer, None]] = {}
        # Where retention moved consumers from and to, until that is counted.
        self._skipped: dict[TrackedConsumer, Range] = {}
        # Offsets that are told of when that generation is on disk.
        self._waiting: dict[tuple[QueueState, str], int] = {}

    def __repr__(self) -> str:
        return f"<OffsetTracking open={len(self._open)}>"

    def open(
        self, queue: QueueState, reader: str, consumer: StreamConsumer, user: str = ""
    ) -> TrackedConsumer:
        """Follow a consumer, of a user, that has just begun."""
        tracked = TrackedConsumer(queue, reader, consumer)
        self._used(queue, reader, user)
        self._open[tracked] = None
        self._by_queue.setdefault(queue, {})[tracked] = None
        self._by_reader.setdefault((queue, reader), {})[tracked] = None
        self._resume(tracked)
        return tracked

    def _resume(self, tracked: TrackedConsumer) -> None:
        """Tell a consumer what its reader missed while no consumer read in that name."""
        queue, reader, consumer = tracked.queue, tracked.reader, tracked.consumer
        stream, stored = queue.stream, queue.reader_offsets.get(reader)
        if stored is None or consumer.wanted != stored + 1 or stream is None:
            return
        known = queue.reader_skips.get(reader)
        missed = [] if known is None else known.untold.take()
        consumer.unreported += _size(missed)
        start, end = stored + 1, stream.first
        if start < end:
            added = _count(queue, reader, start, end)
            consumer.note_skipped(_size(added))
            missed += added
            _log(f"{queue.title}: reader '{reader}'", consumer, start, end)
        for each in missed:
            tracked.untold.add(*each)
        tracked.unreported = consumer.unreported

    def skip(self, queue: QueueState, skips: Sequence[tuple[StreamConsumer, int, int]]) -> Steps:
        """Tell of consumers that retention did not wait for: where each was, and now is.

        Who ends before its step is told of then.
        """
        known = {each.consumer: each for each in self._by_queue.get(queue, ())}
        for consumer, start, end in skips:
            tracked = known.get(consumer)
            if tracked is not None:
                self._count_skip(tracked)  # an earlier one
                self._skipped[tracked] = start, end
        for consumer, start, end in skips:
            tracked = known.get(consumer)
            if tracked is None:
                _log(f"{queue.title}: consumer '{consumer.tag}'", consumer, start, end)
            else:
                self._count_skip(tracked)
                _log(f"{queue.title}: reader '{tracked.reader}'", consumer, start, end)
            yield None

    def _count_skip(self, tracked: TrackedConsumer) -> None:
        """Count what a consumer passed over, unless that was done."""
        found = self._skipped.pop(tracked, None)
        if found is None:
            return
        start, end = found
        left = tracked.consumer.unreported
        if left < tracked.unreported + end - start:
            tracked.untold.take()  # a delivery has told of what was before
        missed = _count(tracked.queue, tracked.reader, start, end)
        if left >= end - start:
            for each in missed:
                tracked.untold.add(*each)
        tracked.unreported = left

    def save(self, tracked: TrackedConsumer) -> None:
        """Store where a consumer is, if it went on."""
        settled = tracked.consumer.settled_offset
        if settled > tracked.settled and not tracked.queue.deleted:
            tracked.settled = settled
            after = tracked.consumer.kept_generation
            self._move(tracked.queue, tracked.reader, settled - 1, after)

    def saving(self) -> Steps:
        """Store where all of them are, one in each step."""
        for tracked in tuple(self._open):
            if tracked in self._open:
                self.save(tracked)
                yield None
        for of in tuple(self._waiting):
            generation = self._waiting.pop(of, None)
            queue, reader = of
            if generation is not None and not queue.deleted and reader in queue.reader_offsets:
                self._record(queue, reader, generation)
                yield None

    def save_of(self, queue: QueueState, reader: str) -> None:
        """Store where the newest consumers of a reader are; that of others is stored each second.

        What waits for the disk, `saving` tells.
        """
        same = self._by_reader.get((queue, reader), {})
        for tracked in reversed(tuple(islice(reversed(same), SAVED_AT_ONCE))):
            self.save(tracked)

    def saving_of(self, queue: QueueState) -> Steps:
        """Store where all readers of one stream are, one consumer in each step; likewise."""
        for tracked in tuple(self._by_queue.get(queue, ())):
            if tracked in self._open:
                self.save(tracked)
                yield None

    def close(self, tracked: TrackedConsumer) -> None:
        """Store it and follow it no more: what it has not settled, it will not settle now."""
        if tracked in self._open:
            self.save(tracked)
            self._count_skip(tracked)
            known = tracked.queue.reader_skips.get(tracked.reader)
            if known is not None and tracked.consumer.unreported:
                for each in tracked.untold.take():
                    known.untold.add(*each)
            del self._open[tracked]
            queue, reader = tracked.queue, tracked.reader
            others = self._by_queue[queue]
            del others[tracked]
            same = self._by_reader[queue, reader]
            del same[tracked]
            if not same:
                del self._by_reader[queue, reader]
                if reader not in queue.reader_offsets:
                    queue.reader_progress.pop(reader, None)  # it has read nothing under that name
            if not others:
                del self._by_queue[queue]

    def set(self, queue: QueueState, reader: str, offset: int, user: str = "") -> None:
        """Say which message a reader has read last: NOTHING_READ before the first one.

        Raises:
            PreconditionFailed: the name or the offset is none, or there are too many readers.
        """
        check_consumer_arguments(queue.title, queue.type, {READER: reader})
        if not NOTHING_READ <= offset <= NUMBER_MAX:
            raise PreconditionFailed(f"invalid offset {offset} for {queue.title}")
        check_room(queue, reader)
        if reader in queue.reader_skips:
            queue.reader_skips[reader].counted.take()  # it may have been moved back
        self._used(queue, reader, user)
        self._move(queue, reader, offset)

    def restore(
        self, queue: QueueState, reader: str, user: str, since_ms: int, moved_ms: int | None
    ) -> None:
        """Have again who a reader is; nothing is recorded."""
        queue.reader_progress[reader] = Progress(user, since_ms, moved_ms)

    def drop(self, queue: QueueState, reader: str) -> bool:
        """Forget a reader; returns whether it was known."""
        self._waiting.pop((queue, reader), None)
        queue.reader_skips.pop(reader, None)
        queue.reader_progress.pop(reader, None)
        if queue.reader_offsets.pop(reader, None) is None:
            return False
        self.drop_recorded(queue, reader)
        return True

    def drop_recorded(self, queue: QueueState, reader: str) -> None:
        """Record that a reader is forgotten."""
        for kind in (StoredReaderProgress, StoredReaderOffset):
            self._recorder.drop(kind, self._recorder.vhost, queue.name, reader)

    def _used(self, queue: QueueState, reader: str, user: str) -> None:
        """Note that a user reads in a reader's name."""
        known = queue.reader_progress.get(reader)
        if user and (known is None or known.user != user):
            moved = None if known is None else known.moved_ms
            now = self._engine.clock.wall_ms
            queue.reader_progress[reader] = Progress(user, now, moved)
            if reader in queue.reader_offsets:
                self._record_progress(queue, reader)

    def _move(self, queue: QueueState, reader: str, offset: int, after: int = 0) -> None:
        if queue.reader_offsets.get(reader) != offset:
            queue.reader_offsets[reader] = offset
            if reader in queue.reader_progress:
                queue.reader_progress[reader].moved_ms = self._engine.clock.wall_ms
            self._record(queue, reader, after)

    def _record(self, queue: QueueState, reader: str, after: int) -> None:
        """Store an offset, not before that generation is on disk.

        Definitions are written before the log of their generation. What a group keeps of a message
        must be there before the offset is beyond that message.
        """
        after = max(after, self._waiting.get((queue, reader), 0))
        if after > self._engine.logs.synced:
            self._waiting[queue, reader] = after
        else:
            self._waiting.pop((queue, reader), None)
            offset = queue.reader_offsets[reader]
            vhost = self._recorder.vhost
            self._recorder.put(StoredReaderOffset(vhost, queue.name, reader, offset))
            self._record_progress(queue, reader)

    def _record_progress(self, queue: QueueState, reader: str) -> None:
        known = queue.reader_progress.get(reader)
        if known is not None:
            of = self._recorder.vhost, queue.name, reader
            moved_ms = known.moved_ms or 0
            self._recorder.put(StoredReaderProgress(*of, known.user, known.since_ms, moved_ms))


def check_room(queue: QueueState, reader: str) -> None:
    """Check that a stream may have one more reader.

    Raises:
        PreconditionFailed: it has too many, and this is not one of them.
    """
    known = queue.reader_offsets
    if reader not in known and len(known) >= READERS_MAX:
        raise PreconditionFailed(
            f"{queue.title} has {READERS_MAX} stored offsets of readers; drop some, or use a name "
            "that is among them"
        )


def skipped_messages(queue: QueueState, reader: str) -> int:
    """Return how many messages a named reader missed since the broker's start."""
    known = queue.reader_skips.get(reader)
    return 0 if known is None else known.messages


def _count(queue: QueueState, reader: str, start: int, end: int) -> list[Range]:
    """Count what a reader missed, from `start` to below `end`; returns what was not counted yet."""
    known = queue.reader_skips.get(reader)
    if known is None:
        if len(queue.reader_skips) >= READERS_MAX:
            return [(start, end)]
        known = queue.reader_skips[reader] = Skips()
    added = known.counted.add(start, end)
    known.messages += _size(added)
    return added


def _size(ranges: Iterable[Range]) -> int:
    return sum(end - start for start, end in ranges)


def _log(who: str, consumer: StreamConsumer, start: int, end: int) -> None:
    """Log a skip: once for each consumer, as one that stays behind is skipped again and again."""
    first = consumer.skipped == end - start
    logger.log(
        logging.WARNING if first else logging.DEBUG,
        "%s was skipped from offset %d to %d: retention dropped what it had not read",
        who,
        start,
        end,
    )
