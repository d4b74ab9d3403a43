"""An order of entries that is not simply that of arrival: a heap of sequence numbers.

It does not know what the numbers stand for; a number whose entry is gone stays until it is popped.
Pushing numbers in rising order costs nothing extra. Invariant: `pop` gives the lowest.
"""

from libc.stdint cimport uint64_t
from libc.stdlib cimport free, realloc


cdef class Order:
    """Sequence numbers, lowest first."""

    def __dealloc__(self):
        free(self.heap)

    cdef int push(self, uint64_t seq) except -1:
        cdef size_t at, parent
        cdef void *grown
        if self.count == self.capacity:
            grown = realloc(self.heap, max(16, self.capacity * 2) * sizeof(uint64_t))
            if grown == NULL:
                raise MemoryError("no memory to keep the order of a queue")
            self.heap = <uint64_t *> grown
            self.capacity = max(16, self.capacity * 2)
        at = self.count
        self.count += 1
        while at:
            parent = (at - 1) // 2
            if self.heap[parent] <= seq:
                break
            self.heap[at] = self.heap[parent]
            at = parent
        self.heap[at] = seq
        return 0

    cdef uint64_t pop(self):
        """Remove the lowest; there must be one."""
        cdef uint64_t *heap = self.heap
        cdef uint64_t lowest = heap[0], last
        cdef size_t at = 0, child
        self.count -= 1
        last = heap[self.count]
        while True:
            child = 2 * at + 1
            if child >= self.count:
                break
            if child + 1 < self.count and heap[child + 1] < heap[child]:
                child += 1
            if heap[child] >= last:
                break
            heap[at] = heap[child]
            at = child
        heap[at] = last
        return lowest
