"""Retries: a message that came back to its queue is held for a while before it is ready again.

Responsible for how long, and for the moment when it is over. It does not decide which messages are
held; their queue does. A held message is nobody's: it is not delivered and does not expire before
it is ready again, but counts against its queue's limits (RabbitMQ, delayed retries). Invariant:
every HELD entry has one timer here; a timer whose entry is gone stays until it rings, or until
most of them are such.
"""

from libc.stdint cimport uint64_t

from leporid.engine.queue.index cimport DELIVERIES_MAX, HELD, Slot
from leporid.engine.plane cimport Plane
from leporid.engine.queue.queue cimport Queue
from leporid.engine.queue.timers cimport Timer, Timers

cdef enum:
    STALE_MAX = 1024                # timers of entries that are gone, before it is worth looking


cdef class Retries:
    """Everything that is held in the queues of one plane."""

    def __cinit__(self, Plane plane):
        self.plane = plane
        self.timers = Timers()

    def __repr__(self):
        return f"<Retries held={self.count}>"

    cdef int hold(self, object given, uint64_t seq, Slot *slot) except -1:
        """Hold an unacked entry that came back: the longer, the more often it did."""
        cdef Queue queue = <Queue> given
        cdef uint64_t times = max(1, slot.deliveries & DELIVERIES_MAX)
        slot.state = HELD
        queue.unacked_count -= 1
        queue.held_count += 1
        queue.held_bytes += self.plane.record(slot.position).body_len
        self.count += 1
        if self.timers.count > STALE_MAX + 2 * self.count:
            self.prune()
        self.timers.push(
            self.plane.now_ms + min(queue.retry_min_ms * times, queue.retry_max_ms), queue.id, seq)
        return queue.drop_excess()

    cdef int turn(self) except -1:
        """What was held long enough is ready."""
        cdef Timer due
        cdef Queue queue
        cdef Slot *slot
        while self.timers.count and self.timers.heap[0].at_ms <= self.plane.now_ms:
            due = self.timers.pop()
            queue = self.plane.queues.get(due.queue)
            slot = queue.slot_of(due.seq) if queue is not None else NULL
            if slot != NULL and slot.state == HELD:
                queue.let_go(slot)
                queue.come_back(due.seq, slot)
        return 0

    cdef int prune(self) except -1:
        """Forget timers of entries that are gone."""
        cdef size_t at, kept = 0
        cdef Timer *heap = self.timers.heap
        cdef Queue queue
        cdef Slot *slot
        for at in range(self.timers.count):
            queue = self.plane.queues.get(heap[at].queue)
            slot = queue.slot_of(heap[at].seq) if queue is not None else NULL
            if slot != NULL and slot.state == HELD:
                heap[kept] = heap[at]
                kept += 1
        self.timers.count = kept
        self.timers.rebuild()
        return 0
