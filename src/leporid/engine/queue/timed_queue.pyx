"""Timed queues: hidden queues that send their messages by time, and their share of each turn.

Responsible for their timers and for how many messages all of them send in one turn. It must not
know where messages go, nor when one is due: its subclasses do. Invariant: each of these queues has
at most one current timer, however many messages are in it.
"""

from libc.stdint cimport uint64_t

from leporid.engine.bounds.clock cimport spend
from leporid.engine.queue.queue cimport Queue
from leporid.engine.queue.queues cimport Queues

cdef enum:
    # Messages sent in one turn. Each costs about 2 us, and its deliveries as much again.
    SENT_MAX = 1000


cdef int run_timed(Queues queues) except -1:
    """Let each due queue send its share of this turn's messages, while the slice lasts."""
    cdef TimedQueue queue
    cdef Py_ssize_t left = len(queues.due_queues)
    cdef size_t most = max(1, SENT_MAX // left)
    while left:
        left -= 1
        queue = <TimedQueue> queues.due_queues.popleft()
        if not queue.retired and queue.turn(most):
            queues.due_queues.append(queue)
        if spend(queues.clock, 1):
            break
    return 0


cdef class TimedQueue(Queue):
    """A hidden queue that sends its messages by time."""

    cdef void set_alarm(self, uint64_t at_ms):
        """Have `turn` called at `at_ms`, unless it is called before."""
        if not self.is_due and (not self.alarm_ms or at_ms < self.alarm_ms):
            self.queues.timed_count += not self.alarm_ms
            self.alarm_ms = at_ms
            self.queues.timers.push(at_ms, self.id, 0)

    cdef void make_due(self):
        """Have `turn` called in this turn of the engine or the next."""
        if not self.is_due:
            self.is_due = True
            self.queues.due_queues.append(self)

    cdef int expire(self, uint64_t seq) except -1:
        """The queue's timer fired; it may be an outdated one."""
        if self.alarm_ms and self.alarm_ms <= self.queues.clock.now_ms:
            self.alarm_ms = 0
            self.queues.timed_count -= 1
            self.make_due()
        return 0

    cdef bint is_timer(self, uint64_t seq, uint64_t at_ms):
        return at_ms == self.alarm_ms

    cdef bint turn(self, size_t most) except -1:
        """Send up to `most` messages; returns whether more are due, and else resets `is_due`."""
        raise NotImplementedError

    def retire(self):
        """Drop every message; returns how many were ready."""
        if self.alarm_ms:
            self.alarm_ms = 0
            self.queues.timed_count -= 1
        return Queue.retire(self)
