"""A window: records of a log as raw bytes, for threads other than the broker's.

Responsible for the list of address ranges. It must not know streams or queues: `StreamWindow` and
`QueueWindow` choose the records and keep their segments in memory. Invariant: between the creation
of a window and its `close`, any thread may read `stretches` and `entries`; they do not change.
"""

from libc.stdint cimport uint8_t
from libc.stdlib cimport free, realloc


cdef class Window:
    """Some messages; `close` it, or use it in a `with` statement."""

    def __dealloc__(self):
        free(self.stretches)
        free(self.entries)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Release the bytes; on the broker's thread, when no thread reads them any more."""
        raise NotImplementedError

    cdef int add(self, const uint8_t *start, const uint8_t *end) except -1:
        """Append the records between two addresses."""
        cdef void *grown
        if self.count == self.capacity:
            grown = realloc(self.stretches, max(4, self.capacity * 2) * sizeof(Stretch))
            if grown == NULL:
                raise MemoryError("no memory for a window")
            self.stretches = <Stretch *> grown
            self.capacity = max(4, self.capacity * 2)
        self.stretches[self.count].start = start
        self.stretches[self.count].end = end
        self.count += 1
        return 0
