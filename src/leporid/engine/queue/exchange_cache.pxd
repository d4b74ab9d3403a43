"""What an exchange remembers of the messages that came to it."""

from libc.stdint cimport uint64_t

from leporid.engine.connection.channel cimport Channel
from leporid.engine.queue.unique_queue cimport UniqueQueue
from leporid.engine.routing.route_cache cimport Route
from leporid.engine.wire.wire cimport Props

cdef class Cache(UniqueQueue):
    cdef uint64_t cache_ttl
    cdef set reserved                   # keys of a transaction that is being committed
    cdef uint64_t ttl_of(self, const Props *props)

cdef Route routed_anew(Channel channel, Route route, bytes names, bytes properties)
cdef int reserve(Route route, bytes properties, list reserving) except -1
