"""What filters in one place were asked."""

from libc.stdint cimport uint64_t

cdef class FilterCounters:
    cdef readonly uint64_t asked, evaluated, matched, type_errors
    cpdef int note(self, uint64_t asked, uint64_t evaluated, uint64_t matched,
                   uint64_t type_errors) except -1
