"""A heap of moments at which an entry is due."""

from libc.stdint cimport uint32_t, uint64_t

ctypedef struct Due:                # 24 bytes
    uint64_t at_ms
    uint64_t seq
    uint32_t queue

cdef class Timers:
    cdef Due *heap
    cdef readonly size_t count
    cdef size_t capacity
    cdef int push(self, uint64_t at_ms, uint32_t queue, uint64_t seq) except -1
    cdef Due pop(self)
    cdef uint64_t next_ms(self)
    cdef void rebuild(self)
