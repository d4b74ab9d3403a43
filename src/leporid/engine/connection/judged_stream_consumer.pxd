"""A consumer of a stream with a filter class."""

from libc.stdint cimport uint32_t

from leporid.engine.connection.channel cimport Channel
from leporid.engine.connection.stream_consumer cimport StreamConsumer
from leporid.engine.stream.stream cimport Cursor, Stream

cdef class JudgedStreamConsumer(StreamConsumer):
    cdef readonly str name          # of the class
    cdef Cursor ahead               # where the search goes on
    # At messages, in order: [first, asked) passed; [asked, end) wait for a verdict, of which the
    # first `out` are in the batch that is out.
    cdef Cursor *cursors
    cdef size_t first, asked, out, end
    cdef size_t stale               # the first messages of the batch that is out: dropped since
    cdef int move_cursor(self) except -1
    cdef int make_room(self) except -1

cdef StreamConsumer stream_consumer(Channel channel, Stream stream, str tag, uint32_t prefetch,
                                    str filter_class)
