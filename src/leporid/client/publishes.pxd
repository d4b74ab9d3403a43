"""C declarations of `publishes.pyx`."""

from cpython.object cimport PyObject
from libc.stdint cimport uint8_t, uint16_t, uint64_t

from leporid.client.encoder cimport EncodedProperties, Output


ctypedef struct Publish:
    PyObject *exchange
    PyObject *key
    PyObject *properties
    PyObject *body
    PyObject *waiter
    PyObject *returned
    uint64_t number
    uint8_t bits
    uint8_t open


cdef class Batch:
    cdef readonly size_t window, bytes_max
    cdef readonly size_t in_flight, bytes
    cdef readonly size_t published
    cdef readonly list failures
    cdef readonly object error
    cdef public bint abandoned
    cdef object waiter
    cdef size_t wanted, wanted_bytes

    cdef int done(self, object error, size_t size) except -1


cdef class Unconfirmed:
    cdef Publish *ring
    cdef size_t mask
    cdef uint64_t base, next_tag, next_number
    # Where the search for a message that came back begins.
    cdef uint64_t returns_from
    cdef readonly bytes prefix
    # Of an earlier connection, to be written again: none if these are equal.
    cdef uint64_t resend_from, resend_to
    cdef readonly size_t singles, single_max
    cdef readonly size_t single_bytes, bytes_max
    cdef object on_room

    cdef uint64_t end(self) noexcept
    cdef bint is_full(self) noexcept
    cdef bint is_given_up(self, Publish *entry) except -1
    cdef Publish *resent(self) except? NULL
    cdef uint64_t reserve(self) except 0
    cdef void add(self, str exchange, str key, EncodedProperties properties, bytes body,
                  int bits, object waiter)
    cdef int grow(self) except -1
    cdef int confirm(self, uint64_t tag, bint multiple, bint nacked) except -1
    cdef int complete(self, Publish *entry, bint nacked) except -1
    cdef object failure(self, Publish *entry)
    cdef int release(self, Publish *entry) except -1
    cdef int note_return(self, str exchange, str key, bytes raw, object problem) except -1
    cdef Publish *numbered(self, message_id) except? NULL
    cdef Publish *alike(self, str exchange, str key, message_id) except? NULL
    cdef bint has_id(self, Publish *entry, str exchange, str key, str message_id) except -1
