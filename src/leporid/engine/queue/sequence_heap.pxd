"""A heap of sequence numbers."""

from libc.stdint cimport uint64_t

cdef class SequenceHeap:
    cdef uint64_t *heap
    cdef size_t count, capacity
    cdef int push(self, uint64_t seq) except -1
    cdef uint64_t pop(self)
    cdef void sort(self)
    cdef void keep_below(self, uint64_t seq) noexcept
    cdef void sift(self, size_t at, uint64_t seq) noexcept
