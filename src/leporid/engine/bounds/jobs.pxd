"""Work that goes on for many turns."""

from libc.stdint cimport uint64_t

from leporid.engine.bounds.clock cimport Clock
from leporid.engine.bounds.lines cimport Lines

cdef class Job:
    cdef object steps               # the iterator; None: it has ended
    cdef object done                # (value), called when it has ended; None: nobody asks
    cdef object failed              # (error), likewise

cdef class Jobs:
    cdef readonly Clock clock
    cdef Lines lines                # the jobs that have not ended
    cdef public object on_defect    # (error): of a job whose end nobody asks for
    cdef public object on_left      # (): something was started that needs another turn
    cpdef Job start(self, steps, done=*, failed=*)
    cdef bint advance(self, Job job) except -1
    cpdef int run(self, uint64_t length_ns) except -1
