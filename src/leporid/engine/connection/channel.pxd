"""A channel: what it delivered and has not settled, what it published and is not confirmed."""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

cdef class Channel  # before the modules that know it, too

from leporid.engine.connection.assembly cimport Assembly
from leporid.engine.connection.confirms cimport Confirms
from leporid.engine.connection.credit cimport ChannelCredit
from leporid.engine.connection.late_acks cimport LateAcks
from leporid.engine.connection.unacked cimport UnackedDeliveries
from leporid.engine.connection.outbox cimport Outbox
from leporid.engine.plane cimport Plane
from leporid.engine.queue.queue cimport Queue
from leporid.engine.connection.sender cimport Sender
from leporid.engine.routing.route_cache cimport Route
from leporid.engine.queue.takers cimport Taker
from leporid.engine.wire.wire cimport Props

cdef enum:
    SETTLE_ACK = 0
    SETTLE_DROP = 1
    SETTLE_REQUEUE = 2              # those from here on requeue: the consumer did not want it now,
    SETTLE_FAIL = 3                 # or it failed (RabbitMQ: basic.reject, the end of a channel)

cdef class Channel(Sender):
    cdef readonly uint16_t number
    cdef readonly bint closing      # refused: only close and close-ok are heard
    cdef readonly bint closed
    cdef readonly bint confirming
    cdef readonly bint transactional
    cdef readonly bint flowing
    cdef public uint32_t prefetch_count
    cdef readonly uint32_t unacked_count
    cdef uint32_t global_limit
    cdef readonly ChannelCredit global_credit   # None: there never was such a limit
    cdef uint32_t outstanding       # unsettled deliveries to consumers, for the global limit
    cdef Plane plane
    cdef Outbox out
    cdef object session
    cdef list consumers
    cdef uint64_t delivery_tag
    cdef UnackedDeliveries unacked
    cdef Confirms confirms
    cdef bint unconfirmed           # stands in plane.confirming
    cdef list tx_publishes
    cdef uint64_t tx_bytes
    cdef list tx_settles
    cdef readonly bint tx_refused   # a queue was too full for something of the last transaction
    cdef list tx_letters            # what queues refused, to be made dead letters after COMMIT
    # Of `timeouts`: the number it is known by there, when it is looked at, the shortest timeout.
    cdef uint64_t watch_number, ring_at_ms, timeout_least_ms
    cdef LateAcks late_acks
    cdef Assembly assembly          # of a message whose frames do not arrive together
    cdef uint64_t deepest           # ready entries in the longest consumed queue just published to
    cdef int publish(self, const uint8_t *method, size_t method_len, const uint8_t *properties,
                     size_t properties_len, const uint8_t *body, size_t body_len,
                     bytes user_id) except -1
    cdef int accept(self, Route route, const uint8_t *names, size_t names_len,
                    const uint8_t *properties, size_t properties_len, const uint8_t *body,
                    size_t body_len, Props *props, bint mandatory, uint8_t flags) except -1
    cdef int give_back(self, const uint8_t *names, size_t names_len, const uint8_t *properties,
                       size_t properties_len, const uint8_t *body, size_t body_len) except -1
    cdef bint confirm(self) except -1
    cdef int forget_consumers(self) except -1
    cdef int shut(self) except -1
