"""The interceptor of publishes: adds timestamp and message id."""

from libc.stdint cimport uint8_t, uint64_t

cdef class Interceptor:
    cdef int timestamp, message_id
    cdef object random_bytes
    cdef bytes pool                 # random bytes for message ids to come
    cdef size_t pool_at
    cdef bytes intercept(self, const uint8_t *properties, size_t size, uint64_t wall_ms)
    cdef int write_id(self, uint8_t *to) except -1
