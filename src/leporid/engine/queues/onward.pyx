"""Onward: a message that waited in a queue nobody sees is stored anew, where it goes from there.

Responsible for doing that like a publish, and for the end of the entry that it had. It does not
know why a message waited, nor how its way was found. Invariant: the entry ends in one transaction
with what is stored, so that a crash neither loses nor doubles it; with a stream, as dead letters.
"""

from libc.stdint cimport uint8_t, uint64_t

from leporid.engine.routing.dedup cimport unguarded
from leporid.engine.log.facts cimport make_room
from leporid.engine.plane cimport Plane
from leporid.engine.queues.queue cimport Queue
from leporid.engine.peers.sender cimport open_queues
from leporid.engine.routing.source cimport Route
from leporid.engine.log.storing cimport store
from leporid.engine.encoding.wire cimport Props


cdef Route send_on(Queue queue, uint64_t seq, Route route, const uint8_t *names, size_t names_len,
                   const uint8_t *properties, size_t properties_len, const uint8_t *body,
                   size_t body_len, const Props *props):
    """Send what has an entry in `queue` along a route; None: there is none.

    Returns the route that was left of it, without queues that had or refused the message.
    """
    cdef Plane plane = queue.plane
    cdef uint64_t letters = plane.durable.appended, in_streams = plane.appended_to_streams
    cdef uint64_t published = plane.published
    cdef list burying = []
    if route is not None and route.guarded:
        route = unguarded(route, props)
    if route is not None and route.refusing:
        route = open_queues(route, body_len, burying)
    if route is not None and (route.queues or route.apart is not None):
        if route.queues and route.apart is None and queue.durable:
            make_room(plane, len(route.queues), names_len + properties_len + body_len)
        store(plane, route, names, names_len, properties, properties_len, body, body_len, props, 0)
        plane.published = published     # it was counted when it came
    if burying:
        plane.burials.bury_refused(burying, names[:names_len], properties[:properties_len],
                                   body[:body_len])
    plane.burials.end_with_letter(queue, seq, letters, in_streams)
    return route
