"""The unacked deliveries of a channel, by delivery tag.

Responsible for finding them. It must not know what settling does. Entries are in order of their
tags. A settled one leaves a hole, which is removed when room is needed, so that one old delivery
does not keep the memory of all later ones; but not during a loop by index, as its body may cause
deliveries. Invariants: tags rise; an entry with a queue is unsettled.
"""

from libc.stdint cimport uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memmove
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF

cdef enum:
    # Remembered exactly; of older tags, all count as requeued.
    LATE_ACKS_MAX = 4096


cdef inline int fill(UnackedDelivery *entry, uint64_t tag, uint64_t seq, object queue,
                     object consumer, uint64_t since_ms):
    """Make an unsettled delivery of an entry that has no references."""
    entry.tag, entry.seq, entry.since_ms = tag, seq, since_ms
    Py_INCREF(queue)
    entry.queue = <PyObject *> queue
    entry.consumer = NULL
    if consumer is not None:
        Py_INCREF(consumer)
        entry.consumer = <PyObject *> consumer
    return 0


cdef class UnackedDeliveries:
    """Unsettled deliveries, found by tag."""

    def __dealloc__(self):
        self.forget()
        free(self.entries)

    cdef void forget(self):
        """Drop the references of all entries."""
        cdef size_t at
        for at in range(self.start, self.end):
            if self.entries[at].queue != NULL:
                Py_DECREF(<object> self.entries[at].queue)
                if self.entries[at].consumer != NULL:
                    Py_DECREF(<object> self.entries[at].consumer)
        self.start = self.end = self.holes = 0

    cdef int add(self, uint64_t tag, uint64_t seq, object queue, object consumer,
                 uint64_t since_ms) except -1:
        """Add a delivery whose tag is the highest so far."""
        cdef size_t kept = 0, at, count = self.end - self.start
        cdef void *grown
        if self.end == self.capacity:
            if not self.walks and self.holes * 2 > count:
                for at in range(self.start, self.end):
                    if self.entries[at].queue != NULL:
                        self.entries[kept] = self.entries[at]
                        kept += 1
                self.start, self.end, self.holes = 0, kept, 0
            elif not self.walks and self.start * 2 > self.capacity:
                memmove(self.entries, self.entries + self.start, count * sizeof(UnackedDelivery))
                self.start, self.end = 0, count
            else:
                grown = realloc(self.entries, max(16, self.capacity * 2) * sizeof(UnackedDelivery))
                if grown == NULL:
                    raise MemoryError("no memory for unsettled deliveries")
                self.entries = <UnackedDelivery *> grown
                self.capacity = max(16, self.capacity * 2)
        fill(&self.entries[self.end], tag, seq, queue, consumer, since_ms)
        self.end += 1
        return 0

    cdef int put_back(self, list taken) except -1:
        """Add deliveries again that were taken out; in the order of their tags.

        Args:
            taken: (tag, queue, seq, consumer, since_ms) of each.
        """
        cdef size_t at, end, kept = 0
        cdef UnackedDelivery *merged
        cdef list gone = []
        for each in taken:
            tag, queue, seq, consumer, since_ms = each
            at = self.above(<uint64_t> tag - 1)
            if at < self.end and self.entries[at].tag == <uint64_t> tag:
                fill(&self.entries[at], tag, seq, queue, consumer, since_ms)
                self.holes -= 1
            else:
                gone.append(each)
        if not gone:
            return 0
        # Their holes were removed: the rest is moved once, however many come between.
        at, end = self.start, self.end
        merged = <UnackedDelivery *> malloc((end - at + len(gone)) * sizeof(UnackedDelivery))
        if merged == NULL:
            raise MemoryError("no memory for unsettled deliveries")
        for tag, queue, seq, consumer, since_ms in gone:
            while at < end and self.entries[at].tag < <uint64_t> tag:
                merged[kept] = self.entries[at]
                kept += 1
                at += 1
            fill(&merged[kept], tag, seq, queue, consumer, since_ms)
            kept += 1
        memcpy(merged + kept, self.entries + at, (end - at) * sizeof(UnackedDelivery))
        free(self.entries)
        self.entries = merged
        self.start, self.end = 0, kept + end - at
        self.capacity = self.end
        return 0

    cdef ssize_t find(self, uint64_t tag) noexcept:
        """The index of the unsettled delivery with a tag; -1: there is none."""
        cdef size_t low = self.start, high = self.end, middle
        if low == high or tag < self.entries[low].tag:
            return -1
        if tag - self.entries[low].tag < high - low:
            middle = low + <size_t> (tag - self.entries[low].tag)
            if self.entries[middle].tag == tag:
                return <ssize_t> middle if self.entries[middle].queue != NULL else -1
        low = self.above(tag - 1)
        if low < self.end and self.entries[low].tag == tag:
            return <ssize_t> low if self.entries[low].queue != NULL else -1
        return -1

    cdef ssize_t upto(self, uint64_t tag):
        """The index of the last delivery up to a tag, settled or not; -1: there is none."""
        cdef size_t low = self.above(tag)
        return <ssize_t> low - 1 if low > self.start else -1

    cdef size_t above(self, uint64_t tag) noexcept:
        """The index of the first delivery with a higher tag, settled or not."""
        cdef size_t low = self.start, high = self.end, middle
        while low < high:
            middle = (low + high) // 2
            if self.entries[middle].tag <= tag:
                low = middle + 1
            else:
                high = middle
        return low

    cdef UnackedDelivery take(self, size_t at) noexcept:
        """Take an entry out, leaving a hole; the caller owns the entry's references."""
        cdef UnackedDelivery taken = self.entries[at]
        self.entries[at].queue = NULL
        self.entries[at].consumer = NULL
        self.holes += 1
        return taken

    cdef void trim(self) noexcept:
        """Remove the holes before the oldest unsettled delivery."""
        while self.start < self.end and self.entries[self.start].queue == NULL:
            self.start += 1
            self.holes -= 1
        if self.start == self.end:
            self.start = self.end = 0


cdef class LateAcks:
    """Deliveries that were requeued without the client's doing; settling one late, once, is no
    fault.

    The memory of them is bounded; beyond, more late acks are tolerated than there can be.
    """

    cdef int add(self, uint64_t tag) except -1:
        """A delivery was requeued."""
        if self.tags is None:
            self.tags = {}
        self.tags[tag] = None
        if len(self.tags) > LATE_ACKS_MAX:
            oldest = next(iter(self.tags))
            del self.tags[oldest]
            self.upto = max(self.upto, <uint64_t> oldest)
        return 0

    cdef bint has(self, uint64_t tag) except -1:
        """Whether a delivery that is being settled was requeued before."""
        if self.tags is None:
            return False
        if tag not in self.tags:
            return 0 < tag <= self.upto
        del self.tags[tag]
        return True
