"""Jobs: work that a peer causes and that may be too long for one turn, done piece by piece.

Responsible for whose turn it is, and for the end of each. It must not know what the work is: a job
is an iterator, and each of its steps leaves everything as others may find it. Invariant: a job that
was started comes to its end, whatever becomes of the peer that caused it.
"""

from libc.stdint cimport uint64_t

from leporid.engine.bounds.clock cimport Clock

from collections import deque

# Yielded by a job that can do nothing until somebody else has done something.
AWAITS = object()


cdef class Job:
    """One piece of work; made by `Jobs.start`."""

    def __repr__(self):
        return f"<Job {'ended' if self.steps is None else self.steps!r}>"

    @property
    def ended(self):
        """Whether nothing of it is left to do."""
        return self.steps is None


cdef class Jobs:
    """The jobs of one broker."""

    def __cinit__(self, Clock clock not None):
        self.clock = clock
        self.waiting = deque()

    def __repr__(self):
        return f"<Jobs waiting={len(self.waiting)}>"

    cpdef Job start(self, steps, done=None, failed=None):
        """Do what the slice at hand leaves time for, now; the rest in later turns.

        Args:
            steps: an iterator; what it yields is ignored but for `AWAITS`.
            done: is called with what a generator returns.
            failed: is called with the exception that ended it; None: `on_defect` is.
        """
        cdef Job job = Job()
        job.steps, job.done, job.failed = iter(steps), done, failed
        if not self.advance(job):
            self.waiting.append(job)
        return job

    cdef bint advance(self, Job job) except -1:
        """Take steps of a job until the slice is over; returns whether it has ended."""
        done, failed = job.done, job.failed
        try:
            while True:
                if next(job.steps) is AWAITS or self.clock.over():
                    return False
        except StopIteration as end:
            job.steps = job.done = job.failed = None
            if done is not None:
                done(end.value)
        except Exception as error:
            job.steps = job.done = job.failed = None
            if failed is not None:
                failed(error)
            elif self.on_defect is not None:
                self.on_defect(error)
            else:
                raise
        return True

    cpdef int run(self, uint64_t length_ns) except -1:
        """Go on with each job for a slice, in turn, for so long in all."""
        cdef Py_ssize_t left = len(self.waiting)
        self.clock.begin_stage(length_ns)
        while left and not self.clock.stage_is_over:
            left -= 1
            job = self.waiting.popleft()
            self.clock.begin_slice()
            if not self.advance(job):
                self.waiting.append(job)
        return 0
