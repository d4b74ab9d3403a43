"""Searching a stream for messages that match a filter."""

from libc.stdint cimport int64_t, uint64_t

from leporid.engine.stream.choice cimport Choice
from leporid.engine.stream.stream cimport Cursor, Stream, Streams
from leporid.engine.wire.record cimport Record

cdef struct Scan:
    Cursor *cursor
    uint64_t looked                 # up to this offset the summaries were checked
    int64_t work                    # the rest of the budget

cdef Record *find_next(Stream stream, Choice choice, Scan *scan) except? NULL
cdef int scan(Streams streams) except -1
