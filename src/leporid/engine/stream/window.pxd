"""A range of a stream whose bytes stay in memory."""

from libc.stdint cimport uint64_t

cdef class StreamWindow     # before the modules that know it, too

from leporid.engine.log.window cimport Window
from leporid.engine.stream.choice cimport Choice
from leporid.engine.stream.stream cimport Cursor, Stream

cdef class StreamWindow(Window):
    cdef readonly list lost             # (from, to): offsets in it whose messages were damaged
    cdef list segments                  # whose bytes it needs
    cdef bint skip_batches(self, Stream stream, Choice choice, Cursor *cursor,
                           uint64_t end) noexcept
