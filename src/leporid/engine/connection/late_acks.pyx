"""Deliveries of a channel that were taken back, each of which may be settled late.

Responsible for telling these from tags that never were: settling one is no fault, once. It does not
know why they were taken back. Invariant: what it remembers has a bound; beyond, it forgives more
than was taken back, never less.
"""

from libc.stdint cimport uint64_t

cdef enum:
    # Of more than these, the oldest are not told from any other that is as old.
    LATE_ACKS_MAX = 4096


cdef class LateAcks:
    """The tags of one channel."""

    cdef int add(self, uint64_t tag) except -1:
        """A delivery is taken back."""
        if self.tags is None:
            self.tags = {}
        self.tags[tag] = None
        if len(self.tags) > LATE_ACKS_MAX:
            oldest = next(iter(self.tags))
            del self.tags[oldest]
            self.upto = max(self.upto, <uint64_t> oldest)
        return 0

    cdef bint has(self, uint64_t tag) except -1:
        """Whether a delivery was taken back that is being settled now."""
        if self.tags is None:
            return False
        if tag not in self.tags:
            return 0 < tag <= self.upto
        del self.tags[tag]
        return True
