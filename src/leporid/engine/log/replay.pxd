"""Applying facts of a log in their order."""

from libc.stdint cimport uint8_t, uint32_t

from leporid.engine.log.log cimport Log, Segment
from leporid.engine.log.logs cimport Logs

cdef class Replay:
    cdef Logs logs
    cdef Log log
    cdef bint clean                     # the newest record is CLEAN
    cdef set damaged                    # numbers of segments of which some bytes did not verify
    cdef readonly uint32_t highest_queue_id     # of the durable queues in the facts
    cdef object last                    # (number, used) of the segment before
    cdef size_t torn_bytes(self, const uint8_t *base, size_t end, size_t size)
    cdef int apply(self, Segment segment, const uint8_t *base, list valid, report) except -1
    cdef int end_damaged(self, Segment segment, const uint8_t *base, list members, size_t begun,
                         size_t at, bint replaces, report) except -1
    cdef int end_uncommitted(self, Segment segment, const uint8_t *base, list pending,
                             size_t begun, size_t at, report) except -1
    cdef int apply_all(self, Segment segment, const uint8_t *base, list facts, report) except -1
    cdef int apply_messages(self, Segment segment, const uint8_t *base, list facts,
                            report) except -1
    cdef int undo(self, Segment segment, const uint8_t *base, list facts, report) except -1
    cdef int apply_one(self, Segment segment, const uint8_t *base, size_t at, report) except -1
    cdef void meet(self, uint32_t queue)

cdef bint is_unwritten(const uint8_t *base, size_t start, size_t end, size_t used) noexcept
