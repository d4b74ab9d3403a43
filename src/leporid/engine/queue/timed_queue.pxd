"""Hidden queues that send their messages by time."""

from libc.stdint cimport uint64_t

from leporid.engine.queue.queue cimport Queue
from leporid.engine.queue.queues cimport Queues

cdef class TimedQueue(Queue):
    cdef uint64_t alarm_ms              # of its one timer; 0: none is set
    cdef bint is_due                    # is in queues.due_queues
    cdef void set_alarm(self, uint64_t at_ms)
    cdef void make_due(self)
    cdef bint turn(self, size_t most) except -1

cdef int run_timed(Queues queues) except -1
