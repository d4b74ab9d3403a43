"""Routes: the queues that a message goes to, and those of them that take it.

Responsible for what a route says of its queues together (is one durable, may one refuse), and for
leaving out queues that have a message already or are full. It does not know how a route was found,
and stores nothing. Invariant: a route is never changed once it was given out, since it may be
remembered; a narrowed one says why something was left out.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from cpython.bytes cimport PyBytes_AS_STRING

from leporid.engine.queue.exchange_cache cimport ExchangeCache
from leporid.engine.queue.queue cimport DROP_HEAD, REJECT_PUBLISH_DLX, Queue
from leporid.engine.queue.unique_queue cimport UniqueQueue, key_of
from leporid.engine.wire.codec cimport Props, walk_properties

from leporid.amqp.errors import ResourceError

cdef enum:
    TARGETS_MAX = 65534             # that one record can name, with its producer


cdef class Route:
    """Where one key leads."""


cdef Route make_route(object queues):
    cdef Route route = Route()
    cdef Queue queue
    route.queues = []
    route.unroutable = True
    for queue in queues:
        if not queue.private:
            route.unroutable = False
        if queue.own_record:
            if route.own_records is None:
                route.own_records = []
            route.own_records.append(queue)
            continue
        route.queues.append(queue)
        if queue.durable:
            route.durable = True
        if queue.overflow != DROP_HEAD:
            route.refusing = True
        if queue.remembers:
            route.deduplicates = True
            route.caching = route.caching or queue.private
    if len(route.queues) > TARGETS_MAX:
        raise ResourceError(
            f"a message may go to {TARGETS_MAX} queues, and would go to {len(route.queues)}")
    return route


cdef Route narrowed(Route route, list queues):
    """The same route with some of its queues; it still says why others were left out."""
    cdef Route left = make_route(queues + (route.own_records or []))
    left.duplicate, left.decided, left.refused = route.duplicate, route.decided, route.refused
    left.with_bcc = route.with_bcc
    return left


cdef list all_queues(Route route):
    """Those that keep a record of their own, too."""
    return route.queues + (route.own_records or [])


# ------------------------------------------------------------------ what takes a message


cdef Route without_duplicates(Route route, const Props *props):
    """The route without the queues that have such a message already."""
    cdef bytes key = key_of(props)
    cdef Queue queue
    cdef Route left
    cdef list taking = []
    cdef bint duplicate = False
    for queue in route.queues:
        # What a transaction publishes was compared with caches before it was put together.
        if queue.remembers and key is not None and not (route.decided and queue.private) and (
                <UniqueQueue> queue).holds(key):
            duplicate = True
        else:
            taking.append(queue)
    left = narrowed(route, taking)
    if left.unroutable:
        # Nobody has it, so nobody need be kept from having it twice.
        left.queues = without_caches(left.queues)
    left.duplicate = left.duplicate or duplicate
    return left


cdef list without_caches(list queues):
    """Those in which messages are, not only what is known of them."""
    cdef Queue queue
    return [queue for queue in queues if not (queue.remembers and queue.private)]


cdef Route without_full(Route route, size_t body_len, list refusing):
    """The queues of a route that are not full; `refused` says that there were others.

    Those of the others that make a dead letter of it are added to `refusing`, which is for
    `DeadLettering.dead_letter_refused` after the message is stored, as both may come to one queue.
    """
    cdef Queue queue
    cdef Route left
    cdef list taking = []
    cdef bint refused = False
    for queue in route.queues:
        if not queue.refuses(<uint32_t> body_len):
            taking.append(queue)
            continue
        refused = True
        if queue.overflow == REJECT_PUBLISH_DLX and queue.dead_letters is not None:
            refusing.append(queue)
    if refused and route.caching:
        taking = without_caches(taking)  # it may be published again, and is none then
    left = narrowed(route, taking)
    left.refused = refused
    return left


cdef int reserve(Route route, bytes properties, list reserving) except -1:
    """This message will be remembered: another one of the same transaction is a duplicate.

    Caches that this is said to are added to `reserving`.
    """
    cdef Props props
    cdef Queue queue
    cdef bytes key
    walk_properties(<const uint8_t *> PyBytes_AS_STRING(properties), len(properties), &props)
    key = key_of(&props)
    for queue in route.queues:
        if queue.remembers and queue.private and key is not None:
            (<ExchangeCache> queue).reserved.add(key)
            reserving.append(queue)
    route.decided = True
    return 0
