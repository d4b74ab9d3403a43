"""C declarations of `codec.pyx`."""

from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from leporid.client.delivery cimport Delivery, Inbox, Settler
from leporid.client.encoder cimport EncodedProperties, Output
from leporid.client.publishes cimport Unconfirmed


cdef class ChannelCodec(Settler):
    cdef readonly ConnectionCodec connection
    cdef readonly uint16_t number
    cdef object owner
    cdef public Unconfirmed unconfirmed
    cdef dict inboxes
    cdef Inbox last_inbox
    cdef bytes last_tag
    # Deliveries that must be settled, by their tags: slots[tag & mask], tags from base to next_tag.
    cdef PyObject **slots
    cdef size_t mask, live
    cdef uint64_t base, next_tag
    # Of the last delivery if it needs no ack: the next may have it, too; 0: none.
    cdef uint64_t reusable_tag
    # Unsettled ones with lower tags than base.
    cdef dict stragglers
    # What was settled since the last transaction ended: deliveries, and the tags of those that
    # nobody holds; None before the first transaction.
    cdef list undoable
    # The same for each commit or rollback that is not answered.
    cdef list ending
    # Why deliveries cannot be settled for now: a transaction was begun on another connection.
    cdef public object interrupted
    cdef uint64_t *pending
    cdef size_t pending_count, pending_capacity
    # The content that is coming in.
    cdef int expects
    cdef int kind
    cdef Delivery delivery
    cdef object returned
    cdef uint32_t message_count
    cdef uint64_t body_size, body_at
    cdef bytes body
    cdef list parts
    cdef bytes last_raw
    cdef str last_exchange, last_key

    cdef int take(self, int kind, const uint8_t *p, uint32_t n) except -1
    cdef int take_method(self, const uint8_t *p, uint32_t n) except -1
    cdef int begin_delivery(self, const uint8_t *p, const uint8_t *end, int kind) except -1
    cdef int take_header(self, const uint8_t *p, uint32_t n) except -1
    cdef int take_body(self, const uint8_t *p, uint32_t n) except -1
    cdef int end_content(self) except -1
    cdef int end_delivery(self) except -1
    cdef Inbox inbox_of(self, const uint8_t *tag, size_t n)
    cdef int add(self, Delivery delivery, uint64_t tag) except -1
    cdef int make_room(self, uint64_t tag) except -1
    cdef int forget(self, uint64_t tag, int state) except -1
    cdef void clear_slots(self)
    cdef int acknowledge(self, Delivery delivery) except -1
    cdef int settle_until(self, uint64_t last, bint acked) except -1
    cdef int note_settled(self, Delivery delivery) except -1
    cdef int unsettle(self, Delivery delivery) except -1
    cdef int flush_acks(self) except -1


cdef class ConnectionCodec:
    cdef object owner
    cdef readonly object loop
    cdef object flusher
    cdef readonly Output output
    cdef bint scheduled
    cdef readonly bint paused
    cdef readonly unsigned long thread
    cdef list channels
    cdef list acking
    cdef object buffer
    cdef uint8_t *data
    cdef size_t begin, end, capacity
    cdef readonly uint32_t payload_max
    cdef readonly uint64_t message_bytes_max
    cdef readonly uint64_t received
    cdef readonly uint64_t sent

    cdef int flush_acks(self) except -1
    cdef int schedule(self) except -1
    cdef int check_thread(self) except -1
    cdef int scan(self) except -1
