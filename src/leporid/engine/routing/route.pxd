"""Routes."""

from libc.stdint cimport uint32_t, uint64_t

from leporid.engine.wire.codec cimport Props

cdef enum:
    # Queues of one publish that cost a commit no more time than a publish or a settle does.
    QUEUES_AN_ENTRY = 4

cdef class Route:
    cdef list queues
    cdef list own_records           # queues with a record of their own; None: there are none.
    cdef bint in_streams            # streams have the message; then `own_records` is not None
    cdef uint32_t targets           # queues that are not private
    cdef bint durable               # a queue is durable
    cdef bint unroutable            # there is no queue, or there are private ones only
    cdef bint in_queues             # queues that are not here have the message
    cdef bint wide                  # to more queues than get room for a message in one go
    cdef bint in_steps              # a message may be stored in several slices
    cdef bint refusing              # a queue may refuse a publish when it is full
    cdef bint deduplicates          # a queue takes no duplicates
    cdef bint duplicate             # a queue was left out because it has the message
    cdef bint caching               # a queue is the deduplication cache of an exchange
    cdef bint decided               # the caches were asked already
    cdef bint refused               # a queue was left out because it is full
    cdef bint by_message            # it depends on more than the key
    cdef object conditional         # ConditionalRoute, if the route depends on the message; or None
    cdef object by_filters          # FilterOutcomes, if it depends on filters of exchanges; or None
    cdef dict outcomes              # with `by_filters`: filters that a message passes -> Route
    cdef list keys                  # routing keys of a message with CC or BCC
    cdef bytes with_bcc             # its properties as published, for queues with `routes_again`
    cdef bytes key                  # the routing key, in a RouteCache
    cdef uint64_t hash              # of the key

cdef Route make_route(object queues)
cdef Route same_way(Route route)
cdef Route narrowed(Route route, list queues)
cdef Route stored_in_queues(Route route)
cdef Route stored_in_streams(Route route)
cdef list all_queues(Route route)
cdef Route without_duplicates(Route route, const Props *props)
cdef Route without_full(Route route, size_t body_len, list refusing)
cdef list without_caches(list queues)
cdef size_t publish_entries(Route route)
cdef int reserve(Route route, bytes properties, list reserving) except -1
