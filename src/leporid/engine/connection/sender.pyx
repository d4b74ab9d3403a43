"""Sending: what everybody who publishes does alike before a message is stored.

Responsible for remembering the exchange and the way of the last message, for the usual publisher
that repeats itself, and for leaving out queues that are full. It does not store anything, nor say
to anybody what became of a message. Invariant: a way that is remembered belongs to the routes that
is, at the epoch that is.
"""

from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcmp
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

from leporid.engine.queue.unique_queue cimport without_caches
from leporid.engine.queue.queue cimport REJECT_PUBLISH_DLX, Queue
from leporid.engine.routing.route_cache cimport Route, RouteCache, narrowed

from leporid.amqp.errors import SyntaxFault


cdef class Sender:
    """Whoever publishes: a channel, a table of rows."""

    cdef RouteCache routes_of_exchange(self, str name):
        """The routes of an exchange; raises a fault where there is none that may be used."""
        raise NotImplementedError

    cdef int find_routes(self, const uint8_t *exchange) except -1:
        """Have the routes of an exchange, whose length and name stand there."""
        cdef RouteCache routes = self.routes
        if (routes is None or routes.retired or len(routes.raw_name) != exchange[0]
                or memcmp(PyBytes_AS_STRING(routes.raw_name), exchange + 1, exchange[0])):
            try:
                name = exchange[1:1 + exchange[0]].decode()
            except UnicodeDecodeError:
                raise SyntaxFault("the exchange's name is not valid UTF-8") from None
            self.routes = self.routes_of_exchange(name)
            self.route = None
        return 0

    cdef Route route_of(self, const uint8_t *key, const uint8_t *properties,
                        size_t properties_len):
        """Where a message goes from `routes`; its key's length and text stand there, and before
        them those of the exchange."""
        cdef RouteCache routes = self.routes
        cdef Route route = self.route
        cdef size_t size
        if (route is not None and self.route_epoch == routes.epoch
                and len(route.key) == key[0]
                and not memcmp(PyBytes_AS_STRING(route.key), key + 1, key[0])):
            return route
        size = PyBytes_GET_SIZE(routes.raw_name) + 1
        route = routes.route_of(key - size, size + 1 + key[0], key + 1, key[0], properties,
                                properties_len)
        if route.key is not None and routes.cacheable:
            self.route = route
            self.route_epoch = routes.epoch
        return route


cdef Route open_queues(Route route, size_t body_len, list refusing_queues):
    """The queues of a route that are not full; `refused` says that there were others.

    Those of the others that make a dead letter of it are added to `refusing_queues`, which is for
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
            refusing_queues.append(queue)
    if refused and route.caching:
        taking = without_caches(taking)  # it may be published again, and is none then
    left = narrowed(route, taking)
    left.refused = refused
    return left
