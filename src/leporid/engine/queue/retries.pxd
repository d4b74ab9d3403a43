"""Messages that came back, and are held before they are ready again."""

from libc.stdint cimport uint64_t

from leporid.engine.queue.index cimport Slot
from leporid.engine.plane cimport Plane
from leporid.engine.queue.timers cimport Timers

cdef class Retries:
    cdef Plane plane
    cdef Timers timers
    cdef readonly uint64_t count        # entries that are held, in all queues
    cdef int hold(self, object given, uint64_t seq, Slot *slot) except -1
    cdef int turn(self) except -1
    cdef int prune(self) except -1
