"""What waits, by party."""

from leporid.engine.bounds.clock cimport Clock, Party

cdef class Lines:
    cdef dict lines                 # deques of what waits, by party; Lines, by group
    cdef object order               # parties and groups that have something, the next one first
    cdef readonly Py_ssize_t count  # of all that waits
    cpdef int add(self, Party party, waiting) except -1
    cdef object line_of(self, Party party, kind)
    cpdef object take(self)
    cdef int end_turn(self, Py_ssize_t left) except -1
    cdef object begin_slice(self, Clock clock)
