"""The consumers of a queue as it sees them, and whose turn it is."""

from libc.stdint cimport int64_t, uint64_t

from leporid.engine.queue.index cimport Slot
from leporid.engine.queue.ranks cimport Ranked

cdef class Level
cdef class Takers

cdef class Taker(Ranked):
    cdef readonly uint64_t unacked_count
    cdef readonly bint active           # not cancelled
    cdef Takers home                    # the consumers it takes turns with, while it is attached
    cdef object filter                  # Filter; None: it takes every message
    cdef Taker next
    cdef Taker previous
    cdef Level level                # the ring it stands in; None: it stands in none
    cdef bint can_take(self) except -1
    cdef int take(self, uint64_t seq, Slot *slot) except -1
    cdef int resume(self) except -1
    cdef int offered(self) except -1
    cdef int fill(self) except -1
    cdef int64_t look_for(self, int64_t work) except? -1
    cdef uint64_t position(self) except? 0
    cdef uint64_t skip(self) except? 0

cdef class Level(Ranked):
    cdef Takers takers              # whose ring this is
    cdef Taker head                     # takes next

cdef class Takers:
    cdef list everybody                 # a heap by priority and arrival
    cdef list levels                    # rings of those that may take: a heap by priority
    cdef dict by_priority               # the same; None while there are few
    cdef uint64_t arrivals              # consumers there have been
    cdef Taker chosen                   # the single active consumer
    cdef bint single
    cdef int attach(self, Taker taker) except -1
    cdef int detach(self, Taker taker) except -1
    cdef int enter(self, Taker taker) except -1
    cdef Level level_of(self, int priority)
    cdef int close(self, Level level) except -1
    cdef int choose(self) except -1
    cdef Taker turn(self)

cdef class Selection:
    cdef uint64_t ends[256]             # with priorities: one beyond the last entry of each
    cdef bint searching                 # the queue is served again in the next turn, for a search
    cdef int attach(self, Taker taker) except -1
    cdef bint detach(self, Taker taker) except -1
    cdef int deliver(self) except -1
    cdef int came_back(self, uint64_t seq) except -1
    cdef int purged(self) except -1

cdef class SharedCredit:
    cdef int offer(self) except -1

cdef int leave_ring(Taker taker) except -1
