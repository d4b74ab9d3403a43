"""Publishing the rows of a table."""

from libc.stdint cimport uint32_t, uint64_t

from leporid.engine.publishing.publishing cimport Publishing
from leporid.engine.routing.route cimport Route
from leporid.engine.routing.route_cache cimport LastRoute, Resolution, RouteCache
from leporid.engine.wire.record cimport Message

cdef class Publisher:
    cdef readonly uint64_t accepted, duplicates, unroutable, refused
    cdef readonly uint64_t generation   # to wait for; 0: none
    cdef readonly uint64_t stored_bytes     # of the messages published so far, with their entries
    cdef uint32_t units                 # of work, of the last row
    cdef public list waiting        # (row, exchange, due_ms, number) of delayed rows; None: unasked
    cdef uint64_t row               # number of the next row
    cdef Publishing publishing
    cdef LastRoute last
    cdef object routes_of           # (name) -> RouteCache
    cdef object check_of            # (name) -> (key) raises a fault; None: all keys may be used
    cdef object check_key           # of the exchange of `last`; None: likewise
    cdef bytes producer
    cdef uint64_t sequence          # of the next row
    cdef list spread_keys           # of `spread_routes`, at `spread_epoch`
    cdef RouteCache spread_routes
    cdef uint64_t spread_epoch
    cdef uint64_t run, run_start    # the upper half of a sequence number, and its hash
    cdef Resolution resolution      # of the next row's route; None: it was not begun
    cdef bytes intercepted          # its properties, if there is an interceptor
    cdef Route route_of(self, const Message *message, uint64_t sequence, bint keyless)
    cdef int find_routes(self, const Message *message) except -1
    cdef Route spread_route(self, const Message *message, uint64_t sequence)
    cdef uint64_t spread_number(self, uint64_t sequence) except? 0
    cdef int publish_row(self, Message *message, uint64_t sequence, bint keyless) except -1
