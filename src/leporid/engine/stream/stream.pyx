"""A stream: a log of its own, read by offset, whose messages stay until retention drops them.

Responsible for offsets, for what may be read, for finding an offset or a time, and for retention.
It must not know connections: a consumer over AMQP is a `Taker`, all other reads are `window`s. It
is a Queue so that bindings and consumers treat it as one; its index of entries stays empty.

Invariants: offsets are dense, begin at 0 and are never used twice; every readable message is on
disk, so that no crash can give its offset to another message; a segment that is being read keeps
its bytes; no consumer's position is before the first message.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from leporid.engine.bounds.clock cimport spend
from leporid.engine.log.log cimport (
    FLAG_PRODUCED, KIND_PUBLISH, KIND_SYNCED, SEGMENT_HEADER_BYTES, Log, Segment, begin_message,
    finish_message, name_producer, segment_number,
)
from leporid.engine.log.producers cimport Producer, Producers
from leporid.engine.queue.queue cimport Queue
from leporid.engine.queue.queues cimport Queues
from leporid.engine.queue.takers cimport Taker
from leporid.engine.stream.choice cimport Choice, Tally, add_tally, tally_of
from leporid.engine.stream.offset_index cimport IndexEntry, OffsetIndex, is_due
from leporid.engine.stream.window cimport StreamWindow
from leporid.engine.wire.codec cimport HAS_TAG, Props
from leporid.engine.wire.record cimport NO_LIMIT, Message, Record, Target, content_of, targets_of

from collections import OrderedDict

cdef enum:
    # A small stream takes little space; each further segment is twice as large, up to the limit.
    SEGMENT_BYTES_FIRST = 1024 * 1024
    SEGMENT_BYTES_MAX = 16 * 1024 * 1024
    RETAIN_EVERY_MS = 1000
    UNITS_A_SYNC = 8                # of work: a stream's part of one, before or after the disk
    UNITS_A_RETENTION = 4           # of work: to compare one stream with its limits
    HOLD_PERCENT_MAX = 1000


cdef class Stream(Queue):
    """One stream; made by `Engine.stream`."""

    def __cinit__(self, Queues queues, uint32_t queue_id, str name, bint durable):
        self.own_record = True
        self.log = Log(True, SEGMENT_BYTES_FIRST, queues.logs.durable.seed ^ queue_id)
        self.title = f"queue '{name}'"
        self.readers = {}
        self.visits = []
        self.dropped = []
        self.unmapped = set()
        self.producers = Producers()
        self.offsets = OffsetIndex()
        self.max_bytes = self.max_age_ms = NO_LIMIT
        self.segment_bytes_max = SEGMENT_BYTES_MAX

    def __repr__(self):
        return (f"<Stream {self.name!r} first={self.first} end={self.end} "
                f"consumers={self.consumer_count}>")

    # ------------------------------------------------------------- called by the control plane

    def set_retention(self, *, max_bytes=None, max_age_ms=None, segment_bytes=None):
        """Set what retention drops: whole segments beyond a size or an age, never the newest."""
        self.max_bytes = NO_LIMIT if max_bytes is None else max_bytes
        self.max_age_ms = NO_LIMIT if max_age_ms is None else max_age_ms
        if segment_bytes is not None:
            self.segment_bytes_max = min(SEGMENT_BYTES_MAX, max(4096, segment_bytes))
            if self.log.segment_bytes > self.segment_bytes_max:
                self.log.resize(self.segment_bytes_max)

    @property
    def next_offset(self):
        """The offset of the next message to be appended."""
        return self.next_seq

    @property
    def bytes(self):
        """Bytes of the log."""
        cdef Segment segment
        cdef uint64_t total = 0
        for segment in self.log.segments:
            if segment is not None:
                total += segment.used
        return total

    @property
    def incarnation(self):
        """Differs from that of every other stream that had or will have its name."""
        return f"{self.streams.incarnation_prefix}-{self.id}"

    @property
    def first_timestamp_ms(self):
        """When the oldest message came; None if there is none."""
        cdef Cursor cursor
        cdef Record *record
        self.locate(self.first, &cursor)
        record = self.look(&cursor)
        return None if record == NULL else record.timestamp_ms

    def timestamp_of(self, uint64_t offset):
        """When the first readable message from an offset on came; None if there is none."""
        cdef Cursor cursor
        cdef Record *record
        self.locate(offset, &cursor)
        record = self.look(&cursor)
        return None if record == NULL else record.timestamp_ms

    @property
    def last_timestamp_ms(self):
        """When the newest readable message came; None if there is none."""
        return self.end_ms if self.end > self.first else None

    @property
    def filtering(self):
        """Counters of its readers' filters, over AMQP and HTTP: batches skipped, messages
        evaluated, matched, and with a type error."""
        return tally_of(&self.tally)

    def offset_for(self, uint64_t timestamp_ms):
        """The offset of the first message that came at a time or later; `end` without one."""
        cdef size_t low = self.offsets.start, high = self.offsets.end, middle
        cdef Cursor cursor
        cdef Record *record
        while low < high:
            middle = (low + high) // 2
            if self.offsets.entries[middle].timestamp_ms < timestamp_ms:
                low = middle + 1
            else:
                high = middle
        if low == self.offsets.start:
            self.locate(self.first, &cursor)
        else:
            self.locate(self.offsets.entries[low - 1].offset, &cursor)
        record = self.look(&cursor)
        while record != NULL and record.timestamp_ms < timestamp_ms:
            cursor.at += record.size
            cursor.offset += 1
            record = self.look(&cursor)
        return self.end if record == NULL else cursor.offset

    def count_filtering(self, counts):
        """Add the counters of a window's filter, as in `filtering`."""
        cdef Tally more
        more.batches_skipped, more.evaluated, more.matched, more.type_errors = counts
        add_tally(&self.tally, &more)
        add_tally(&self.streams.filtered, &more)

    def window(self, uint64_t first, uint64_t end, uint32_t rows_max, uint64_t bytes_max,
               Choice choice=None):
        """Messages from offset `first` to below `end`: as many as both limits allow, at least one.
        Their bytes stay where they are until the window is closed.

        With a choice, batches that cannot have a match are skipped; there may be no messages then.

        Raises:
            ValueError: the stream does not have that range.
        """
        if first < self.first or end > self.end or first > end:
            raise ValueError(f"stream {self.name!r} has offsets {self.first} to {self.end}, "
                             f"not {first} to {end}")
        return StreamWindow(self, first, end, rows_max, bytes_max, choice)

    # ------------------------------------------------------------- appending

    cdef int append_message(self, const Message *message, const Props *props, uint8_t flags,
                            Producer producer, uint64_t sequence) except -1:
        """Append a message, readable when it is synced; `producer` may be None."""
        cdef Record *record
        cdef Target *target
        cdef OffsetIndex offsets = self.offsets
        cdef uint64_t offset = self.next_seq, position
        cdef uint32_t segment
        self.newest_ms = max(self.newest_ms, self.queues.clock.wall_ms)
        record = begin_message(self.log, message, 1 if producer is None else 2, self.newest_ms)
        target = targets_of(record)
        target.queue, target.seq = self.id, offset
        if producer is not None:
            record.flags = FLAG_PRODUCED
            name_producer(record, 1, producer.number, sequence)
            producer.next = sequence + 1
        position = finish_message(self.log, record, message)
        self.next_seq += 1
        self.published += 1
        self.logs.stream_messages += 1
        segment = segment_number(position)
        if is_due(offsets, offset, segment):
            self.add_index_entry(offset, record.timestamp_ms, segment, <uint32_t> position)
        if props.marks & HAS_TAG or offsets.summaries != NULL:
            offsets.note(message.properties, message.properties_len, props.marks & HAS_TAG)
        if self.consumer_count or self.on_synced is not None:
            self.logs.awaited = True
        return self.touch()

    cdef int touch(self) except -1:
        """This stream has changes for the next sync."""
        if self.touched != self.logs.generation:
            self.touched = self.logs.generation
            self.streams.unsynced.append(self)
        self.logs.dirty = True
        return 0

    # ------------------------------------------------------------- positions

    cdef int add_index_entry(self, uint64_t offset, uint64_t timestamp_ms, uint32_t segment,
                             uint32_t at) except -1:
        """Add an entry to the offset index; a new segment makes the next one larger."""
        cdef OffsetIndex offsets = self.offsets
        if (offsets.end > offsets.start and offsets.entries[offsets.end - 1].segment != segment
                and self.log.segment_bytes < self.segment_bytes_max):
            self.log.resize(min(2 * self.log.segment_bytes, self.segment_bytes_max))
        return offsets.add(offset, timestamp_ms, segment, at)

    cdef bint whole_step(self, size_t entry, Cursor *cursor, Segment segment) noexcept:
        """Whether every offset from a cursor to index entry number `entry` has its record between.

        Offsets are dense except for damage, and each readable one is before `end`.
        """
        cdef IndexEntry *entries = self.offsets.entries
        if (self.gaps or entry == self.offsets.start or entry >= self.offsets.end
                or segment.holes):
            return False
        return (entries[entry - 1].offset == cursor.offset
                and entries[entry].segment == cursor.segment
                and entries[entry].offset <= self.end)

    cdef int locate(self, uint64_t offset, Cursor *cursor) except -1:
        """Point a cursor at an offset, which may be one that does not exist yet."""
        cdef IndexEntry *entry
        cdef Segment segment = self.log.active
        cdef Record *record
        cursor.offset = max(offset, self.first)
        if cursor.offset >= self.next_seq:
            cursor.offset = self.next_seq
            cursor.segment = self.log.first if segment is None else segment.number
            cursor.at = SEGMENT_HEADER_BYTES if segment is None else <uint32_t> segment.used
            return 0
        entry = self.offsets.before(cursor.offset)
        if entry == NULL:
            entry = &self.offsets.entries[self.offsets.start]
        cursor.segment, cursor.at = entry.segment, entry.at
        record = self.message_at(cursor)
        while record != NULL and offset_of(record) < cursor.offset:
            cursor.at += record.size
            record = self.message_at(cursor)
        return 0

    cdef Record *message_at(self, Cursor *cursor) except? NULL:
        """The record of the next message at or behind a cursor, readable or not; NULL: none."""
        cdef Segment segment
        cdef Segment active = self.log.active
        cdef Record *record
        while active is not None and cursor.segment <= active.number:
            segment = self.log.find(cursor.segment)
            if segment is None or cursor.at >= segment.used:
                if segment is active:
                    break
                cursor.segment += 1
                cursor.at = SEGMENT_HEADER_BYTES
                continue
            if segment.holes and cursor.at in segment.holes:
                cursor.at = segment.holes[cursor.at]
                continue
            record = <Record *> (segment.base + cursor.at)
            if record.kind == KIND_PUBLISH:
                return record
            cursor.at += record.size
        return NULL

    cdef Record *look(self, Cursor *cursor) except? NULL:
        """The next readable message at or behind a cursor, which is moved to it; NULL: none.

        To go on, add the record's size to `at` and one to `offset`.
        """
        cdef Record *record = NULL
        if cursor.offset < self.end:
            record = self.message_at(cursor)
        if record == NULL:
            return NULL
        cursor.offset = offset_of(record)  # damaged messages are skipped
        return record if cursor.offset < self.end else NULL

    # ------------------------------------------------------------- sync

    cdef tuple begin_sync(self):
        """The storage's work for this stream: (id, writes, drops)."""
        self.closing, self.closing_ms = self.next_seq, self.newest_ms
        self.locate(self.closing, &self.closing_place)
        if self.log.active is not None and self.log.active.used > self.log.active.written:
            self.producers.begin_sync(self.log, self.newest_ms)
            self.append_synced()
        drops, self.dropped = self.dropped, []
        return self.id, self.log.unwritten(), drops

    cdef int append_synced(self) except -1:
        """Append a SYNCED fact: the offsets that are on disk, and those of this write.

        By this fact replay tells the loss of a write that did not finish from damage, and knows
        which offsets existed even if their messages are damaged.
        """
        cdef Record *record = self.log.begin_fact(KIND_SYNCED, 0, 16, self.newest_ms)
        cdef uint64_t *offsets = <uint64_t *> content_of(record)
        offsets[0], offsets[1] = self.end, self.next_seq
        self.log.finish(record)
        return 0

    cdef int end_sync(self, list writes) except -1:
        """The writes are on disk: their messages may be read."""
        cdef bint moved = self.closing > self.end
        for write in writes:
            self.unmapped.add(write[0])
        self.log.mark_written(writes)
        if moved:
            self.last_chunk = self.end
            self.end, self.end_ms = self.closing, self.closing_ms
            self.end_place = self.closing_place
            self.recount()
        self.map_sealed()
        if self.log.active is not None and self.log.active.number != self.retained:
            self.retained = self.log.active.number
            self.retain()  # a segment is full; for all other reasons `Streams.retain` is called
        if moved and not self.retired:
            self.wake()
            if self.on_synced is not None:
                self.on_synced()
        return 0

    cdef int map_sealed(self) except -1:
        """Read sealed segments that are on disk from their files, and free their memory: a job."""
        cdef Segment active = self.log.active
        if self.is_mapping or self.retired or self.streams.map_segment is None:
            return 0
        # Nearly always there is one alone, to which more is appended.
        if len(self.unmapped) > 1 or active is None or active.sealed:
            self.is_mapping = True
            self.queues.jobs.start(_mapping(self))
        return 0

    cdef int map_one(self, uint32_t number) except -1:
        """Read a segment from its file if it is sealed and on disk, and nobody looks at it."""
        cdef Segment segment = self.log.find(number)
        if segment is not None:
            if not segment.sealed or segment.written != segment.used or segment.readers:
                return 0
            segment.adopt(self.streams.map_segment(self.id, number), self.log)
        self.unmapped.discard(number)
        return 0

    cdef int retain(self) except -1:
        """Apply retention: drop the oldest segments while the stream is too large, or they too old.

        A segment that a consumer has not read yet is kept until the stream is over its limit by
        `Streams.hold_percent` even without that segment. Then retention waits for no consumer.
        """
        cdef Segment oldest
        cdef OffsetIndex offsets = self.offsets
        cdef size_t at
        cdef uint64_t now = self.queues.clock.wall_ms, total, needed, first = self.first
        if self.max_bytes == NO_LIMIT and self.max_age_ms == NO_LIMIT or self.retired:
            return 0
        total = self.bytes
        needed = self.slowest_position()
        while offsets.end > offsets.start:
            oldest = self.log.find(offsets.entries[offsets.start].segment)
            if not oldest.sealed or oldest.written != oldest.used or oldest.readers:
                break
            at = offsets.start
            while at < offsets.end and offsets.entries[at].segment == oldest.number:
                at += 1
            if at == offsets.end or offsets.entries[at].offset > self.end:
                break  # it has the newest messages
            if total <= self.max_bytes and (
                    self.max_age_ms == NO_LIMIT
                    or offsets.entries[at].timestamp_ms + self.max_age_ms > now):
                break
            if needed < offsets.entries[at].offset:
                if not self.is_over_hold(total - oldest.used, offsets.entries[at].timestamp_ms):
                    break
                needed = NO_LIMIT
            total -= oldest.used
            offsets.start = at
            self.first = offsets.entries[at].offset
        if self.first > first:
            self.drop_before(offsets.entries[offsets.start].segment)
            self.recount()
            self.skip_readers()
        return 0

    cdef uint64_t slowest_position(self) except? 0:
        """The least position of its consumers; NO_LIMIT without one."""
        cdef Taker reader
        cdef uint64_t least = NO_LIMIT
        for reader in self.readers:
            least = min(least, reader.position())
        return least

    cdef bint is_over_hold(self, uint64_t size, uint64_t timestamp_ms) noexcept:
        """Whether a stream of this size, with a first message of that time, is so far over its
        limits that retention waits for no consumer."""
        cdef uint64_t percent = self.streams.hold_percent, oldest_ms
        if not percent:
            return False
        if size > raised(self.max_bytes, percent):
            return True
        oldest_ms = raised(self.max_age_ms, percent)
        return oldest_ms != NO_LIMIT and timestamp_ms + oldest_ms <= self.queues.clock.wall_ms

    cdef int skip_readers(self) except -1:
        """Skip consumers forward to the first message, and tell the control plane which."""
        cdef Taker reader
        cdef uint64_t count
        cdef list skips = []
        for reader in self.readers:
            if reader.position() < self.first:
                count = reader.skip()
                if count:
                    skips.append((reader, self.first - count, self.first))
        if skips:
            self.wake()
            if self.on_skipped is not None:
                self.on_skipped(skips)
        return 0

    cdef void recount(self) noexcept:
        """Other messages can be read than before."""
        cdef uint64_t count = self.end - self.first
        self.totals.ready += count - self.ready_count
        self.ready_count = count

    def drop_before(self, uint32_t number):
        """Drop the segments below a number; their files are deleted with the next sync."""
        cdef Segment segment
        for segment in list(self.log.segments):
            if segment is not None and segment.number < number:
                self.dropped.append(segment.number)
                self.log.drop(segment)
        self.touch()

    # ------------------------------------------------------------- readers

    cdef void wake(self):
        if self.visits:
            self.again = True
        self.enlist()

    cdef void enlist(self):
        """Have its consumers deliver when it is its turn."""
        if not self.listed and self.readers:
            self.listed = True
            self.queues.ready_queues.append(self)

    cdef int attach(self, Taker taker) except -1:
        self.consumer_count += 1
        self.readers[taker] = None
        self.wake()
        return 0

    cdef int detach(self, Taker taker) except -1:
        self.consumer_count -= 1
        del self.readers[taker]
        if not self.readers:
            self.visits = []    # they know the stream
        return 0

    cdef int resume(self, Taker taker) except -1:
        if taker.position() < self.end:
            self.wake()
        return 0

    cdef int deliver(self) except -1:
        """Let every consumer deliver what it has credit for, one after the other.

        Those for whom the slice has no time have their turn later, before all others have another.
        """
        cdef Taker reader
        if not self.visits:
            self.visits = list(self.readers)
            self.visits.reverse()
        while self.visits:
            reader = <Taker> self.visits.pop()
            if reader.active:
                reader.fill()
            if self.visits and spend(self.queues.clock, 1):
                break
        if self.visits:
            self.enlist()
        elif self.again:
            self.again = False
            self.wake()
        return 0

    def purging(self):
        """A stream cannot be purged; the control plane refuses it."""
        raise AssertionError(f"stream {self.name!r} was to be purged")

    def retire(self):
        """The stream was deleted; returns how many messages it had."""
        self.retired = True
        self.on_skipped = None      # it knows the stream
        self.uncount()
        self.queues.by_id.pop(self.id)
        self.streams.by_id.pop(self.id, None)
        self.streams.dropped.append(self.id)
        self.logs.dirty = True
        return self.ready_count


