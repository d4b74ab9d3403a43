"""Credit that several consumers of one channel have together."""

from libc.stdint cimport uint32_t

cdef class Credit:
    cdef readonly uint32_t limit
    cdef readonly uint32_t used
    cdef list takers                # whose it is
    cdef size_t turn                # who is asked first the next time that there is some
    cdef int take_one(self) except -1
    cdef int give_one(self) except -1
