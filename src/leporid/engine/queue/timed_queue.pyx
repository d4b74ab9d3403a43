"""Timed queues: hidden queues that send by time what is in them, and their share of each turn.

Responsible for their timer and for how many messages all of them send in one turn. It does not know
where messages go, nor when one is due: its subclasses do. Invariant: the plane has at most one
timer that counts for each of these queues, whatever waits in it.
"""

from libc.stdint cimport uint64_t

from leporid.engine.plane cimport Plane
from leporid.engine.queue.queue cimport Queue

cdef enum:
    # Sent on their way in one turn. Each costs about 2 us, and its deliveries as much again.
    SENT_MAX = 1000


cdef int run_timed(Plane plane) except -1:
    """Give each hidden queue that has something to send its share of this turn."""
    cdef TimedQueue queue
    is_due, plane.is_due = plane.is_due, []
    most = max(1, SENT_MAX // len(is_due))
    for queue in is_due:
        if not queue.retired and queue.turn(most):
            plane.is_due.append(queue)
    return 0


cdef class TimedQueue(Queue):
    """A queue that nobody sees and that sends by time what is in it."""

    cdef void set_alarm(self, uint64_t at_ms):
        """Have `turn` called then, unless it is called before."""
        if not self.is_due and (not self.alarm_ms or at_ms < self.alarm_ms):
            self.plane.timed_count += not self.alarm_ms
            self.alarm_ms = at_ms
            self.plane.timers.push(at_ms, self.id, 0)

    cdef void make_due(self):
        """Have `turn` called in this turn of the plane or the next."""
        if not self.is_due:
            self.is_due = True
            self.plane.is_due.append(self)

    cdef int expire(self, uint64_t seq) except -1:
        """The alarm rings, or rang for what is gone meanwhile."""
        if self.alarm_ms and self.alarm_ms <= self.plane.now_ms:
            self.alarm_ms = 0
            self.plane.timed_count -= 1
            self.make_due()
        return 0

    cdef bint is_timer(self, uint64_t seq, uint64_t at_ms):
        return at_ms == self.alarm_ms

    cdef bint turn(self, size_t most) except -1:
        """Send up to `most`; returns whether there are more, else `is_due` is over."""
        raise NotImplementedError

    def retire(self):
        """Nothing of it goes anywhere any more; returns how many messages there were."""
        if self.alarm_ms:
            self.alarm_ms = 0
            self.plane.timed_count -= 1
        return Queue.retire(self)
