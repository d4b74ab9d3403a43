"""A consumer of a stream."""

from leporid.engine.channel cimport Consumer
from leporid.engine.stream cimport Cursor, Stream

cdef class Reader(Consumer):
    cdef Cursor cursor
    cdef bint waiting               # for credit, or for its output to drain
    cdef int fill(self, Stream stream) except -1
