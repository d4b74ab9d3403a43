"""A heap of sequence numbers, for entries that are not taken in order of arrival.

Responsible for the order alone; it must not know entries. A number whose entry is gone stays until
it is popped, or until the owner prunes the heap, as it must when most are gone. Pushing numbers in
rising order costs O(1). Invariant: `pop` returns the lowest number.
"""

from libc.stdint cimport uint64_t
from libc.stdlib cimport free, qsort, realloc


cdef int compare(const void *a, const void *b) noexcept nogil:
    cdef uint64_t left = (<const uint64_t *> a)[0], right = (<const uint64_t *> b)[0]
    return (left > right) - (left < right)


cdef class SequenceHeap:
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
        cdef uint64_t lowest = self.heap[0]
        self.count -= 1
        self.sift(0, self.heap[self.count])
        return lowest

    cdef void sort(self):
        """Restore the heap of the first `count` numbers, each once, after they were moved."""
        cdef size_t at, kept = 0
        if self.count:      # without any there may be no memory, which qsort must not be given
            qsort(self.heap, self.count, sizeof(uint64_t), compare)
        for at in range(self.count):
            if not kept or self.heap[at] != self.heap[kept - 1]:
                self.heap[kept] = self.heap[at]
                kept += 1
        self.count = kept

    cdef void keep_below(self, uint64_t seq) noexcept:
        """Remove all numbers from `seq` on."""
        cdef size_t at, kept = 0
        for at in range(self.count):
            if self.heap[at] < seq:
                self.heap[kept] = self.heap[at]
                kept += 1
        self.count = kept
        for at in range(kept // 2, 0, -1):
            self.sift(at - 1, self.heap[at - 1])

    cdef void sift(self, size_t at, uint64_t seq) noexcept:
        """Put a number at `at`, or further down, until no child of it is lower."""
        cdef uint64_t *heap = self.heap
        cdef size_t child
        while True:
            child = 2 * at + 1
            if child >= self.count:
                break
            if child + 1 < self.count and heap[child + 1] < heap[child]:
                child += 1
            if heap[child] >= seq:
                break
            heap[at] = heap[child]
            at = child
        heap[at] = seq
