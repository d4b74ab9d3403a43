"""A consumer of a stream that asks a filter class."""

from libc.stdint cimport uint32_t

from leporid.engine.connection.channel cimport Channel
from leporid.engine.connection.stream_consumer cimport StreamConsumer
from leporid.engine.stream.stream cimport Cursor, Stream

cdef class JudgedStreamConsumer(StreamConsumer):
    cdef readonly str name          # of the class
    cdef Cursor ahead               # where it looks for more to ask about
    # OffsetIndex of messages, in order: from `first` on of those that passed, from `asked` on of those
    # that it asks about, the first `out` of them now; up to `end`.
    cdef Cursor *cursors
    cdef size_t first, asked, out, end
    cdef int stand(self) except -1
    cdef int make_room(self) except -1

cdef StreamConsumer stream_consumer(Channel channel, Stream stream, str tag, uint32_t prefetch,
                      str filter_class)
