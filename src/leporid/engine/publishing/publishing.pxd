"""Storing a message whose route is known."""

from libc.stdint cimport uint8_t, uint64_t

from leporid.engine.bounds.clock cimport Clock
from leporid.engine.log.logs cimport Logs
from leporid.engine.publishing.interceptor cimport Interceptor
from leporid.engine.queue.queue cimport Queue
from leporid.engine.queue.queues cimport Queues
from leporid.engine.routing.route cimport Route
from leporid.engine.selectors.filter cimport FilterCounters
from leporid.engine.wire.codec cimport Props
from leporid.engine.wire.record cimport Message

cdef class Publishing

cdef class PartialAppends:
    cdef Route route                # of the message
    cdef Py_ssize_t part            # how many queues get a record together; 0: all of them
    cdef Py_ssize_t at              # how many of its queues with own records were looked at
    cdef Py_ssize_t queues_at       # how many of the others were looked at
    cdef bint in_streams            # a stream has the message
    cdef bint in_queues             # a queue has it
    cdef uint64_t deepest           # as that of `Publishing`, among these queues
    cdef bint duplicate             # one had it already
    cdef bint refused               # one is full
    cdef bint go_on(self, Publishing publishing, const Message *message,
                    const Props *props) except -1
    cdef bint append_to_streams(self, Publishing publishing, const Message *message,
                                const Props *props) except -1
    cdef bint append_to_queues(self, Publishing publishing, const Message *message,
                               const Props *props) except -1
    cdef int append_part(self, Publishing publishing, const Message *message,
                         const Props *props) except -1
    cdef Route rest(self)

cdef Message message_with(bytes names, bytes properties, body)
cdef PartialAppends partial_appends(Route route, const Message *message, Clock clock,
                                    bint in_parts)

cdef class Publishing:
    cdef Logs logs
    cdef Queues queues
    cdef public Interceptor interceptor     # of clients' publishes; None: there is none
    cdef readonly FilterCounters filters    # of all bindings
    # Clients' messages by the length of their body: up to SIZE_LIMITS[i], and longer ones.
    cdef uint64_t sizes[9]
    cdef readonly uint64_t received_body_bytes
    cdef uint64_t deepest           # ready messages of the longest consumed queue just published to
    cdef bint fresh                 # the last message of a producer was new to some log
    cdef Route publish(self, Route route, const Message *message, const Props *props,
                       uint8_t flags, bytes producer, uint64_t sequence, list letters)
    cdef Route publish_own(self, Route route, const Message *message, const Props *props,
                           bytes producer, uint64_t sequence, object elsewhere, bint replaces,
                           list refusing)
    cdef Route republish(self, Queue queue, uint64_t seq, Route route, const Message *message,
                         const Props *props, object elsewhere, list keys)
    cdef Route without_full_queues(self, Route route, size_t body_len, const Props *props,
                                   list refusing, object elsewhere)
    cdef int store_produced(self, Route route, const Message *message, const Props *props,
                            bytes reference, uint64_t sequence) except -1
