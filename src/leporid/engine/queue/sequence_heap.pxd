"""A heap of sequence numbers."""

from libc.stdint cimport uint64_t

from leporid.engine.queue.index cimport Index

cdef class SequenceHeap:
    cdef uint64_t *heap
    cdef readonly size_t count
    cdef size_t capacity
    cdef size_t unseen              # of the heap, from the first; `prune_some` has not come to them
    cdef int push(self, uint64_t seq) except -1
    cdef uint64_t pop(self) noexcept
    cdef void remove(self, size_t at) noexcept
    cdef void shrink(self) noexcept
    cdef void prune_some(self, Index index, uint64_t ready_count) noexcept
    cdef void prune(self, Index index) noexcept
    cdef void sort(self) noexcept
    cdef void keep_below(self, uint64_t seq) noexcept
    cdef void sift(self, size_t at, uint64_t seq) noexcept
