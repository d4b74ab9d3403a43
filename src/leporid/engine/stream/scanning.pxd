"""Looking in a stream for what somebody wants."""

from libc.stdint cimport int64_t, uint64_t

from leporid.engine.stream.choice cimport Choice
from leporid.engine.stream.stream cimport Cursor, Stream, Streams
from leporid.engine.wire.record cimport Record

cdef struct Scan:
    Cursor *cursor
    uint64_t looked                 # up to here no summary says that there is nothing
    int64_t work                    # that may still be done

cdef Record *find_next(Stream stream, Choice choice, Scan *scan) except? NULL
cdef int scan(Streams streams) except -1
