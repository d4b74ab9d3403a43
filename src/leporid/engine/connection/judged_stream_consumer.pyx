"""A consumer of a stream with a filter class, which decides about each message.

Responsible for asking ahead of delivery: messages that pass the other filters are remembered by a
cursor, judged in batches, and delivered if they pass. It must not know who judges.

Invariants: offsets are delivered in rising order; a message is skipped only if the class says so;
retention keeps all messages that have a cursor here, as `cursor` is at the first of them.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memmove
from cpython.bytes cimport PyBytes_AS_STRING

from leporid.engine.bounds.clock cimport spend
from leporid.engine.connection.channel cimport Channel
from leporid.engine.connection.stream_consumer cimport StreamConsumer, send_next
from leporid.engine.selecting.verdicts cimport VerdictBatch
from leporid.engine.stream.scanning cimport Scan, find_next
from leporid.engine.stream.stream cimport Cursor, Stream
from leporid.engine.wire.record cimport Record

cdef enum:
    # Messages that have a cursor: some batches, so that one is out while the next is searched for
    # and the one before is delivered. Each takes 16 bytes, as the message stays in the stream.
    AHEAD_MESSAGES = 2000
    # The work of finding the next message if there is no other filter; see `scanning`.
    LOOK_WORK = 16


cdef class JudgedStreamConsumer(StreamConsumer):
    """One consumer of a stream; made by `Channel.consume_stream`."""

    def __cinit__(self, *_):
        self.cursors = <Cursor *> malloc(AHEAD_MESSAGES * sizeof(Cursor))
        if self.cursors == NULL:
            raise MemoryError("no memory for what a filter class is asked")

    def __dealloc__(self):
        free(self.cursors)

    def __repr__(self):
        return (f"<JudgedStreamConsumer {self.tag!r} of {self.queue.name!r} asks={self.name!r} "
                f"offset={self.offset} passed={self.asked - self.first} judging={self.out}>")

    def start(self, uint64_t offset):
        """Where to begin; before it is attached."""
        StreamConsumer.start(self, offset)
        self.ahead = self.cursor

    @property
    def judging(self):
        """Messages that wait for its filter class, as far as it has searched."""
        return self.end - self.asked

    # ------------------------------------------------------------- delivering

    cdef int fill(self) except -1:
        """Deliver messages that passed, while there is credit, and search for more."""
        cdef Stream stream = <Stream> self.queue
        cdef Record *record
        if stream.paused:
            return 0
        while not self.waiting and self.first < self.asked:
            if not self.can_take():
                self.waiting = True
                break
            self.cursor = self.cursors[self.first]
            record = stream.look(&self.cursor)
            if record == NULL:
                break
            send_next(self, stream, record)
            self.first += 1
            if spend(self.channel.logs.clock, 1):
                stream.wake()
                break
        self.move_cursor()
        if self.ahead.offset < stream.end and self.end - self.first < AHEAD_MESSAGES:
            stream.streams.scanning[self] = None
        return 0

    cdef int move_cursor(self) except -1:
        """Retention need not keep messages before the first one with a cursor."""
        cdef size_t at = self.first + self.stale
        self.cursor = self.cursors[at] if at < self.end else self.ahead
        return 0

    cdef uint64_t skip(self) except? 0:
        cdef Stream stream = <Stream> self.queue
        cdef uint64_t before = self.offset
        cdef size_t kept = self.first + self.stale, out = self.asked + self.out
        while kept < self.end and self.cursors[kept].offset < stream.first:
            kept += 1
        self.first = min(kept, self.asked)
        if kept > self.asked:
            # Verdicts will come for all that is out, in order, so its place is kept.
            self.stale = min(kept, out) - self.asked
        if kept > out:
            memmove(&self.cursors[out], &self.cursors[kept], (self.end - kept) * sizeof(Cursor))
            self.end -= kept - out
        if self.ahead.offset < stream.first:
            stream.locate(stream.first, &self.ahead)
        self.move_cursor()
        if before >= stream.first:
            return 0
        self.note_skipped(stream.first - before)
        return stream.first - before

    # ------------------------------------------------------------- asking

    cdef int64_t look_for(self, int64_t work) except? -1:
        """Search for messages to ask about, spending up to `work`; returns the rest."""
        cdef Stream stream = <Stream> self.queue
        cdef Scan scan
        cdef Record *record
        scan.cursor, scan.looked, scan.work = &self.ahead, self.looked, work
        self.make_room()
        while scan.work > 0 and self.ahead.offset < stream.end and self.end < AHEAD_MESSAGES:
            if self.choice is None:
                record = stream.look(&self.ahead)
                scan.work -= LOOK_WORK
            else:
                record = find_next(stream, self.choice, &scan)
            if record == NULL:
                break
            if self.ahead.offset >= self.wanted:
                self.cursors[self.end] = self.ahead
                self.end += 1
            self.ahead.at += record.size
            self.ahead.offset += 1
        self.looked = scan.looked
        self.move_cursor()
        if self.asked < self.end:
            self.channel.connections.verdicts.asking[self] = None
        return scan.work

    cdef int make_room(self) except -1:
        """Move the cursors to the start of their array."""
        if self.first:
            memmove(self.cursors, &self.cursors[self.first],
                    (self.end - self.first) * sizeof(Cursor))
            self.asked -= self.first
            self.end -= self.first
            self.first = 0
        return 0

    def batch(self, size_t most, size_t bytes_max):
        """The next messages as a frame for the filter server, and their number; None: no messages.

        They wait for `judged` or `give_back`. There are at most `most` of them, and none is added
        once there are `bytes_max` bytes.
        """
        cdef Stream stream = <Stream> self.queue
        cdef VerdictBatch batch = VerdictBatch(min(most, self.end - self.asked), bytes_max)
        cdef const Record *record
        cdef Cursor cursor
        if self.out:
            raise ValueError("a batch is out already")
        while self.active and batch.has_room():
            cursor = self.cursors[self.asked + batch.count]
            record = stream.look(&cursor)
            if record == NULL:
                break
            batch.add(record)
        if not batch.count:
            return None
        frame = batch.frame()
        self.out = batch.count  # not before: there may be no memory for the frame
        return frame, batch.count

    def judged(self, bytes verdicts not None):
        """The verdicts of the batch: messages with a 1 are delivered, in order, others skipped."""
        cdef const uint8_t *verdict = <const uint8_t *> PyBytes_AS_STRING(verdicts)
        cdef size_t at, passed = self.asked, next = self.asked + self.out
        if len(verdicts) != <Py_ssize_t> self.out:
            raise ValueError(f"{len(verdicts)} verdicts for {self.out} messages")
        if not self.active:
            self.out = self.stale = 0
            return
        for at in range(self.stale, self.out):
            if verdict[at]:
                self.cursors[passed] = self.cursors[self.asked + at]
                passed += 1
        memmove(&self.cursors[passed], &self.cursors[next], (self.end - next) * sizeof(Cursor))
        self.end -= next - passed
        self.asked, self.out, self.stale = passed, 0, 0
        self.move_cursor()
        (<Stream> self.queue).wake()

    def give_back(self):
        """There are no verdicts: the batch will be asked about again."""
        cdef size_t kept = self.asked + self.stale
        memmove(&self.cursors[self.asked], &self.cursors[kept],
                (self.end - kept) * sizeof(Cursor))
        self.end -= self.stale
        self.out = self.stale = 0


cdef StreamConsumer stream_consumer(Channel channel, Stream stream, str tag, uint32_t prefetch,
                                    str filter_class):
    """Make a consumer of a stream, with a filter class or None; `start` comes next."""
    cdef JudgedStreamConsumer judged
    if filter_class is None:
        return StreamConsumer(channel, stream, tag, False, 0, prefetch)
    judged = JudgedStreamConsumer(channel, stream, tag, False, 0, prefetch)
    judged.name = filter_class
    return judged
