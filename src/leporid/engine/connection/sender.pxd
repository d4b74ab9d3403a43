"""Whoever publishes, and the queues that take what is published."""

from libc.stdint cimport uint8_t, uint64_t

from leporid.engine.routing.route_cache cimport Route, RouteCache

cdef class Sender:
    cdef RouteCache routes
    cdef Route route
    cdef uint64_t route_epoch
    cdef RouteCache routes_of_exchange(self, str name)
    cdef int find_routes(self, const uint8_t *exchange) except -1
    cdef Route route_of(self, const uint8_t *key, const uint8_t *properties, size_t properties_len)

cdef Route open_queues(Route route, size_t body_len, list refusing_queues)
