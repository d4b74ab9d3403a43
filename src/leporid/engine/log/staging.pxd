"""Records that lie where they are going to be before they are appended."""

from libc.stdint cimport uint32_t, uint64_t

from leporid.engine.log.log cimport Log, RecordMemory, Segment
from leporid.engine.log.logs cimport Logs
from leporid.engine.wire.record cimport Message, Record

cdef class StagedRecords(RecordMemory):
    cdef Log log
    cdef size_t end                 # of what is staged, from `base`
    cdef list gaps                  # where there are records of nothing between others
    cdef bint appending             # the commit is under way
    cdef uint32_t number            # of the segment that this memory has become
    cdef Record *chosen             # the record of the message that is stored next; NULL: it is
    cdef size_t stage(self, const Message *message, size_t targets) except? 0
    cdef size_t adopt(self, const Message *message, size_t targets) except? 0
    cdef int fill_gap(self, size_t until) except -1
    cdef Record *record_at(self, size_t at) noexcept
    cdef bint begin_commit(self, size_t more) except -1
    cdef int end_commit(self, Logs logs) except -1
    cdef Segment segment(self)
    cdef bint has_places(self, size_t at, size_t targets) noexcept
    cdef Segment choose(self, size_t at, Message *message)
    cdef int end_choice(self) except -1
    cdef int bury(self, Record *record) except -1

cdef StagedRecords staged_records(Log log, size_t room)
