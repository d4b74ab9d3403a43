"""Accounts of memory."""

from libc.stdint cimport uint64_t

cdef class Account:
    cdef object __weakref__
    cdef readonly str title
    cdef readonly uint64_t bytes        # that it and the accounts below it have been charged
    cdef public uint64_t limit
    cdef public bint full               # of the broker's: it may keep nothing more
    cdef readonly Account parent
    cdef bint closed                # nothing is counted any more
    cpdef Account over(self, uint64_t size)
    cpdef Account refusing(self, uint64_t size)
    cpdef Account charge(self, uint64_t size)
    cpdef int add(self, uint64_t size) except -1
    cpdef int release(self, uint64_t size) except -1
