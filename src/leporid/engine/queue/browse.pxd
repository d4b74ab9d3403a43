"""Looking through a queue without changing it."""

from libc.stdint cimport uint32_t, uint64_t

from leporid.engine.queue.index cimport Slot
from leporid.engine.queue.queue cimport Queue
from leporid.engine.log.logs cimport Logs
from leporid.engine.log.window cimport Window

cdef class QueueWindow(Window):
    cdef Logs logs
    cdef uint32_t room                  # of `entries`
    cdef uint64_t newest                # upper half of the last position that was pinned
    cdef set pinned
    cdef bint take(self, uint64_t seq, const Slot *slot, bint redelivered,
                   uint64_t bytes_max) except -1
    cdef int pin(self, uint64_t upper) except -1

cdef class Browse:
    cdef readonly Queue queue
    cdef readonly uint64_t end          # what came from here on came later
    cdef readonly bint done             # there is nothing more
    cdef uint64_t first, at
    cdef int priority                   # of a queue with priorities, whose turn it is
    cdef bint unacked
    cdef bint shows(self, const Slot *slot)
    cdef int turn_back(self) except -1
