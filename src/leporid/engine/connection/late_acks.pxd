"""Deliveries that were taken back."""

from libc.stdint cimport uint64_t

cdef class LateAcks:
    cdef dict tags                  # not settled since; None until there is one
    cdef uint64_t upto              # up to here, which ones is not known any more
    cdef int add(self, uint64_t tag) except -1
    cdef bint has(self, uint64_t tag) except -1
