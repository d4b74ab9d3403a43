"""Messages that wait for the verdicts of filter classes."""

from libc.stdint cimport uint32_t

from leporid.engine.wire.record cimport Record

cdef enum:
    BATCH_MESSAGES_MAX = 1000       # half a millisecond of a filter class, as a rule

cdef class Verdicts:
    cdef dict asking                # objects that may have a batch for a filter class, in order

cdef class VerdictBatch:
    cdef const Record *records[BATCH_MESSAGES_MAX]
    cdef readonly uint32_t count
    cdef size_t most, size, bytes_max
    cdef bint has_room(self)
    cdef int add(self, const Record *record) except -1
    cdef bytes frame(self)
