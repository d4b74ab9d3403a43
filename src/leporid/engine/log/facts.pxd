"""Facts about entries, appended to the durable log."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from leporid.engine.log.logs cimport Logs
from leporid.engine.wire.record cimport Range

cdef class SettledRanges:
    cdef Logs logs
    cdef uint32_t queue
    cdef bint listed                    # is in logs.unsettled
    cdef bint retired                   # the queue was deleted: nothing is written any more
    cdef Range *ranges
    cdef uint32_t count, capacity
    cdef int note(self, uint64_t position, uint64_t seq) except -1

cdef int flush_settles(Logs logs, uint8_t flags) except -1
cdef int append_ranges(Logs logs, uint8_t kind, uint8_t flags, uint32_t queue, const Range *ranges,
                       uint32_t count) except -1
cdef int append_commit(Logs logs, uint32_t count, uint32_t purpose) except -1
cdef int append_clean(Logs logs) except -1
cdef int make_room(Logs logs, size_t targets, size_t content) except -1
cdef bint settle_with_letter(Logs logs, uint32_t queue, uint64_t position,
                             uint64_t seq) except -1
