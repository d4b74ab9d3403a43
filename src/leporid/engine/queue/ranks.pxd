"""A heap of objects by rank, from which any can be taken out."""

from libc.stdint cimport uint64_t

cdef class Ranked:
    cdef readonly int priority          # the higher, the earlier
    cdef uint64_t arrival               # of equal priorities, the lower one is first
    cdef Py_ssize_t place               # in the heap, while it is in one

cdef int put_in(list heap, Ranked item) except -1
cdef int take_out(list heap, Ranked item) except -1
