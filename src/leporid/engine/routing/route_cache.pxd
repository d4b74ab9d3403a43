"""The engine's face of an exchange: a cache of routes."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from leporid.engine.plane cimport Plane
from leporid.engine.selectors.filter_counters cimport FilterCounters

cdef class Route:
    cdef list queues
    cdef list apart                 # that keep a record of their own; None when there are none
    cdef bint durable               # one of the queues is
    cdef bint unroutable                  # it leads to no queue, or to private ones only
    cdef bint refusing              # one of them may refuse a publish when it is full
    cdef bint deduplicates               # one of them takes no duplicates
    cdef bint duplicate             # something was left out because it is one
    cdef bint caching               # one of them is the cache of an exchange
    cdef bint decided               # what they remember was asked already
    cdef bint refused               # something was left out because it is full
    cdef object conditional                # ConditionalRoute: it depends on the message; None: it does not
    cdef object by_filters            # FilterOutcomes: likewise, further than filters of queues
    cdef dict outcomes              # of that: the routes of messages, by the filters they pass
    cdef list keys                  # routing keys of a message with CC or BCC
    cdef bytes with_bcc             # its properties as they came: what waits is routed again
    cdef bytes key
    cdef uint64_t hash

cdef class RouteCache:
    cdef readonly str name
    cdef bytes raw_name
    cdef public bint cacheable
    cdef readonly bint retired
    cdef readonly uint64_t epoch    # moves when a route given out may be wrong
    cdef public object make_delays  # () gives it `delays`; None: nothing is delayed here
    cdef public bint delaying       # x-delay counts here, not only x-deliver-at
    cdef public object check_key    # (key) raises a fault for one that it does not take; or None
    # () gives keys that lead to its partitions in turn, for rows without a key; None: none does
    cdef public object spread_keys
    cdef uint64_t spread            # rows without a key and a producer so far
    cdef readonly FilterCounters counters   # of filters, by messages that come in here
    cdef readonly object delays     # what waits here, once there was something
    cdef object resolver
    cdef list table                 # Route or None, open addressing
    cdef uint64_t mask
    cdef uint64_t count
    cdef uint64_t outcomes_bytes    # that all outcomes take, about
    cdef Route route_of(self, const uint8_t *names, size_t names_len, const uint8_t *key,
                        size_t size, const uint8_t *properties, size_t properties_len)
    cdef Route outcome_of(self, Route route, const uint8_t *names, size_t names_len,
                          const uint8_t *properties, size_t properties_len)
    cdef Route lookup(self, const uint8_t *key, size_t size, const uint8_t *properties,
                      size_t properties_len)
    cdef int check(self, const uint8_t *key, size_t size, list copies) except -1
    cdef Route ask(self, bytes key, bytes properties)
    cdef int remember(self, Route route) except -1
    cdef void clear(self)

cdef Route make_route(object queues)
cdef Route narrowed(Route route, list queues)
