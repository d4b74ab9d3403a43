"""Messages that wait for the verdict of a filter class."""

from libc.stdint cimport uint32_t

from leporid.engine.wire.record cimport Record

cdef enum:
    BATCH_MESSAGES_MAX = 1000       # half a millisecond of a filter class, as a rule

cdef class Verdicts:
    cdef dict asking                # who may have something to ask a filter class, in order

cdef class VerdictBatch:
    cdef const Record *records[BATCH_MESSAGES_MAX]
    cdef readonly uint32_t count
    cdef size_t most, size, bytes_max
    cdef bint has_room(self)
    cdef int add(self, const Record *record) except -1
    cdef bytes frame(self)
