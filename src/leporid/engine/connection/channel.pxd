"""A channel: consumers, unacked deliveries, confirms, transactions."""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

cdef class Channel  # before the modules that know it, too

from leporid.engine.bounds.accounts cimport Account
from leporid.engine.bounds.sharded_dict cimport ShardedDict
from leporid.engine.connection.assembly cimport Assembly
from leporid.engine.connection.confirms cimport Confirms
from leporid.engine.connection.connections cimport Connections
from leporid.engine.connection.consumer cimport Consumer
from leporid.engine.connection.credit cimport ChannelCredit
from leporid.engine.connection.output cimport Output
from leporid.engine.connection.timeouts cimport Check
from leporid.engine.connection.transaction cimport Transaction
from leporid.engine.connection.unacked cimport LateAcks, UnackedDeliveries
from leporid.engine.log.logs cimport Logs
from leporid.engine.publishing.publishing cimport PartialAppends, Publishing
from leporid.engine.queue.queue cimport Queue
from leporid.engine.queue.queues cimport Queues
from leporid.engine.routing.route cimport Route
from leporid.engine.routing.route_cache cimport LastRoute, Resolution
from leporid.engine.wire.codec cimport Props
from leporid.engine.wire.record cimport Message

cdef enum:
    SETTLE_ACK = 0
    SETTLE_DROP = 1
    SETTLE_REQUEUE = 2              # this and the next requeue: the consumer returned the message,
    SETTLE_FAIL = 3                 # or failed with it (RabbitMQ: basic.reject, a closed channel)
    UNROUTED = 1                    # a publish that is to be handled once more
    IN_STEPS = 1                    # a settle of which `settling` gives the steps

cdef class Channel:
    cdef readonly uint16_t number
    cdef readonly bint closing      # channel.close was sent: all but close and close-ok is ignored
    cdef readonly bint closed       # nothing is delivered or confirmed any more
    cdef bint ending                # what it has goes back, or is back
    cdef readonly bint confirming
    cdef readonly bint transactional
    cdef public uint32_t prefetch_count
    cdef readonly uint32_t unacked_count
    cdef readonly uint64_t published    # messages, since it was opened; in transactions, committed
    cdef readonly uint64_t acked        # deliveries
    cdef readonly uint64_t duplicates   # mandatory messages that came to no queue as such
    cdef uint64_t counted               # of `confirms.published`, in queues.received_confirm
    cdef bint publishes                 # it is one of connections.publishers until it is closed
    cdef uint32_t global_limit
    cdef readonly ChannelCredit global_credit   # None: there never was a global limit
    cdef uint32_t outstanding       # unsettled deliveries to consumers, for the global limit
    cdef Connections connections
    cdef Publishing publishing
    cdef Queues queues
    cdef Logs logs
    cdef Output out
    cdef LastRoute last
    # (key) raises a fault for a routing key that must not be used with the exchange of `last`, and
    # returns True if that is not known yet: then the session works, as in `find_routes`.
    # None: all may be used.
    cdef object check_key
    cdef Resolution resolution      # of the publish that is UNROUTED; None: there is none
    cdef PartialAppends appends     # of the publish at hand; None: it is stored in one piece
    cdef bytes intercepted          # its properties, if there is an interceptor
    cdef object session
    cdef public object trace        # told of publishes and deliveries (`tracing`); None: nobody is
    cdef Account account            # of the connection
    cdef ShardedDict consumers      # as keys
    cdef readonly uint64_t delivery_tag
    cdef UnackedDeliveries unacked
    # What is being settled in steps: deliveries up to this tag (0: none), and how.
    cdef uint64_t settling_upto
    cdef int settling_how
    cdef readonly Confirms confirms
    cdef bint unconfirmed           # is in connections.confirming
    cdef Transaction transaction    # None: the channel never had tx.select
    # Of `timeouts`: its id there, when it is checked next, its shortest timeout.
    cdef uint64_t watch_number, ring_at_ms, timeout_least_ms
    cdef Check check                # that is under way; None: none is
    cdef LateAcks late_acks
    cdef Assembly assembly          # the message that is being assembled; None: there is none
    cdef object body                # bytes of the message that is published; None: of the input
    cdef void *memory               # `body` if it is a RecordMemory, else NULL
    cdef uint64_t deepest           # ready entries in the longest consumed queue just published to
    cdef Queue crowd                # published to, and crowded then; None: none was
    cdef Route appended(self, Route route, const Message *message, const Props *props)
    cdef int keep_route(self, Route route) except -1
    cdef int forget_resolution(self) except -1
    cdef bint is_prepared(self, Route route, const Message *message) except -1
    cdef tuple copies(self, bytes raw)
    cdef int intercept(self, Message *message) except -1
    cdef int publish(self, const uint8_t *method, size_t method_len, const uint8_t *properties,
                     size_t properties_len, const uint8_t *body, size_t body_len,
                     bytes user_id) except -1
    cdef int await_route(self) except -1
    cdef Route resumed_route(self, const Message *message)
    cdef Route copies_route(self, const Message *message, list keys, bytes properties)
    cdef int check_exchange(self, const uint8_t *names) except -1
    cdef int find_routes(self, const Message *message) except -1
    cdef int accept(self, Route route, const Message *message, const Props *props, bint mandatory,
                    uint8_t flags) except -1
    cdef int note_crowd(self, Route route) except -1
    cdef bint awaits_crowd(self) except -1
    cdef int return_message(self, const Message *message) except -1
    cdef bint confirm(self) except -1
    cdef int settle(self, uint64_t tag, bint multiple, int how) except -1
    cdef int take_back(self, size_t at) except -1
    cdef bint trim_unacked(self) except -1
    cdef int how_of(self, size_t at, int how) noexcept
    cdef bint settle_some(self) except -1
    cdef bint collect_some(self, dict by_consumer, list order) except -1
    cdef bint requeue_some(self, Queue queue, Consumer consumer, numbers, int how) except -1
    cdef uint64_t refuse_streams(self, uint64_t after, uint64_t upto) except? 0
    cdef int keep_rejected(self, size_t first, size_t last) except -1
    cdef int settle_at(self, size_t at, int how) except -1
    cdef int settle_entry(self, Queue queue, uint64_t seq, Consumer taker, int how) except -1
