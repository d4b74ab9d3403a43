"""The consumers of a queue as it sees them, and whose turn it is."""

from libc.stdint cimport int64_t, uint64_t

from leporid.engine.queue.index cimport Slot

cdef class Level
cdef class Takers

cdef class Taker:
    cdef readonly int priority
    cdef readonly uint64_t unacked_count
    cdef readonly bint active           # not cancelled
    cdef Takers home                    # the consumers it takes turns with, while it is attached
    cdef object filter                  # Filter; None: it takes every message
    cdef Taker next
    cdef Taker previous
    cdef Level level                # the ring it stands in; None: it stands in none
    cdef bint can_take(self)
    cdef int take(self, uint64_t seq, Slot *slot) except -1
    cdef int resume(self) except -1
    cdef int offered(self) except -1
    cdef int fill(self) except -1
    cdef int64_t look_for(self, int64_t work) except? -1
    cdef uint64_t position(self) except? 0

cdef class Level:
    cdef Takers takers              # whose ring this is
    cdef int priority
    cdef Taker head                     # takes next

cdef class Takers:
    cdef list everybody                 # in order of arrival
    cdef list levels                    # rings of those that may take, highest priority first
    cdef Taker chosen                   # the single active consumer
    cdef bint single
    cdef int attach(self, Taker taker) except -1
    cdef int detach(self, Taker taker) except -1
    cdef int enter(self, Taker taker) except -1
    cdef int choose(self) except -1
    cdef Taker turn(self)

cdef class Selection:
    cdef uint64_t ends[256]             # with priorities: one beyond the last entry of each
    cdef int attach(self, Taker taker) except -1
    cdef bint detach(self, Taker taker) except -1
    cdef int deliver(self) except -1
    cdef int came_back(self, uint64_t seq) except -1
    cdef int purged(self) except -1

cdef class SharedCredit:
    cdef int offer(self) except -1

cdef int leave_ring(Taker taker) except -1
