"""The backlog of a queue: messages from the broker itself that it refused because it was full.

Responsible for keeping such messages (a delayed one that is due, a dead letter, one that a filter
class let pass), which have no publisher that could be told. They wait here, in order, until there
is room: `wake` is called when the queue has delivered a message, and a timer does the rest. It must
not know why a message was sent.

It is a hidden queue, so that log, replay, cleaning and checks treat its messages as any others;
replay makes it when it finds its id. Invariants: a message enters the queue and leaves the backlog
in one transaction; messages that are dropped, over the limits or after too long a time, are
reported to `given_up` of the queue.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from leporid.engine.log.log cimport BACKLOG_BIT
from leporid.engine.publishing.publishing cimport Publishing
from leporid.engine.queue.index cimport READY, Slot
from leporid.engine.queue.queue cimport REJECT_PUBLISH, REJECT_PUBLISH_DLX, Queue
from leporid.engine.routing.route cimport Route, make_route
from leporid.engine.wire.codec cimport Props
from leporid.engine.wire.record cimport Message, Record, message_in, properties_in


cdef Backlog make_backlog(Publishing publishing, Queue queue):
    """Make the backlog of a queue that has none."""
    cdef Backlog backlog = Backlog(
        queue.queues, queue.id | BACKLOG_BIT, queue.name, queue.durable)
    backlog.publishing, backlog.queue = publishing, queue
    return backlog


cdef class Backlog(TimedQueue):
    """The messages that wait for room in one queue; made by `make_backlog`."""

    def __cinit__(self, *_):
        self.pause_ms = PAUSE_MIN_MS
        self.own_timers = True

    def __repr__(self):
        return f"<Backlog {self.name!r} ready={self.ready_count}>"

    # ------------------------------------------------------------- entering

    cdef bint admits(self, uint32_t body_len) except -1:
        """Whether a message may wait here; if not, that is reported."""
        if not self.fits(body_len):
            self.note_given_up("too_large")
            return False
        if (self.ready_count >= BACKLOG_MESSAGES_MAX
                or self.ready_bytes + body_len > BACKLOG_BYTES_MAX):
            self.note_given_up("backlog_full")
            return False
        return True

    cdef bint fits(self, uint32_t body_len):
        """Whether the queue could take a message of this size if it was empty."""
        return self.queue.overflow != REJECT_PUBLISH or (
            self.queue.length_limit > 0 and body_len <= self.queue.bytes_limit)

    cdef int push(self, uint64_t position, uint32_t body_len, uint32_t share,
                  uint8_t priority) except -1:
        Queue.push(self, position, body_len, share, priority)
        # It has no timer: `turn` checks the head only, which has waited longest.
        self.index.slot_of(self.next_seq - 1).expires_at_ms = (
            self.queues.clock.now_ms + WAITING_MS_MAX)
        self.wake()
        return 0

    cdef int set_ttl(self, uint64_t seq, uint64_t ttl_ms) except -1:
        """The time to live begins when a message enters the queue."""
        return 0

    cdef int restore_entry(self, uint64_t seq, uint64_t position) except -1:
        cdef Slot *slot = self.index.slot_of(seq)
        cdef uint64_t over_ms = self.came_ms(position) + WAITING_MS_MAX
        slot.deliveries = 0
        slot.expires_at_ms = (
            self.queues.clock.now_ms
            + max(over_ms, self.queues.clock.wall_ms + 1) - self.queues.clock.wall_ms)
        return 0

    # ------------------------------------------------------------- sending

    cdef void wake(self):
        """The queue may have room."""
        if not self.ready_count or self.is_due:
            return
        if not self.queue.is_full(0):
            self.make_due()
        elif not self.alarm_ms:
            self.set_alarm(self.queues.clock.now_ms + self.pause_ms)

    cdef bint turn(self, size_t most) except -1:
        """Send messages that there is room for, up to `most`; returns whether there are more."""
        cdef uint64_t seq = 0
        cdef size_t left = most
        cdef Slot *slot = self.head(&seq)
        cdef uint32_t body_len
        while slot != NULL:
            if not left:
                return True
            left -= 1
            body_len = self.logs.record(slot.position).body_len
            if slot.expires_at_ms <= self.queues.clock.now_ms:
                self.give_up(seq, slot, "expired")
            elif not self.fits(body_len):
                self.give_up(seq, slot, "too_large")
            elif self.queue.refuses(body_len) and not (
                    self.queue.overflow == REJECT_PUBLISH_DLX
                    and self.queue.dead_letters is not None):
                break
            else:
                self.send(seq, slot)
                self.pause_ms = PAUSE_MIN_MS
            slot = self.head(&seq)
        self.is_due = False
        if slot != NULL:
            self.set_alarm(self.queues.clock.now_ms + self.pause_ms)
            self.pause_ms = min(2 * self.pause_ms, <uint64_t> PAUSE_MAX_MS)
        return False

    cdef Slot *head(self, uint64_t *seq):
        """The message that has waited longest; NULL without one."""
        cdef Slot *slot
        while self.head_seq < self.next_seq:
            slot = self.index.slot_of(self.head_seq)
            if slot == NULL:
                self.head_seq = self.index.there_from(self.head_seq, self.next_seq)
            elif slot.state == READY:
                seq[0] = self.head_seq
                return slot
            else:
                self.head_seq += 1
        self.head_seq = self.next_seq
        return NULL

    cdef int send(self, uint64_t seq, Slot *slot) except -1:
        """Republish a message to the queue; if it is full, it dead-letters the message."""
        cdef const Record *record = self.logs.record(slot.position)
        cdef Message message = message_in(record)
        cdef Route route = make_route([self.queue])
        cdef Props props
        properties_in(record, &props)
        route.refusing = self.queue.overflow == REJECT_PUBLISH_DLX
        self.publishing.republish(self, seq, route, &message, &props, None, None)
        return 0

    cdef int give_up(self, uint64_t seq, Slot *slot, str reason) except -1:
        self.settle(seq, slot)
        return self.note_given_up(reason)

    cdef int note_given_up(self, str reason) except -1:
        if self.queue.given_up is not None:
            self.queue.given_up(reason)
        return 0
