"""A message that waited in a queue nobody sees goes on its way."""

from libc.stdint cimport uint8_t, uint64_t

from leporid.engine.plane cimport Plane
from leporid.engine.queue.queue cimport Queue
from leporid.engine.routing.route_cache cimport Route
from leporid.engine.wire.wire cimport Props

cdef Route without_full_queues(Plane plane, Route route, size_t body_len, const Props *props, list refusing_queues,
                    object elsewhere)
cdef Route republish(Queue queue, uint64_t seq, Route route, const uint8_t *names, size_t names_len,
                   const uint8_t *properties, size_t properties_len, const uint8_t *body,
                   size_t body_len, const Props *props, object elsewhere, list keys)
