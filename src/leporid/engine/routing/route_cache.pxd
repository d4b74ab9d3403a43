"""The cache of the routes of one exchange."""

from libc.stdint cimport uint8_t, uint64_t

from leporid.engine.bounds.clock cimport Clock
from leporid.engine.bounds.jobs cimport Jobs
from leporid.engine.queue.counters cimport Totals
from leporid.engine.routing.conditional_routes cimport FilterOutcomes, UnfinishedRoute
from leporid.engine.routing.route cimport Route
from leporid.engine.selectors.filter cimport FilterCounters
from leporid.engine.selectors.unfinished_match cimport UnfinishedMatch
from leporid.engine.wire.record cimport Message

cdef class Resolution
cdef class RouteCache

cdef class CachedRoutes:
    cdef public uint64_t bytes_max
    cdef readonly uint64_t bytes    # the memory of all of them, roughly
    cdef Jobs jobs                  # frees the routes of a cache that is cleared
    cdef dict caches                # that have routes; the one that began to fill first comes first
    cdef int add(self, RouteCache routes, uint64_t size) except -1
    cdef int remove(self, RouteCache routes) except -1

cdef class RouteCache:
    cdef readonly str name
    cdef bytes raw_name
    cdef public bint cacheable
    # All keys have one route, which is kept once: some publishers never repeat a key.
    cdef public bint keyless
    # (key) gives the bindings that its messages meet, if they say where these go and are found in a
    # moment, else None; or None.
    cdef public object met_by
    # (bindings) gives the queues of messages that meet these, or None; or None.
    cdef public object queues_met
    cdef readonly bint retired
    # Messages that clients published here, and the queues that took them, since it was made.
    cdef readonly uint64_t published, routed
    cdef Totals totals              # `published` counts there, too
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
    cdef Clock clock
    cdef Resolution unfinished      # of the last message, if it was left so and is not taken
    cdef list table                 # Route or None, open addressing
    cdef uint64_t mask
    cdef uint64_t count
    cdef uint64_t forgotten         # of these, places of routes that were forgotten
    cdef uint64_t not_cached        # messages whose keys found no room in it, and needed none
    cdef uint64_t outcomes_bytes    # the memory of all outcomes, roughly
    cdef dict by_met                # by the bindings that are met: a route, and these
    cdef uint64_t met_epoch, met_bytes  # when `by_met` was true; its memory, roughly
    cdef uint64_t bytes             # what it has of `all_routes`
    cdef CachedRoutes all_routes
    cdef Route route_of(self, const Message *message, const uint8_t *key, size_t size)
    cdef Resolution take_unfinished(self)
    cdef Route route_by(self, Route route, const Message *message)
    cdef Route with_room(self, Route route)
    cdef int check_text(self, const uint8_t *key, size_t size) except -1
    cdef Route cached(self, const uint8_t *key, size_t size)
    cdef Route by_bindings(self, const uint8_t *key, size_t size)
    cdef Route route_met(self, list met)
    cdef int forget_met(self) except -1
    cdef int check(self, const uint8_t *key, size_t size, list copies) except -1
    cdef int keep_outcome(self, dict outcomes, bytes passed, Route outcome) except -1
    cdef int remember(self, Route route) except -1
    cdef int place(self, Route route) except -1
    cdef int clear(self) except -1

cdef class Resolution:
    cdef RouteCache routes
    cdef bytes key
    cdef list keys                  # of a message with several; None: it has one
    cdef uint64_t epoch             # of `routes` when it began
    cdef object steps               # of the resolver; None: it is not being asked
    cdef object routed              # (exchange, keys, properties) is asked about it; or None
    cdef bint key_is_known          # what goes for all messages with the key
    cdef bint was_cut
    cdef UnfinishedRoute filters    # being asked which queues take it; None: they are not
    cdef FilterOutcomes decision    # the filters that must be asked before the resolver
    cdef UnfinishedMatch deciding   # they are being asked
    cdef bytes passed               # those that the message passes, as far as is known
    cdef uint64_t evaluated, failed
    cdef dict outcomes              # where messages go by the filters that they pass
    cdef Route found                # whose queues get room for an entry; None: it is not found
    cdef bint kept                  # they had it, and it is used whatever has changed
    cdef Py_ssize_t roomy           # how many of these have room
    cdef Route go_on(self, const Message *message)
    cdef Route find(self, const Message *message)
    cdef Route with_room(self)
    cdef Route go_by(self, Route route, const Message *message)
    cdef Route decided(self, const Message *message)
    cdef Route of_message(self, const Message *message)
    cdef object resolved(self)
    cdef Route made(self, object found)

cdef Resolution found_resolution(RouteCache routes, Route route)
cdef Resolution resolution_of_keys(RouteCache routes, list keys, object steps)
cdef object resolved_now(object steps)

cdef class LastRoute:
    cdef RouteCache routes          # of its exchange; None: there was no message yet
    cdef Route route                # of the last message; None: it must be looked up
    cdef uint64_t epoch             # of `routes` when it was looked up
    cdef bint is_to(self, const Message *message) noexcept
    cdef Route route_of(self, const Message *message)
    cdef int keep(self, Route route) except -1
