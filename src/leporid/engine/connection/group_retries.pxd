"""Messages of a stream that members of a group returned, to be delivered again."""

from libc.stdint cimport uint64_t

cdef class GroupRetries     # before the modules that know it, too

from leporid.engine.connection.stream_consumer cimport StreamConsumer
from leporid.engine.publishing.publishing cimport Publishing
from leporid.engine.queue.index cimport Slot
from leporid.engine.queue.timed_queue cimport TimedQueue
from leporid.engine.routing.route cimport Route
from leporid.engine.stream.choice cimport Choice
from leporid.engine.wire.record cimport Message

cdef class GroupRetries(TimedQueue):
    cdef Publishing publishing
    cdef readonly uint64_t retried      # returns since the start that were stored for a retry
    cdef readonly uint64_t dropped      # messages over the delivery limit, not dead-lettered
    cdef readonly uint64_t filtered     # messages that do not pass the group's filter any more
    cdef readonly uint64_t missed       # messages that retention had dropped before their return
    cdef public Choice choice           # the group's filter; None: all messages
    cdef object stamp                   # (properties, stream, offset, count) -> properties
    cdef object count_of                # (properties) -> count
    cdef Route route
    cdef object returned_now            # (consumer or None, number, at_ms): to be stored, in order
    cdef uint64_t entering              # returns of the message that is being stored
    cdef int take_back(self, StreamConsumer reader, uint64_t offset, int how) except -1
    cdef int keep(self, StreamConsumer reader, uint64_t offset, int how) except -1
    cdef int keep_again(self, uint64_t seq) except -1
    cdef int store_copy(self, const Message *original, bytes properties, uint64_t count) except -1
    cdef uint64_t delay_of(self, uint64_t count)
    cdef int schedule(self) except -1
