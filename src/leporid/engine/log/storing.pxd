"""What becomes of a message whose queues are known."""

from libc.stdint cimport uint8_t, uint64_t

from leporid.engine.plane cimport Plane
from leporid.engine.log.producers cimport Producer
from leporid.engine.routing.route_cache cimport Route
from leporid.engine.wire.wire cimport Props

cdef uint64_t store(Plane plane, Route route, const uint8_t *names, size_t names_len,
                    const uint8_t *properties, size_t properties_len, const uint8_t *body,
                    size_t body_len, const Props *props, uint8_t flags) except? 0
cdef uint64_t enqueue(Plane plane, Route route, const uint8_t *names, size_t names_len,
                      const uint8_t *properties, size_t properties_len, const uint8_t *body,
                      size_t body_len, const Props *props, uint8_t flags,
                      Producer producer, uint64_t sequence) except? 0
cdef bint store_produced(Plane plane, Route route, const uint8_t *names, size_t names_len,
                         const uint8_t *properties, size_t properties_len,
                         const uint8_t *body, size_t body_len, const Props *props,
                         bytes reference, uint64_t sequence) except -1
