"""Publishes of one channel that are not confirmed."""

from libc.stdint cimport uint64_t

ctypedef struct Pending:
    uint64_t upto                   # publishes up to this number
    uint64_t generation             # are confirmed once this generation is synced
    bint refused                    # this one publish is nacked instead

cdef class Confirms:
    cdef readonly uint64_t published         # the newest publish's number
    cdef readonly uint64_t settled           # publishes up to this number are confirmed or refused
    cdef Pending *pending
    cdef size_t start, end, capacity
    cdef bint add(self, uint64_t generation, bint refused) except -1
    cdef bint next(self, uint64_t synced, Pending *found) noexcept
