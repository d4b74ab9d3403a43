"""C declarations of `delivery.pyx`."""

from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint64_t

cdef enum:
    # How a delivery is settled: class and method of what is sent.
    ACK = 60 << 16 | 80
    REJECT = 60 << 16 | 90
    NACK = 60 << 16 | 120
    # States of a delivery.
    UNSETTLED = 0
    ACK_PENDING = 1
    SETTLED = 2
    NO_ACK = 3
    GIVEN_BACK = 4


cdef class Inbox:
    cdef PyObject **items
    cdef size_t head, count, mask
    cdef readonly str consumer_tag
    cdef readonly bint no_ack
    cdef public object error
    cdef public object ended
    cdef object loop
    cdef object waiters
    cdef object acked
    cdef readonly dict repeatable
    cdef int streak

    cdef int push(self, Delivery delivery) except -1
    cdef Delivery take(self)
    cdef int wake(self) except -1
    cdef int note_acked(self, Delivery delivery) except -1
    cdef bint is_repeated(self, Delivery delivery) except -1


cdef class Deliveries:
    cdef Inbox inbox
    cdef object consumer
    cdef object waiting


cdef class Settled:
    pass


cdef class Processing:
    cdef Delivery delivery
    cdef bint requeue, ignore_processed


cdef class Settler:
    cdef readonly object lost

    cdef int settle(self, Delivery delivery, int how, bint requeue, bint multiple) except -1
    cdef int give_back(self, Delivery delivery) except -1


cdef class Delivery:
    cdef Settler channel
    cdef Inbox inbox
    cdef readonly bytes body
    cdef bytes raw
    cdef readonly str exchange
    cdef readonly str key
    cdef object decoded
    cdef readonly uint64_t delivery_tag
    cdef uint8_t state
    cdef readonly bint redelivered

    cdef object known_properties(self)
    cdef int settle(self, int how, bint requeue, bint multiple) except -1
