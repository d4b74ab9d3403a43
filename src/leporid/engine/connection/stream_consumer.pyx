"""A consumer of a stream: reads at its own pace, and removes nothing.

Responsible for the position of one consumer and for its deliveries. It must not keep anything of
the stream but a cursor. Invariants: offsets are delivered in rising order; settling a delivery
frees credit and changes nothing in the stream; the first delivery after a skip says how many
messages the consumer missed.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize

from leporid.engine.bounds.clock cimport spend
from leporid.engine.connection.channel cimport SETTLE_FAIL, Channel
from leporid.engine.connection.consumer cimport Consumer, has_room
from leporid.engine.connection.large_body cimport BODY_COPIED_MAX
from leporid.engine.connection.tracing cimport trace_delivered
from leporid.engine.stream.scanning cimport Scan, find_next
from leporid.engine.stream.stream cimport Stream
from leporid.engine.wire.codec cimport ADDED_BYTES_MAX, STREAM_SKIPPED_FIELD, with_field
from leporid.engine.wire.record cimport Message, Record, message_in

cdef enum:
    RETURNED_MAX = 500              # returned messages stored at once when a consumer ends
    # Of the clock's units: so many bytes of a body cost as much as a small message.
    UNIT_BYTES_BITS = 12


cdef class StreamConsumer(Consumer):
    """One consumer of a stream; made by `Channel.consume_stream`."""

    def __repr__(self):
        return (f"<StreamConsumer {self.tag!r} of {self.queue.name!r} offset={self.offset} "
                f"unacked={self.unacked_count}>")

    def start(self, uint64_t offset):
        """Set the first offset, before it is attached; it may be one that does not exist yet."""
        self.wanted = offset
        (<Stream> self.queue).locate(offset, &self.cursor)

    @property
    def offset(self):
        """The offset of the next message to be delivered."""
        return max(self.cursor.offset, self.wanted)

    @property
    def settled_offset(self):
        """All messages below it were settled, and none of them is to be read again."""
        cdef uint64_t least = self.unsettled_offset()
        if self.returned:
            least = min(least, min(self.returned))
        return min(least, self.rejected_offset) if self.rejected else least

    @property
    def has_unsettled(self):
        """Whether a delivery is not settled."""
        return bool(self.returned) or self.unsettled_offset() < self.offset

    def withdraw_rejects(self):
        """Leave recently rejected messages to the next consumer: they do not count as failed.

        The client cancels the consumer or closes the channel, and before that some libraries
        reject deliveries that the application has not seen.
        """
        for offset, how in list((self.returned or {}).items()):
            if how == SETTLE_FAIL:
                del self.returned[offset]
                self.leave_to_next(offset)

    def keep_returned(self):
        """Store all returned messages now; those beyond a turn's limit are left to the next
        consumer."""
        cdef uint32_t left = RETURNED_MAX
        returned, self.returned = self.returned or {}, None
        for offset, how in returned.items():
            if left:
                left -= 1
                self.retries.keep(self, offset, how)
            else:
                self.leave_to_next(offset)

    cdef int leave_to_next(self, uint64_t offset) except -1:
        """Leave a message to be read again by the next consumer."""
        if not self.rejected or offset < self.rejected_offset:
            self.rejected, self.rejected_offset = True, offset
        return 0

    cdef uint64_t unsettled_offset(self) except? 0:
        """The offset of the first unsettled delivery; without one, that of the next message."""
        cdef size_t at = self.channel.unacked.start
        cdef uint64_t least = self.offset
        # The channel's other consumers may have very many unsettled deliveries: those are looked
        # through once, and not again by each question.
        if not self.unacked_count:
            self.settled_below = self.channel.delivery_tag + 1
            return least
        if self.channel.transaction is not None:
            for _, _, seq, consumer, _, _ in self.channel.transaction.settles:
                if consumer is self:
                    least = min(least, <uint64_t> seq)  # until the transaction is committed
        elif self.settled_below:
            at = self.channel.unacked.above(self.settled_below - 1)
        while at < self.channel.unacked.end:
            if self.channel.unacked.entries[at].consumer == <void *> self:
                self.settled_below = self.channel.unacked.entries[at].tag
                return min(least, self.channel.unacked.entries[at].seq)
            at = self.channel.unacked.after(at)
        return least

    cdef int offered(self) except -1:
        self.waiting = False
        if self.found:
            self.look_for(1)
        return self.fill()

    cdef int resume(self) except -1:
        if self.level is None:          # else it waits for credit, and keeps its place
            self.waiting = False
        return Consumer.resume(self)

    cdef uint64_t position(self) except? 0:
        return self.cursor.offset

    def note_skipped(self, uint64_t count):
        """Note that retention dropped so many messages before they could be delivered."""
        self.skipped += count
        self.unreported += count
        (<Stream> self.queue).streams.skipped_messages += count

    cdef uint64_t skip(self) except? 0:
        cdef Stream stream = <Stream> self.queue
        cdef uint64_t before = self.offset
        stream.locate(stream.first, &self.cursor)
        self.found = False
        if before >= stream.first:
            return 0  # it was started at an offset that is still kept, or does not exist yet
        self.note_skipped(stream.first - before)
        return stream.first - before

    cdef int fill(self) except -1:
        """Deliver messages while there is credit, until the slice is over; with a filter, have
        `scanning` search."""
        cdef Stream stream = <Stream> self.queue
        cdef Record *record
        if stream.paused:
            return 0
        if self.choice is not None:
            if not self.waiting and self.cursor.offset < stream.end:
                stream.streams.scanning[self] = None
            return 0
        while not self.waiting and self.cursor.offset < stream.end:
            if not self.can_take():
                self.waiting = True
                return 0
            record = stream.look(&self.cursor)
            if record == NULL:
                return 0
            if self.cursor.offset >= self.wanted:
                give(self, stream, record)
            self.cursor.at += record.size
            self.cursor.offset += 1
            if spend(self.channel.logs.clock, units_of(record)):
                stream.wake()
                return 0
        return 0

    cdef int64_t look_for(self, int64_t work) except? -1:
        """Deliver messages that match, while there is credit, spending up to `work`; returns the
        rest, which is 0 or less if the search has to go on.

        It asks for shared credit only when it has found a message, so that other consumers do not
        wait for its search.
        """
        cdef Stream stream = <Stream> self.queue
        cdef Scan scan
        cdef Record *record
        if stream.paused:
            return work     # `fill` has it search again
        scan.cursor, scan.looked, scan.work = &self.cursor, self.looked, work
        while scan.work > 0 and self.cursor.offset < stream.end:
            if not has_room(self):
                self.waiting = True
                break
            if self.found:
                record = stream.look(&self.cursor)
            else:
                record = find_next(stream, self.choice, &scan)
            if record == NULL:
                break
            self.found = True
            if self.cursor.offset >= self.wanted:
                if not self.has_credit():
                    self.waiting = True
                    break
                give(self, stream, record)
            self.found = False
            self.cursor.at += record.size
            self.cursor.offset += 1
        self.looked = scan.looked
        return scan.work


cdef inline uint32_t units_of(const Record *record) noexcept:
    """What a delivery costs of the clock."""
    return 1 + (min(record.body_len, <uint32_t> BODY_COPIED_MAX) >> UNIT_BYTES_BITS)


cdef inline int give(StreamConsumer self, Stream stream, const Record *record) except -1:
    """Deliver the message at the cursor."""
    cdef Channel channel = self.channel
    channel.delivery_tag += 1
    self.delivered[0] += 1
    self.type_delivered[0] += 1
    if record.body_len > BODY_COPIED_MAX:
        channel.out.source = stream.log.find(self.cursor.segment)
    if self.unreported:
        give_after_skip(self, record)
    else:
        channel.out.write_from_stream(
            channel.number, <const uint8_t *> PyBytes_AS_STRING(self.head), len(self.head),
            channel.delivery_tag, self.cursor.offset, record)
    if channel.trace is not None:
        trace_delivered(channel.trace, stream, record, False)
    self.unacked_count += 1  # consumers of streams always acknowledge
    if self.credit is not None:
        self.credit.take_one()
    channel.outstanding += 1
    channel.unacked_count += 1
    channel.unacked.add(channel.delivery_tag, self.cursor.offset, stream, self,
                        channel.logs.clock.now_ms)
    return 0


cdef int give_after_skip(StreamConsumer self, const Record *record) except -1:
    """Write the message at the cursor with the header x-stream-skipped, too."""
    cdef Channel channel = self.channel
    cdef Message message = message_in(record)
    cdef size_t length = message.properties_len
    cdef bytes changed = PyBytes_FromStringAndSize(NULL, <Py_ssize_t> length + ADDED_BYTES_MAX)
    cdef uint8_t *properties = <uint8_t *> PyBytes_AS_STRING(changed)
    message.properties_len = with_field(properties, message.properties, length,
                                        STREAM_SKIPPED_FIELD, self.unreported)
    message.properties = properties
    self.unreported = 0
    return channel.out.write_first_kept(
        channel.number, <const uint8_t *> PyBytes_AS_STRING(self.head), len(self.head),
        channel.delivery_tag, self.cursor.offset, &message)


cdef int send_next(StreamConsumer reader, Stream stream, const Record *record) except -1:
    """Deliver the message at a consumer's cursor; for other modules."""
    return give(reader, stream, record)
