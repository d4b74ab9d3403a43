"""A lease: unacked messages that are settled together."""

from libc.stdint cimport uint64_t

from leporid.engine.queue.index cimport Slot
from leporid.engine.queue.queue cimport Queue

cdef class Lease:
    cdef readonly Queue queue
    cdef readonly uint64_t count        # messages taken
    cdef readonly bint ended
    cdef uint64_t *numbers              # their sequence numbers, in order of delivery
    cdef uint64_t most
    cdef bint shown                     # taking a message is a delivery
    cdef uint64_t settled               # of them, from the first on, once it has ended
    cdef void note(self, uint64_t seq, Slot *slot) noexcept
    cdef bint is_over(self) noexcept
    cdef bint settle(self, bint requeue, uint64_t most) except -1
