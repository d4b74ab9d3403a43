"""A heap of sequence numbers, for entries that are not taken in order of arrival.

Responsible for the order alone; of entries it knows only whether they are ready. A number whose
entry is not stays until it is popped or, when most are such, until a prune comes to it. Pushing
numbers in rising order costs O(1). Invariant: `pop` returns the lowest number.
"""

from libc.stdint cimport uint64_t
from libc.stdlib cimport qsort

from leporid.engine.bounds.large_memory cimport free_array, grow_array
from leporid.engine.queue.index cimport READY, Index, Slot

cdef enum:
    CAPACITY_MIN = 16
    CAPACITY_KEPT_MAX = 1024        # more is freed as soon as the heap is empty
    STALE_SLACK = 1024              # numbers of entries that are not ready, before they are removed
    WHOLE_MAX = 4096                # so many are looked at at once
    # Of more, so many for each that is pushed. As most are stale then, more go than come.
    LOOKS = 8


cdef int compare(const void *a, const void *b) noexcept nogil:
    cdef uint64_t left = (<const uint64_t *> a)[0], right = (<const uint64_t *> b)[0]
    return (left > right) - (left < right)


cdef class SequenceHeap:
    """Sequence numbers, lowest first."""

    def __dealloc__(self):
        free_array(self.heap, self.capacity * sizeof(uint64_t))

    cdef int push(self, uint64_t seq) except -1:
        cdef size_t at, parent
        cdef void *grown
        if self.count == self.capacity:
            grown = grow_array(self.heap, self.capacity * sizeof(uint64_t),
                               max(CAPACITY_MIN, self.capacity * 2) * sizeof(uint64_t))
            if grown == NULL:
                raise MemoryError("no memory to keep the order of a queue")
            self.heap = <uint64_t *> grown
            self.capacity = max(CAPACITY_MIN, self.capacity * 2)
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

    cdef uint64_t pop(self) noexcept:
        """Remove the lowest; there must be one."""
        cdef uint64_t lowest = self.heap[0]
        self.count -= 1
        if self.count:
            self.sift(0, self.heap[self.count])
        else:
            self.shrink()
        return lowest

    cdef void remove(self, size_t at) noexcept:
        """Remove the number at a place; the last one takes its place, or one near it."""
        cdef uint64_t last
        cdef size_t parent
        self.count -= 1
        last = self.heap[self.count]
        if not self.count:
            self.shrink()
        if at == self.count:
            return
        while at:
            parent = (at - 1) // 2
            if self.heap[parent] <= last:
                break
            self.heap[at] = self.heap[parent]
            at = parent
        self.sift(at, last)

    cdef void shrink(self) noexcept:
        """Free the memory of an empty heap that was long: each of many queues may have been."""
        if self.capacity > CAPACITY_KEPT_MAX:
            free_array(self.heap, self.capacity * sizeof(uint64_t))
            self.heap = NULL
            self.capacity = 0

    cdef void prune_some(self, Index index, uint64_t ready_count) noexcept:
        """Before each push: remove some numbers if most are no ready entry's, or duplicates.

        A million at once would take too long. What has been looked through and is still too long
        has duplicates, of entries that went and came back: these are only found in all of it.
        """
        cdef Slot *slot
        cdef int _look
        if self.count <= STALE_SLACK + 2 * ready_count:
            self.unseen = 0
            return
        if self.count <= WHOLE_MAX:
            self.prune(index)
            return
        if not self.unseen:
            self.unseen = self.count
        for _look in range(LOOKS):
            self.unseen = min(self.unseen, self.count)
            if not self.unseen:
                break
            self.unseen -= 1
            slot = index.slot_of(self.heap[self.unseen])
            if slot == NULL or slot.state != READY:
                self.remove(self.unseen)
        if not self.unseen and self.count > STALE_SLACK + 2 * ready_count:
            self.prune(index)

    cdef void prune(self, Index index) noexcept:
        """Remove all numbers that are no ready entry's, or duplicates."""
        cdef size_t at, kept = 0
        cdef Slot *slot
        for at in range(self.count):
            slot = index.slot_of(self.heap[at])
            if slot != NULL and slot.state == READY:
                self.heap[kept] = self.heap[at]
                kept += 1
        self.count = kept
        self.unseen = 0
        self.sort()
        if not self.count:
            self.shrink()

    cdef void sort(self) noexcept:
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
