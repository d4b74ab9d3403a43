"""A consumer of a stream."""

from libc.stdint cimport uint64_t

cdef class StreamConsumer   # before the modules that know it, too

from leporid.engine.connection.consumer cimport Consumer
from leporid.engine.connection.group_retries cimport GroupRetries
from leporid.engine.stream.choice cimport Choice
from leporid.engine.stream.stream cimport Cursor, Stream
from leporid.engine.wire.record cimport Record

cdef class StreamConsumer(Consumer):
    cdef Cursor cursor
    cdef uint64_t wanted            # nothing below is delivered
    cdef bint waiting               # for credit, or for its output to drain
    cdef Choice choice              # what it wants; None: everything
    cdef uint64_t looked            # no summary rules out what comes before
    cdef bint found                 # the cursor is at a message that it wants
    cdef bint rejected              # something is to be read again by who comes next
    cdef uint64_t rejected_offset   # the first of it
    cdef public GroupRetries retries    # of its group, for what comes back; None: it has none
    cdef dict returned              # what came back and is not kept yet: how, by offset; or None
    cdef readonly uint64_t kept_generation
    cdef int leave_to_next(self, uint64_t offset) except -1
    cdef uint64_t unsettled_offset(self) except? 0

cdef int send_next(StreamConsumer reader, Stream stream, const Record *record) except -1