def _mapping(Stream stream):
    """Read segments from their files, one a step: to free the memory of one takes milliseconds."""
    try:
        for number in list(stream.unmapped):
            if stream.retired:
                break
            stream.map_one(number)
            yield
    except OSError:
        pass  # no descriptor or mapping to be had: they stay in memory until the next sync
    finally:
        stream.is_mapping = False


cdef class Streams:
    """What all streams share."""

    def __cinit__(self, Queues queues not None, str incarnation_prefix):
        self.queues = queues
        self.by_id = {}
        self.incarnation_prefix = incarnation_prefix
        self.unsynced = []
        self.syncing = []
        self.dropped = []
        self.dropping = []
        # Who is first in a dict whose first ones were removed is found slowly.
        self.scanning = OrderedDict()
        self.retaining = []

    def __repr__(self):
        return f"<Streams {len(self.by_id)}>"

    @property
    def filtering(self):
        """Counters of filters for all streams since the start, as in `Stream.filtering`."""
        return tally_of(&self.filtered)

    def set_hold(self, uint64_t percent):
        """Set by how much of its limit a stream may be over it because a consumer is slow; 0: by
        any size and age."""
        if percent > HOLD_PERCENT_MAX:
            raise ValueError(f"invalid percentage {percent}: it is at most {HOLD_PERCENT_MAX}")
        self.hold_percent = percent

    cdef Stream add(self, uint32_t queue_id, str name):
        cdef Stream stream = Stream(self.queues, queue_id, name, True)
        stream.streams = self
        self.queues.by_id[queue_id] = self.by_id[queue_id] = stream
        return stream

    cdef int retain(self) except -1:
        """Apply retention to all streams; once a second, since segments age without writes.

        Those for which the slice has no time are next in later turns.
        """
        cdef uint64_t now_ms = self.queues.clock.now_ms
        if not self.retaining:
            if now_ms - self.retained_ms < RETAIN_EVERY_MS:
                return 0
            self.retained_ms = now_ms
            self.retaining = list(self.by_id.values())
        while self.retaining:
            (<Stream> self.retaining.pop()).retain()
            if spend(self.queues.clock, UNITS_A_RETENTION):
                break
        return 0

    cdef int begin_sync(self) except -1:
        """The generation is closed: what it changed is collected from now on.

        What comes meanwhile is of the next one. It may be among the writes, too, which does no
        harm: it is on disk before somebody is told so.
        """
        cdef Stream stream
        # Who is deleted from now on is on disk as ever: that it is deleted is of the next one.
        self.syncing = [stream for stream in self.unsynced if not (<Stream> stream).retired]
        self.unsynced = []
        self.dropping, self.dropped = self.dropped, []
        self.work = []
        return 0

    cdef list collected(self, bint whole):
        """The storage's work: (stream id, writes, drops); None for both: delete all its files.

        None: it is not collected yet. Unless it is to be `whole`, so much is done as the slice has
        time for.
        """
        cdef list work = self.work
        while len(work) < len(self.syncing):
            if not whole and work and spend(self.queues.clock, UNITS_A_SYNC):
                return None
            work.append((<Stream> self.syncing[len(work)]).begin_sync())
        work += [(number, None, None) for number in self.dropping]
        self.work, self.dropping = None, []
        return work

    cdef int end_sync(self, list streams) except -1:
        """The writes are on disk: `note_written` has yet to note that."""
        self.written, self.noted = streams, 0
        return 0

    cdef int note_written(self, bint whole) except -1:
        """Let what is on disk be read: all of it, or what the slice has time for."""
        if self.written is None:
            return 0
        while self.noted < len(self.syncing):
            (<Stream> self.syncing[self.noted]).end_sync(self.written[self.noted][1])
            self.noted += 1
            if not whole and spend(self.queues.clock, UNITS_A_SYNC):
                return 0
        self.syncing, self.written = [], None
        return 0


cdef inline uint64_t raised(uint64_t limit, uint64_t percent) noexcept:
    """A limit and so many per cent more; of petabytes, and of many thousand years, no limit."""
    return NO_LIMIT if limit >> 52 else limit + limit * percent // 100
