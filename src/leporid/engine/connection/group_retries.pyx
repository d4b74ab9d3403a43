"""The retries of a group: messages of a stream that its members returned.

Responsible for a hidden durable queue. A returned message is copied from its stream into this
queue, with the number of its returns in its headers, and held for a delay; then any member of the
group gets it. When it is returned again, a copy with the next number replaces it in one
transaction. So the stream's consumer goes on, and a crash forgets no return. It must not know
groups or members.

Invariants: a consumer's `settled_offset` passes a message only when the message is stored here,
dead-lettered, or dropped for good; an entry's count and due time follow from its record alone; a
turn stores a bounded number of messages.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from leporid.engine.connection.channel cimport SETTLE_DROP, SETTLE_FAIL
from leporid.engine.connection.stream_consumer cimport StreamConsumer
from leporid.engine.queue.index cimport DELIVERIES_MAX, UNACKED, Slot
from leporid.engine.queue.queue cimport Queue
from leporid.engine.queue.queues cimport Queues
from leporid.engine.queue.takers cimport Taker
from leporid.engine.queue.timed_queue cimport TimedQueue
from leporid.engine.routing.route cimport make_route
from leporid.engine.stream.choice cimport Tally, outcome_of
from leporid.engine.stream.stream cimport Cursor, Stream
from leporid.engine.wire.codec cimport Props, walk_properties
from leporid.engine.wire.record cimport (
    Message, Record, body_bytes, message_in, names_bytes, properties_bytes, set_properties,
)

from collections import deque

cdef enum:
    PERSISTENT = 2
    # Stored in one turn, as the headers of each are rewritten in Python.
    KEPT_MAX = 500
    # Settled in one turn because the group's filter changed.
    FILTERED_MAX = 1000
    # Before it cancels a consumer, a client library may reject deliveries that the application has
    # not seen (pika's basic_cancel does). So a basic.reject counts if no basic.cancel follows
    # within this time.
    CANCEL_GRACE_MS = 100


cdef class GroupRetries(TimedQueue):
    """The messages that wait for a retry in one group; made by `Engine.group_retries`."""

    def __cinit__(self, Queues queues, uint32_t queue_id, str name, bint durable):
        self.returned_now = deque()
        self.route = make_route([self])
        self.counted = True

    def __repr__(self):
        return (f"<GroupRetries {self.name!r} held={self.held_count} ready={self.ready_count} "
                f"unacked={self.unacked_count}>")

    def set_stamps(self, stamp not None, count_of not None):
        """Set how the headers are written and read with a message's origin and returns.

        Args:
            stamp: gives properties for (properties, stream, offset, count); if stream is None, its
                name and the offset stay as they are; a count of 0 is left out.
            count_of: gives the count in such properties.
        """
        self.stamp, self.count_of = stamp, count_of

    @property
    def waiting(self):
        """Messages that no member has now."""
        return self.held_count + self.ready_count

    # ------------------------------------------------------------- returns

    cdef int take_back(self, StreamConsumer reader, uint64_t offset, int how) except -1:
        """A member returned a message of a stream."""
        cdef uint64_t at_ms = self.queues.clock.now_ms
        if self.retired or (how == SETTLE_DROP and self.dead_letters is None):
            return 0
        if how == SETTLE_FAIL:
            if not reader.active:
                return reader.leave_to_next(offset)
            at_ms += CANCEL_GRACE_MS
        if reader.returned is None:
            reader.returned = {}
        reader.returned[offset] = how
        self.returned_now.append((reader, offset, at_ms))
        return self.schedule()

    cdef int requeue(self, uint64_t seq, Slot *slot, bint failed) except -1:
        """A member returned a message of this queue; it stays UNACKED until it is stored again."""
        self.returned_now.append((None, seq, self.queues.clock.now_ms))
        return self.schedule()

    cdef int schedule(self) except -1:
        """Have `turn` called when the first return is due."""
        cdef uint64_t at_ms = self.returned_now[0][2]
        if at_ms <= self.queues.clock.now_ms:
            self.make_due()
        else:
            self.set_alarm(at_ms)
        return 0

    cdef bint turn(self, size_t most) except -1:
        """Store returned messages, up to `most`; returns whether there are more."""
        cdef StreamConsumer reader
        most = min(most, <size_t> KEPT_MAX)
        while self.returned_now:
            consumer, number, at_ms = self.returned_now[0]
            if at_ms > self.queues.clock.now_ms:
                break
            if not most:
                return True
            self.returned_now.popleft()
            most -= 1
            if consumer is None:
                self.keep_again(number)
                continue
            reader = consumer
            if reader.returned and number in reader.returned:
                self.keep(reader, number, reader.returned.pop(number))
        self.is_due = False
        if self.returned_now:
            self.set_alarm(self.returned_now[0][2])
        self.wake()
        return False

    cdef int keep(self, StreamConsumer reader, uint64_t offset, int how) except -1:
        """Copy a returned message from its stream, or dead-letter it."""
        cdef Stream stream = <Stream> reader.queue
        cdef Cursor cursor
        cdef const Record *record = NULL
        cdef Message message
        if self.retired or stream.retired:
            return 0
        if offset >= stream.first:
            stream.locate(offset, &cursor)
            record = stream.look(&cursor)
        if record == NULL or cursor.offset != offset:
            self.missed += 1
            return 0
        message = message_in(record)
        if how == SETTLE_DROP or self.delivery_limit < 1:
            if self.dead_letters is None:
                self.dropped += 1
                return 0
            self.queues.dead_lettering.hand_over(
                self, names_bytes(&message),
                self.stamp(properties_bytes(&message), stream.name, offset, 0),
                body_bytes(&message), "rejected" if how == SETTLE_DROP else "delivery_limit")
        else:
            self.retried += 1
            self.queues.requeued += 1
            self.store_copy(
                &message, self.stamp(properties_bytes(&message), stream.name, offset, 1), 1)
        self.logs.dirty = True
        reader.kept_generation = self.logs.generation
        return 0

    cdef int keep_again(self, uint64_t seq) except -1:
        """Replace a returned entry by a copy with the next count, or drop it."""
        cdef Slot *slot = self.index.slot_of(seq)
        cdef uint64_t count
        cdef bytes changed
        cdef Message message
        cdef Props props
        if slot == NULL or slot.state != UNACKED:
            return 0
        count = slot.deliveries & DELIVERIES_MAX
        if count > <uint64_t> self.delivery_limit:
            return self.drop(seq, slot, "delivery_limit")
        self.retried += 1
        self.queues.requeued += 1
        message = message_in(self.logs.record(slot.position))
        changed = self.stamp(properties_bytes(&message), None, 0, count)
        self.entering = count
        set_properties(&message, changed)
        walk_properties(message.properties, message.properties_len, &props)
        props.delivery_mode, props.expiration = PERSISTENT, NULL
        self.publishing.republish(self, seq, self.route, &message, &props, None, None)
        return 0

    cdef int store_copy(self, const Message *original, bytes properties, uint64_t count) except -1:
        cdef Message message = original[0]
        cdef Props props
        set_properties(&message, properties)
        walk_properties(message.properties, message.properties_len, &props)
        props.delivery_mode, props.expiration = PERSISTENT, NULL
        self.entering = count
        # It was counted as published when it was appended to the stream.
        self.queues.append([self], self.durable, &message, &props, 0, None, 0)
        return 0

    # ------------------------------------------------------------- waiting

    cdef uint64_t delay_of(self, uint64_t count):
        """How long a message with so many returns is held: as in `Queue.hold`."""
        return min(self.retry_min_ms * count, self.retry_max_ms)

    cdef int push(self, uint64_t position, uint32_t body_len, uint32_t share,
                  uint8_t priority) except -1:
        cdef uint64_t seq = self.next_seq
        cdef Slot *slot
        Queue.push(self, position, body_len, share, priority)
        slot = self.index.slot_of(seq)
        slot.deliveries = min(self.entering, <uint64_t> DELIVERIES_MAX)
        return self.hold_until(seq, slot, self.queues.clock.now_ms + self.delay_of(self.entering))

    cdef int hold_until(self, uint64_t seq, Slot *slot, uint64_t at_ms) except -1:
        """Hold a ready entry until `at_ms`."""
        self.take(slot)
        return Queue.hold_until(self, seq, slot, at_ms)

    cdef int set_ttl(self, uint64_t seq, uint64_t ttl_ms) except -1:
        return 0  # messages of a stream do not expire

    cdef int restore_entry(self, uint64_t seq, uint64_t position) except -1:
        """Restore an entry's count, and the rest of its delay."""
        cdef const Record *record = self.logs.record(position)
        cdef Message message = message_in(record)
        cdef Slot *slot = self.index.slot_of(seq)
        cdef uint64_t due_ms
        slot.deliveries = min(<uint64_t> self.count_of(properties_bytes(&message)),
                              <uint64_t> DELIVERIES_MAX)
        due_ms = self.came_ms(position) + self.delay_of(slot.deliveries)
        if due_ms > self.queues.clock.wall_ms:
            self.hold_until(
                seq, slot, self.queues.clock.now_ms + due_ms - self.queues.clock.wall_ms)
        return 0

    # ------------------------------------------------------------- delivering

    cdef int deliver(self) except -1:
        """Deliver ready entries to members in turn; settle those that do not match any more."""
        cdef Taker taker
        cdef Slot *slot
        cdef Tally tally
        cdef uint64_t seq
        cdef uint32_t left = FILTERED_MAX
        tally.batches_skipped = tally.evaluated = tally.matched = tally.type_errors = 0
        while self.ready_count and not self.paused:
            taker = self.takers.turn()
            if taker is None:
                break
            slot = self.pop(&seq)
            if slot == NULL:
                taker.level.head = taker    # it keeps its turn
                break
            if (self.choice is not None and
                    outcome_of(self.choice, self.logs.record(slot.position), &tally) != 1):
                self.filtered += 1
                self.settle(seq, slot)
                left -= 1
                if not left:
                    self.make_due()
                    return 0
                continue
            taker.take(seq, slot)
        return 0

    cdef int drop(self, uint64_t seq, Slot *slot, str reason) except -1:
        self.dropped += self.dead_letters is None and reason == "delivery_limit"
        return Queue.drop(self, seq, slot, reason)

    def retire(self):
        """The group was deleted: drop every message; returns how many were ready."""
        self.returned_now.clear()
        return TimedQueue.retire(self)
