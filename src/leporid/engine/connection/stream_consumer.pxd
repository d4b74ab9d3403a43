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
    cdef readonly uint64_t wanted   # the offset that it was started at
    cdef uint64_t settled_below     # deliveries with lower tags are settled; 0: who knows
    cdef bint waiting               # for credit, or for its output to drain
    cdef Choice choice              # its filter; None: all messages
    cdef uint64_t looked            # up to this offset the summaries were checked
    cdef bint found                 # the cursor is at a message that matches
    cdef bint rejected              # a message is to be read again by the next consumer
    cdef uint64_t rejected_offset   # the first such message
    cdef public GroupRetries retries    # of its group, for returned messages; None: there are none
    cdef dict returned              # returned and not stored yet: offset -> how; or None
    cdef readonly uint64_t kept_generation      # of the newest message stored in `retries`
    cdef readonly uint64_t skipped      # messages that it missed: retention dropped them first
    cdef public uint64_t unreported     # of these, those that no delivery has reported yet
    cdef int leave_to_next(self, uint64_t offset) except -1
    cdef uint64_t unsettled_offset(self) except? 0

cdef int send_next(StreamConsumer reader, Stream stream, const Record *record) except -1
