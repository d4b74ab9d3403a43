"""Onward: a message that waited in a queue nobody sees is stored anew, where it goes from there.

Responsible for doing that like a publish, for the end of the entry that it had, and for where it
goes when queues are full. It does not know why a message waited, nor how its way was found.
Invariants: the entry ends in one transaction with what is stored, so that a crash neither loses nor
doubles it; with a stream, as dead letters. Nothing is dropped because a queue is full, unless that
queue's backlog is full, too.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from leporid.engine.queue.backlog cimport backlog_of
from leporid.engine.queue.unique_queue cimport without_duplicates, without_caches
from leporid.engine.log.facts cimport make_room
from leporid.engine.plane cimport Plane
from leporid.engine.queue.queue cimport REJECT_PUBLISH, REJECT_PUBLISH_DLX, Queue
from leporid.engine.routing.route_cache cimport Route, make_route, narrowed
from leporid.engine.log.storing cimport store
from leporid.engine.wire.wire cimport Props

from functools import partial


cdef Route split_full(Route route, size_t body_len, list refusing_queues, list full):
    """The queues of a route that take a message.

    Of the others, those that make a dead letter of it are added to `refusing_queues`, the rest to `full`.
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
            refusing_queues.append(queue)
        else:
            full.append(queue)
    return narrowed(route, taking)


cdef Route without_full_queues(Plane plane, Route route, size_t body_len, const Props *props, list refusing_queues,
                    object elsewhere):
    """A route as it is for a message that has no publisher who could be told that a queue is full.

    A full queue makes a dead letter of it, if its overflow says so. If no queue takes it, it goes
    to `elsewhere()`, the queues of an alternate exchange; else to the backlogs of the full queues.

    Args:
        refusing_queues: gets the queues that make a dead letter of it, for `DeadLettering.dead_letter_refused`.
        elsewhere: None where there is no alternate exchange.
    """
    cdef list full = [], taking, others_full = []
    cdef Route left = split_full(route, body_len, refusing_queues, full), other
    cdef Queue queue
    cdef bint refused
    taking = list(left.queues)
    if full and left.unroutable and not refusing_queues and elsewhere is not None:
        other = make_route(elsewhere())
        if other.deduplicates:
            other = without_duplicates(other, props)
        other = split_full(other, body_len, refusing_queues, others_full)
        if refusing_queues or not other.unroutable:
            taking += other.queues + (other.apart or [])
            full = others_full
    refused = bool(refusing_queues)
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


cdef Route republish(Queue queue, uint64_t seq, Route route, const uint8_t *names, size_t names_len,
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
    cdef list refusing_queues = []
    if route is not None and route.deduplicates:
        route = without_duplicates(route, props)
    if route is not None and route.refusing:
        if elsewhere is not None:
            exchange = names[1:1 + names[0]].decode("utf-8", "surrogateescape")
            if keys is None:
                keys = [names[2 + names[0]:names_len].decode("utf-8", "surrogateescape")]
            elsewhere = partial(elsewhere, exchange, keys, properties[:properties_len])
        route = without_full_queues(plane, route, body_len, props, refusing_queues, elsewhere)
    if route is not None and (route.queues or route.apart is not None):
        if queue.durable:
            make_room(plane, max(1, len(route.queues)), names_len + properties_len + body_len)
        store(plane, route, names, names_len, properties, properties_len, body, body_len, props, 0)
        plane.published = published     # it was counted when it came
    if refusing_queues:
        plane.dead_lettering.dead_letter_refused(refusing_queues, names[:names_len], properties[:properties_len],
                                   body[:body_len])
    plane.dead_lettering.end_with_letter(queue, seq, letters, in_streams)
    return route
