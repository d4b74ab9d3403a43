"""Publisher confirms of one channel: which publish waits for which generation.

Responsible for their order. It must not know frames or the log. Publishes that wait for the same
generation are one entry, so there are few entries however many publishes are outstanding.
Invariant: entries are in order of both number and generation, so confirms leave in order.
"""

from libc.stdint cimport uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memmove


cdef class Confirms:
    """Unconfirmed publishes."""

    def __dealloc__(self):
        free(self.pending)

    cdef bint add(self, uint64_t generation, bint refused) except -1:
        """Add the next publish: confirmed, or refused, once a generation is synced; 0: at once.

        Returns whether it is the first publish here that waits for this generation.
        """
        cdef Pending *last = NULL
        cdef void *grown
        self.published += 1
        if self.end > self.start:
            last = &self.pending[self.end - 1]
            if generation <= last.generation and not refused and not last.refused:
                last.upto = self.published
                return False
            generation = max(generation, last.generation)
        else:
            self.start = self.end = 0
        if self.end == self.capacity:
            if self.start:
                memmove(self.pending, self.pending + self.start,
                        (self.end - self.start) * sizeof(Pending))
                self.end -= self.start
                self.start = 0
            else:
                grown = realloc(self.pending, max(4, self.capacity * 2) * sizeof(Pending))
                if grown == NULL:
                    raise MemoryError("no memory for unconfirmed publishes")
                self.pending = <Pending *> grown
                self.capacity = max(4, self.capacity * 2)
        last = &self.pending[self.end]
        self.end += 1
        last.upto, last.generation, last.refused = self.published, generation, refused
        return True

    cdef bint next(self, uint64_t synced, Pending *found) noexcept:
        """The next ack or nack to send; adjacent confirms are one. False: there is none."""
        if self.start == self.end or self.pending[self.start].generation > synced:
            return False
        found[0] = self.pending[self.start]
        self.start += 1
        while (not found.refused and self.start < self.end
                and not self.pending[self.start].refused
                and self.pending[self.start].generation <= synced):
            found[0] = self.pending[self.start]
            self.start += 1
        return True
