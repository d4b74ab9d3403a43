"""Where a message goes."""

from libc.stdint cimport uint64_t

from leporid.engine.wire.codec cimport Props

cdef class Route:
    cdef list queues
    cdef list own_records           # that keep a record of their own; None when there are none
    cdef bint durable               # one of the queues is
    cdef bint unroutable            # it leads to no queue, or to private ones only
    cdef bint refusing              # one of them may refuse a publish when it is full
    cdef bint deduplicates          # one of them takes no duplicates
    cdef bint duplicate             # something was left out because it is one
    cdef bint caching               # one of them is the cache of an exchange
    cdef bint decided               # what they remember was asked already
    cdef bint refused               # something was left out because it is full
    cdef object conditional         # ConditionalRoute: it depends on the message; None: it does not
    cdef object by_filters          # FilterOutcomes: likewise, further than filters of queues
    cdef dict outcomes              # of that: the routes of messages, by the filters they pass
    cdef list keys                  # routing keys of a message with CC or BCC
    cdef bytes with_bcc             # its properties as they came: what waits is routed again
    cdef bytes key
    cdef uint64_t hash

cdef Route make_route(object queues)
cdef Route narrowed(Route route, list queues)
cdef list all_queues(Route route)
cdef Route without_duplicates(Route route, const Props *props)
cdef Route without_full(Route route, size_t body_len, list refusing)
cdef list without_caches(list queues)
cdef int reserve(Route route, bytes properties, list reserving) except -1
