"""What waits, by party."""

from leporid.engine.bounds.clock cimport Clock

cdef class Lines:
    cdef dict lines                 # deques of what waits, by party
    cdef object order               # parties that have something, the next one first
    cdef readonly Py_ssize_t count  # of all that waits
    cpdef int add(self, party, waiting) except -1
    cpdef object take(self)
    cdef object begin_slice(self, Clock clock)
