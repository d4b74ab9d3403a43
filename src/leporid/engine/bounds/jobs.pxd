"""Work that goes on for many turns."""

from libc.stdint cimport uint64_t

from leporid.engine.bounds.clock cimport Clock

cdef class Job:
    cdef object steps               # the iterator; None: it has ended
    cdef object done                # (value), called when it has ended; None: nobody asks
    cdef object failed              # (error), likewise

cdef class Jobs:
    cdef readonly Clock clock
    cdef readonly object waiting    # the jobs that have not ended, the next one first
    cdef public object on_defect    # (error): of a job whose end nobody asks for
    cpdef Job start(self, steps, done=*, failed=*)
    cdef bint advance(self, Job job) except -1
    cpdef int run(self, uint64_t length_ns) except -1
