"""Publishes rows that came as a table."""

from libc.stdint cimport uint8_t, uint64_t

from leporid.engine.plane cimport Plane
from leporid.engine.connection.sender cimport Sender
from leporid.engine.routing.route_cache cimport Route, RouteCache

cdef class Publisher(Sender):
    cdef readonly uint64_t accepted, duplicates, unroutable, refused
    cdef readonly uint64_t generation   # to wait for; 0: none
    cdef public list waiting        # (row, exchange, due_ms, number) of what waits; None: unasked
    cdef uint64_t row               # that comes next
    cdef Plane plane
    cdef object routes_of           # (name) -> RouteCache
    cdef bytes producer
    cdef uint64_t sequence          # of the next row
    cdef list spread_keys           # of `spread_routes` at `spread_epoch`
    cdef RouteCache spread_routes
    cdef uint64_t spread_epoch
    cdef uint64_t run, run_start    # the upper half of a sequence number, and its hash
    cdef Route spread_route(self, const uint8_t *names, size_t names_len,
                            const uint8_t *properties, size_t properties_len, uint64_t sequence)
    cdef uint64_t spread_number(self, uint64_t sequence) except? 0
    cdef int publish_row(self, const uint8_t *names, size_t names_len, const uint8_t *properties,
                         size_t properties_len, const uint8_t *body, size_t body_len,
                         uint64_t sequence, bint keyless) except -1
