"""Browsing a queue, which does not change it."""

from libc.stdint cimport uint32_t, uint64_t

from leporid.engine.log.logs cimport Logs
from leporid.engine.log.window cimport Window
from leporid.engine.queue.index cimport Slot
from leporid.engine.queue.queue cimport Queue

cdef class QueueWindow(Window):
    cdef Logs logs
    cdef uint32_t room                  # of `entries`
    cdef uint64_t newest                # upper half of the position that was pinned last
    cdef set pinned
    cdef bint take(self, uint64_t seq, const Slot *slot, bint redelivered,
                   uint64_t bytes_max) except -1
    cdef int pin(self, uint64_t upper) except -1

cdef class Browse:
    cdef readonly Queue queue
    cdef readonly uint64_t end          # later entries, from this number on, are not shown
    cdef readonly bint done             # all were shown
    cdef readonly uint64_t at           # the next one that is looked at
    cdef uint64_t first
    cdef int priority                   # of a queue with priorities: the one that is shown now
    cdef bint unacked
    cdef bint by_arrival                # not in order of priorities
    cdef bint shows(self, const Slot *slot)
    cdef int next_priority(self) except -1
