"""Timers: which entry is due next, for any number of entries.

Responsible for a binary heap of plain structs. Adjacent entries of one queue that are due at the
same time, as in a queue with a time to live, share a timer if they are added with `add`. It must
not know queues, nor what time it is. Settling an entry leaves its timer; the owner prunes the heap
when too many timers are stale. Invariant: heap[0] is due first of all pushed timers, and after
`close` of all added ones.
"""

from libc.stdint cimport UINT64_MAX, uint32_t, uint64_t

from leporid.engine.bounds.clock cimport Clock, spend
from leporid.engine.bounds.large_memory cimport free_array, grow_array

cdef enum:
    CAPACITY_MIN = 64
    CAPACITY_KEPT_MAX = 1024        # more is freed as soon as the heap is empty


cdef inline bint is_before(const Timer *a, const Timer *b) noexcept:
    return a.at_ms < b.at_ms or (a.at_ms == b.at_ms and a.seq < b.seq)


cdef class Timers:
    """A heap ordered by time; timers of one queue with equal times by sequence number."""

    def __dealloc__(self):
        free_array(self.heap, self.capacity * sizeof(Timer))

    def __repr__(self):
        return f"<Timers {self.count}>"

    cdef int add(self, uint64_t at_ms, uint32_t queue, uint64_t seq) except -1:
        """Add a timer for an entry, which may share that of the entry before it."""
        cdef Timer *last = &self.open
        if (last.count and last.at_ms == at_ms and last.seq + last.count == seq
                and last.queue == queue):
            last.count += 1
            return 0
        self.close()
        last.at_ms, last.seq, last.queue, last.count = at_ms, seq, queue, 1
        return 0

    cdef int close(self) except -1:
        """Put the timer that is still open into the heap."""
        if self.open.count:
            self.insert(self.open)
            self.open.count = 0
        return 0

    cdef int push(self, uint64_t at_ms, uint32_t queue, uint64_t seq) except -1:
        """Add a timer for one entry alone."""
        cdef Timer timer
        timer.at_ms, timer.seq, timer.queue, timer.count = at_ms, seq, queue, 1
        return self.insert(timer)

    cdef int insert(self, Timer timer) except -1:
        cdef size_t at, parent
        cdef void *grown
        if self.count == self.capacity:
            grown = grow_array(self.heap, self.capacity * sizeof(Timer),
                               max(CAPACITY_MIN, self.capacity * 2) * sizeof(Timer))
            if grown == NULL:
                raise MemoryError("no memory for a timer")
            self.heap = <Timer *> grown
            self.capacity = max(CAPACITY_MIN, self.capacity * 2)
        at = self.count
        self.count += 1
        while at:
            parent = (at - 1) // 2
            if is_before(&self.heap[parent], &timer):
                break
            self.heap[at] = self.heap[parent]
            at = parent
        self.heap[at] = timer
        return 0

    cdef Timer pop(self):
        """Remove the first; there must be one."""
        cdef Timer first = self.heap[0]
        self.remove(0)
        return first

    cdef int remove(self, size_t at) except -1:
        """Remove the timer at a place of the heap; the last one takes its place, or one near it."""
        cdef Timer *last
        cdef size_t parent
        self.count -= 1
        if not self.count and self.capacity > CAPACITY_KEPT_MAX:
            free_array(self.heap, self.capacity * sizeof(Timer))
            self.heap, self.capacity = NULL, 0
        if at == self.count:
            return 0
        last = &self.heap[self.count]
        while at:
            parent = (at - 1) // 2
            if not is_before(last, &self.heap[parent]):
                break
            self.heap[at] = self.heap[parent]
            at = parent
        self.heap[at] = last[0]
        sift(self.heap, self.count, at)
        return 0

    cdef uint64_t next_ms(self):
        """When the first is due; UINT64_MAX if there is none."""
        return self.heap[0].at_ms if self.count else UINT64_MAX

    cdef bint is_stale(self, uint64_t current):
        """Whether most timers are stale, given how many are current, or a prune goes on."""
        return self.unseen != 0 or self.count > STALE_SLACK + 2 * current

    cdef bint prune(self, IsCurrent is_current, object owner, Clock clock) except -1:
        """Remove timers that are not current any more, as their owner says, while the slice lasts.

        From the last to the first, and the heap is in order after each. What others add and remove
        meanwhile may have a timer overlooked: it stays until the next time.

        Returns whether there was no time for all of them: the next call goes on.
        """
        self.unseen = min(self.unseen or self.count, self.count)
        while self.unseen:
            self.unseen -= 1
            if not is_current(owner, &self.heap[self.unseen]):
                self.remove(self.unseen)
            if spend(clock, 1):
                return self.unseen != 0
        return False


cdef void sift(Timer *heap, size_t count, size_t at) noexcept:
    cdef Timer moved = heap[at]
    cdef size_t child
    while True:
        child = 2 * at + 1
        if child >= count:
            break
        if child + 1 < count and is_before(&heap[child + 1], &heap[child]):
            child += 1
        if not is_before(&heap[child], &moved):
            break
        heap[at] = heap[child]
        at = child
    heap[at] = moved
