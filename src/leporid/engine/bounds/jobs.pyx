"""Jobs: work that a peer causes and that may be too long for one turn, done piece by piece.

Responsible for whose turn it is, and for the end of each. A job is work of the party that the clock
has when it is started. It must not know what the work is: a job is an iterator, and each of its
steps leaves everything as others may find it. Invariant: a job that was started comes to its end,
whatever becomes of the peer that caused it.
"""

from libc.stdint cimport uint64_t

from leporid.engine.bounds.clock cimport Clock
from leporid.engine.bounds.lines cimport Lines

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
        self.lines = Lines()

    def __repr__(self):
        return f"<Jobs waiting={self.waiting}>"

    @property
    def waiting(self):
        """How many have not ended."""
        return self.lines.count

    cpdef Job start(self, steps, done=None, failed=None):
        """Do what the slice at hand leaves time for, now; the rest in later turns.

        Args:
            steps: an iterator; what it yields is ignored but for `AWAITS`.
            done: is called with what a generator returns.
            failed: is called with the exception that ended it; None: `on_defect` is.
        """
        cdef Job job = Job()
        party = self.clock.party
        job.steps, job.done, job.failed = iter(steps), done, failed
        if not self.advance(job):
            self.lines.add(party, job)
            if self.on_left is not None:
                self.on_left()
        return job

    cdef bint advance(self, Job job) except -1:
        """Take steps of a job until the slice is over; returns whether it has ended."""
        done, failed = job.done, job.failed
        self.clock.over()   # the slice has begun: the first step is part of it
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
        """Go on with jobs for so long in all, a slice each: parties take turns, and their jobs."""
        cdef Job job
        cdef Py_ssize_t left = self.lines.count     # a job that awaits something takes no time
        self.clock.begin_stage(length_ns)
        while left:
            left -= 1
            job = self.lines.begin_slice(self.clock)
            if job is None:
                break
            party = self.clock.party
            if not self.advance(job):
                self.lines.add(party, job)
        return 0
