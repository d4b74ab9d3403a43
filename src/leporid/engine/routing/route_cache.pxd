"""The cache of the routes of one exchange."""

from libc.stdint cimport uint8_t, uint64_t

from leporid.engine.routing.route cimport Route
from leporid.engine.selectors.filter_counters cimport FilterCounters
from leporid.engine.wire.record cimport Message

cdef class RouteCache:
    cdef readonly str name
    cdef bytes raw_name
    cdef public bint cacheable
    cdef readonly bint retired
    cdef readonly uint64_t epoch    # changes when a cached route may be outdated
    cdef public object make_delays  # () sets `delays`; None: messages cannot be delayed here
    cdef public bint delaying       # x-delay counts here, not only x-deliver-at
    cdef public object check_key    # (key) raises a fault for a key that must not be used; or None
    # () gives keys that lead to its partitions in turn, for rows without a key; None: it has none
    cdef public object spread_keys
    cdef uint64_t spread            # rows without a key and a producer so far
    cdef readonly FilterCounters counters   # of filters, for messages published to this exchange
    cdef readonly object delays     # its Delays; None: no message was delayed yet
    cdef object resolver
    cdef list table                 # Route or None, open addressing
    cdef uint64_t mask
    cdef uint64_t count
    cdef uint64_t outcomes_bytes    # the memory of all outcomes, roughly
    cdef Route route_of(self, const Message *message, const uint8_t *key, size_t size)
    cdef Route outcome_of(self, Route route, const Message *message)
    cdef Route lookup(self, const Message *message, const uint8_t *key, size_t size)
    cdef int check(self, const uint8_t *key, size_t size, list copies) except -1
    cdef Route ask(self, bytes key, bytes properties)
    cdef int remember(self, Route route) except -1
    cdef void clear(self)

cdef class LastRoute:
    cdef RouteCache routes          # of its exchange; None: there was no message yet
    cdef Route route                # of the last message; None: it must be looked up
    cdef uint64_t epoch             # of `routes` when it was looked up
    cdef bint is_to(self, const Message *message)
    cdef Route route_of(self, const Message *message)
