"""The header x-death, folded."""

from libc.stdint cimport uint8_t

cdef class Deaths:
    cdef readonly bint first
    cdef readonly bytes own
    cdef readonly bytes others
    cdef readonly set before
    cdef int fold(self, bytes value, bytes own_key) except -1
    cdef dict count_all(self, const uint8_t *p, const uint8_t *end, size_t *elements)
