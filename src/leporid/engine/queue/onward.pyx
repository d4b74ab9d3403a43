"""Onward: a message that waited in a queue nobody sees is stored anew, where it goes from there.

Responsible for doing that like a publish, for the end of the entry that it had, and for where it
goes when queues are full. It does not know why a message waited, nor how its way was found.
Invariants: the entry ends in one transaction with what is stored, so that a crash neither loses nor
doubles it; with a stream, as dead letters. Nothing is dropped because a queue is full, unless that
queue's backlog is full, too.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from leporid.engine.queue.backlog cimport backlog_of
from leporid.engine.routing.dedup cimport unguarded, without_caches
from leporid.engine.log.facts cimport make_room
from leporid.engine.plane cimport Plane
from leporid.engine.queue.queue cimport REJECT_PUBLISH, REJECT_PUBLISH_DLX, Queue
from leporid.engine.routing.source cimport Route, make_route, narrowed
from leporid.engine.log.storing cimport store
from leporid.engine.wire.wire cimport Props

from functools import partial


cdef Route parted(Route route, size_t body_len, list burying, list full):
    """The queues of a route that take a message.

    Of the others, those that make a dead letter of it are added to `burying`, the rest to `full`.
    So is one that has room while earlier messages wait for it.
    """
    cdef Queue queue
    cdef list taking = []
    for queue in route.queues:
        if queue.overflow == REJECT_PUBLISH and queue.backlog is not None and (
                queue.backlog.ready_count):
            full.append(queue)
        elif not queue.refuses(<uint32_t> body_len):
            taking.append(queue)
        elif queue.overflow == REJECT_PUBLISH_DLX and queue.dead_letters is not None:
            burying.append(queue)
        else:
            full.append(queue)
    return narrowed(route, taking)


cdef Route accepted(Plane plane, Route route, size_t body_len, const Props *props, list burying,
                    object elsewhere):
    """A route as it is for a message that has no publisher who could be told that a queue is full.

    A full queue makes a dead letter of it, if its overflow says so. If no queue takes it, it goes
    to `elsewhere()`, the queues of an alternate exchange; else to the backlogs of the full queues.

    Args:
        burying: gets the queues that make a dead letter of it, for `Burials.bury_refused`.
        elsewhere: None where there is no alternate exchange.
    """
    cdef list full = [], taking, others_full = []
    cdef Route left = parted(route, body_len, burying, full), other
    cdef Queue queue
    cdef bint refused
    taking = list(left.queues)
    if full and left.lost and not burying and elsewhere is not None:
        other = make_route(elsewhere())
        if other.guarded:
            other = unguarded(other, props)
        other = parted(other, body_len, burying, others_full)
        if burying or not other.lost:
            taking += other.queues + (other.apart or [])
            full = others_full
    refused = bool(burying)
    for queue in full:
        if backlog_of(queue).admits(<uint32_t> body_len):
            taking.append(queue.backlog)
        else:
            refused = True
    if refused and route.caching:
        taking = without_caches(taking)  # it may be published again, and is none then
    left = narrowed(route, taking)
    left.refused = refused
    return left


cdef Route send_on(Queue queue, uint64_t seq, Route route, const uint8_t *names, size_t names_len,
                   const uint8_t *properties, size_t properties_len, const uint8_t *body,
                   size_t body_len, const Props *props, object elsewhere, list keys):
    """Send what has an entry in `queue` along a route; None: there is none.

    Args:
        elsewhere: (exchange, keys, properties) gives the queues of an alternate exchange, for what
            no queue takes; None: there is none.
        keys: of the message; None: only that among its names.

    Returns:
        The route that was left of it, without queues that had or refused the message.
    """
    cdef Plane plane = queue.plane
    cdef uint64_t letters = plane.durable.appended, in_streams = plane.appended_to_streams
    cdef uint64_t published = plane.published
    cdef list burying = []
    if route is not None and route.guarded:
        route = unguarded(route, props)
    if route is not None and route.refusing:
        if elsewhere is not None:
            exchange = names[1:1 + names[0]].decode("utf-8", "surrogateescape")
            if keys is None:
                keys = [names[2 + names[0]:names_len].decode("utf-8", "surrogateescape")]
            elsewhere = partial(elsewhere, exchange, keys, properties[:properties_len])
        route = accepted(plane, route, body_len, props, burying, elsewhere)
    if route is not None and (route.queues or route.apart is not None):
        if queue.durable:
            make_room(plane, max(1, len(route.queues)), names_len + properties_len + body_len)
        store(plane, route, names, names_len, properties, properties_len, body, body_len, props, 0)
        plane.published = published     # it was counted when it came
    if burying:
        plane.burials.bury_refused(burying, names[:names_len], properties[:properties_len],
                                   body[:body_len])
    plane.burials.end_with_letter(queue, seq, letters, in_streams)
    return route
