"""What waits for the commit of a channel's transaction."""

from libc.stdint cimport uint64_t

cdef class Transaction  # before the modules that know it, too

from leporid.engine.connection.channel cimport Channel
from leporid.engine.log.log cimport Log
from leporid.engine.log.staging cimport StagedRecords
from leporid.engine.publishing.publishing cimport PartialAppends
from leporid.engine.routing.route cimport Route
from leporid.engine.wire.codec cimport Props
from leporid.engine.wire.record cimport Message

cdef class Publish:
    cdef Route route
    cdef bint mandatory
    cdef Message message            # points to the bytes, or into `staged`
    cdef Props props
    cdef bytes names, properties, body  # None if it is staged
    cdef StagedRecords staged       # None if it is not
    cdef size_t at                  # where it is staged
    cdef bint appended              # by the commit
    cdef int read(self) except -1
    cdef bint stage(self, StagedRecords staged) except -1
    cdef size_t copied_bytes(self) noexcept

cdef class Waiting:
    cdef Log log
    cdef uint64_t bytes             # of messages that are going there
    cdef StagedRecords staged       # None until they are many

cdef class Transaction:
    cdef list publishes             # Publish, the oldest first
    cdef Waiting transient
    cdef Waiting durable
    cdef list settles               # (tag, queue, seq, consumer, since when in ms, how)
    cdef list letters               # refused messages, to be dead-lettered after COMMIT
    cdef uint64_t bytes
    cdef uint64_t entries           # what the commit costs, in publishes to one queue
    cdef Py_ssize_t in_streams      # publishes that are in their streams before the commit
    cdef PartialAppends appends     # of the next one
    cdef bint refused               # a full queue refused a message at the last commit
    cdef int keep(self, Channel channel, Route route, const Message *message,
                  bint mandatory) except -1
    cdef int charge_settles(self, Channel channel, size_t count) except -1
    cdef int charge(self, Channel channel, size_t entries, uint64_t size) except -1
    cdef int forget_publishes(self, Channel channel) except -1
    cdef bint append_some(self, Channel channel) except -1
    cdef uint64_t commit(self, Channel channel) except? 0
    cdef Waiting waiting_with(self, Publish publish)
    cdef bint has_staged(self, Waiting waiting, size_t size) except -1
    cdef int route_anew(self, Channel channel, list reserving) except -1
    cdef int roll_back(self, Channel channel) except -1
