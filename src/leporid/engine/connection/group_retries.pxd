"""Messages of a stream that members of a group gave back, to be delivered again."""

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
    cdef readonly uint64_t retried      # returns since the start after which a message is kept
    cdef readonly uint64_t dropped      # that came back too often, and nobody wanted them
    cdef readonly uint64_t filtered     # that the group's filter does not let pass any more
    cdef readonly uint64_t missed       # that retention had dropped when they came back
    cdef public Choice choice           # what the group wants; None: everything
    cdef object stamp                   # (properties, stream, offset, count) -> properties
    cdef object count_of                # (properties) -> count
    cdef Route route
    cdef object returned_now            # (reader or None, number, at_ms): to be kept, in order
    cdef uint64_t entering              # count of the message that is being kept
    cdef int take_back(self, StreamConsumer reader, uint64_t offset, int how) except -1
    cdef int keep(self, StreamConsumer reader, uint64_t offset, int how) except -1
    cdef int keep_again(self, uint64_t seq) except -1
    cdef int store_copy(self, const Message *original, bytes properties, uint64_t count) except -1
    cdef int hold_until(self, uint64_t seq, Slot *slot, uint64_t at_ms) except -1
    cdef uint64_t delay_of(self, uint64_t count)
    cdef int have_kept(self) except -1
