"""C declarations of `encoder.pyx`."""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t


cdef class EncodedProperties:
    cdef readonly uint16_t flags
    cdef readonly bytes head
    cdef readonly bytes tail
    cdef size_t bytes_left(self)


cdef class Output:
    cdef uint8_t *data
    cdef size_t size
    cdef size_t capacity

    cdef uint8_t *room(self, size_t n) except NULL
    cdef bytes take(self)
    cdef int frame(self, uint8_t kind, uint16_t channel, const uint8_t *payload,
                   size_t n) except -1
    cdef int settle(self, uint16_t channel, uint16_t method, uint64_t tag, int bits) except -1
    cdef int publish(self, uint16_t channel, str exchange, str key, int bits,
                     EncodedProperties properties, bytes prefix, uint64_t number, bytes body,
                     size_t payload_max) except -1


cdef int check_short(str text, str what) except -1
cdef str short_name(object text, str what)
