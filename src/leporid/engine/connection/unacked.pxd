"""Deliveries of one channel that are not settled, by delivery tag."""

from libc.stdint cimport uint64_t
from cpython.object cimport PyObject

ctypedef struct UnackedDelivery:
    uint64_t tag
    uint64_t seq
    uint64_t since_ms               # when it was delivered
    PyObject *queue                 # owned; NULL: settled
    PyObject *consumer              # owned; NULL: basic.get

cdef class UnackedDeliveries:
    cdef UnackedDelivery *entries
    cdef size_t start, end, capacity
    cdef size_t holes               # settled entries, but for those in the gap
    cdef int walks                  # loops by index under way: until they end, no entry moves
    cdef bint moving                # entries are moved to the beginning, past the holes
    cdef size_t moved, source       # so many are; the next one's index: between is the gap
    cdef int add(self, uint64_t tag, uint64_t seq, object queue, object consumer,
                 uint64_t since_ms) except -1
    cdef void move_some(self) noexcept
    cdef int put_back(self, list taken) except -1
    cdef ssize_t find(self, uint64_t tag) noexcept
    cdef ssize_t upto(self, uint64_t tag)
    cdef size_t above(self, uint64_t tag) noexcept
    cdef size_t after(self, size_t at) noexcept
    cdef size_t between(self, size_t first, size_t last) noexcept
    cdef bint is_empty(self) noexcept
    cdef UnackedDelivery take(self, size_t at) noexcept
    cdef bint trim(self) noexcept
    cdef void forget(self)

cdef class LateAcks:
    cdef dict tags                  # not settled since; None until there is one
    cdef uint64_t upto              # tags up to here were forgotten: all count as requeued
    cdef int add(self, uint64_t tag) except -1
    cdef bint has(self, uint64_t tag) except -1
