"""A consumer of a stream."""

from libc.stdint cimport uint64_t

from leporid.engine.consumer cimport Consumer
from leporid.engine.stream cimport Cursor, Stream

cdef class Reader(Consumer):
    cdef Cursor cursor
    cdef uint64_t wanted            # nothing below is delivered
    cdef bint waiting               # for credit, or for its output to drain
    cdef int fill(self, Stream stream) except -1
