"""What waits for the commit of a channel's transaction."""

from libc.stdint cimport uint64_t

cdef class Transaction  # before the modules that know it, too

from leporid.engine.connection.channel cimport Channel
from leporid.engine.routing.route cimport Route
from leporid.engine.wire.record cimport Message

cdef class Transaction:
    cdef list publishes             # (route, names, properties, body, mandatory), the oldest first
    cdef list settles               # (tag, queue, seq, consumer, since when in ms, how)
    cdef list letters               # refused messages, to be dead-lettered after COMMIT
    cdef uint64_t bytes
    cdef uint64_t entries           # what the commit costs, in publishes to one queue
    cdef bint refused               # a full queue refused a message at the last commit
    cdef int keep(self, Channel channel, Route route, const Message *message,
                  bint mandatory) except -1
    cdef int charge_settles(self, Channel channel, size_t count) except -1
    cdef int charge(self, Channel channel, size_t entries, uint64_t size) except -1
    cdef int forget_publishes(self, Channel channel) except -1
    cdef uint64_t commit(self, Channel channel) except? 0
    cdef list routed_publishes(self, Channel channel, list reserving)
    cdef int roll_back(self, Channel channel) except -1
