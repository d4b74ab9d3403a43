"""Routes: the queues that a message goes to, and those of them that take it.

Responsible for what holds for all queues of a route (is one durable, may one refuse), and for
leaving out queues that have a message already or are full. It must not know how a route was found,
nor store messages. Invariants: a route does not change once it is in use, since it may be cached; a
narrowed one says why queues were left out.
"""

from libc.stdint cimport uint8_t, uint32_t
from cpython.bytes cimport PyBytes_AS_STRING

from leporid.engine.queue.exchange_cache cimport ExchangeCache
from leporid.engine.queue.queue cimport DROP_HEAD, REJECT_PUBLISH_DLX, Queue
from leporid.engine.queue.unique_queue cimport UniqueQueue, key_of
from leporid.engine.wire.codec cimport Props, walk_properties

from leporid.amqp.errors import ResourceError

cdef enum:
    TARGETS_MAX = 65534             # that one record can name, with its producer
    # Queues of a route that get memory for their next entries when these come. That takes 2.5
    # microseconds for the first entry of 256, which may be due in all of them at once.
    ROOM_AT_ONCE = 256
    # What a route that is found again at a commit costs, in entries of the transaction.
    ROUTED_ANEW_ENTRIES = 16


cdef class Route:
    """The queues that a message goes to."""


cdef Route make_route(object queues):
    """The route to some queues; raises a fault if there are too many."""
    cdef Route route = Route()
    cdef Queue queue
    route.queues = []
    route.unroutable = True
    for queue in queues:
        if not queue.private:
            route.unroutable = False
            route.targets += 1
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
    route.wide = len(route.queues) > ROOM_AT_ONCE
    route.in_steps = route.wide or len(route.own_records or ()) > 1
    if len(route.queues) > TARGETS_MAX:
        raise ResourceError(
            f"a message may go to {TARGETS_MAX} queues, and would go to {len(route.queues)}")
    return route


cdef Route same_way(Route route):
    """Another route to the same queues, made as `make_route` makes it."""
    cdef Route made = Route()
    made.queues, made.own_records, made.targets = route.queues, route.own_records, route.targets
    made.durable, made.unroutable, made.wide = route.durable, route.unroutable, route.wide
    made.in_steps, made.refusing, made.caching = route.in_steps, route.refusing, route.caching
    made.deduplicates = route.deduplicates
    return made


cdef Route narrowed(Route route, list queues):
    """The route with some of its queues; it still says why others were left out."""
    cdef Route left = make_route(queues + (route.own_records or []))
    left.duplicate, left.decided, left.refused = route.duplicate, route.decided, route.refused
    left.with_bcc = route.with_bcc
    if route.in_queues:
        stored_in_queues(left)
    return stored_in_streams(left) if route.in_streams else left


cdef Route stored_in_queues(Route route):
    """Have a route say that other queues have the message, which was routed so; returns it."""
    route.in_queues = True
    route.unroutable = False
    return route


cdef Route stored_in_streams(Route route):
    """Have a route say that streams have the message, which was routed so; returns it."""
    route.in_streams = True
    if route.own_records is None:
        route.own_records = []
    route.unroutable = False
    return route


cdef list all_queues(Route route):
    """The queues of a route, those with a record of their own included."""
    return route.queues + (route.own_records or [])


# ------------------------------------------------------------------ queues that take a message


cdef Route without_duplicates(Route route, const Props *props):
    """The route without the queues that have a message with this key already."""
    cdef bytes key = key_of(props)
    cdef Queue queue
    cdef Route left
    cdef list taking = []
    cdef bint duplicate = False
    for queue in route.queues:
        # For a transaction, the caches were asked before its facts were appended.
        if queue.remembers and key is not None and not (route.decided and queue.private) and (
                <UniqueQueue> queue).holds(key):
            duplicate = True
        else:
            taking.append(queue)
    left = narrowed(route, taking)
    if left.unroutable:
        # No queue gets the message, so it must not become a duplicate.
        left.queues = without_caches(left.queues)
    left.duplicate = left.duplicate or duplicate
    return left


cdef list without_caches(list queues):
    """The queues that are not deduplication caches of exchanges."""
    cdef Queue queue
    return [queue for queue in queues if not (queue.remembers and queue.private)]


cdef Route without_full(Route route, size_t body_len, list refusing):
    """The route without full queues; `refused` says that there were some.

    Full queues that dead-letter the message are added to `refusing`, which is passed to
    `DeadLettering.dead_letter_refused` after the message is stored: a queue may get both.
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
        taking = without_caches(taking)  # it may be published again, and must be no duplicate
    left = narrowed(route, taking)
    left.refused = left.refused or refused
    return left


cdef int reserve(Route route, bytes properties, list reserving) except -1:
    """Reserve the key of a message, so that another one of the same transaction is a duplicate.

    The caches that have reserved it are added to `reserving`.
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


cdef size_t publish_entries(Route route):
    """How many entries of a transaction a publish counts as: what it costs at the commit."""
    cdef size_t queues = len(route.queues)
    cdef size_t entries = 1 + queues // QUEUES_AN_ENTRY
    if route.own_records is not None:
        entries += len(route.own_records)   # each is a record
    if route.caching:
        entries += ROUTED_ANEW_ENTRIES + queues
    return entries
