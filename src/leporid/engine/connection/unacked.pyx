"""The unacked deliveries of a channel, by delivery tag.

Responsible for finding them. It must not know what settling does. Entries are in order of their
tags. A settled one leaves a hole. Once most entries are holes and room is short, the others are
moved past the holes, some with each that is added, so that one old delivery does not keep the
memory of all later ones. Meanwhile there is a gap: entries that were moved, the gap, and those that
were not yet. Nothing moves during a loop by index, as its body may cause deliveries.

Invariants: outside the gap tags rise; an entry with a queue is unsettled, and none is in the gap;
`start` is an entry outside it, or the end; what one call does is bounded, but for `put_back`.
"""

from libc.stdint cimport uint64_t
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF

from leporid.engine.bounds.large_memory cimport free_array, grow_array

cdef enum:
    # Remembered exactly; of older tags, all count as requeued.
    LATE_ACKS_MAX = 4096
    # Entries looked at with each that is added: the last ones are moved before an eighth of the
    # room, which is left when it begins, is used up.
    MOVED_AN_ADD = 16
    # Holes that are removed from the beginning in one call: some 0.1 ms.
    TRIMMED_MAX = 16384


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
        free_array(self.entries, self.capacity * sizeof(UnackedDelivery))

    cdef void forget(self):
        """Drop the references of all entries."""
        cdef size_t at
        for at in range(self.start, self.start if self.is_empty() else self.end):
            if self.entries[at].queue != NULL:
                Py_DECREF(<object> self.entries[at].queue)
                if self.entries[at].consumer != NULL:
                    Py_DECREF(<object> self.entries[at].consumer)
        self.start = self.end = self.holes = 0
        self.moving = False

    cdef int add(self, uint64_t tag, uint64_t seq, object queue, object consumer,
                 uint64_t since_ms) except -1:
        """Add a delivery whose tag is the highest so far."""
        cdef void *grown
        if not self.walks:
            if self.moving:
                self.move_some()
            elif self.end >= self.capacity - self.capacity // 8 and (
                    (self.start + self.holes) * 2 > self.end):
                self.moving, self.moved, self.source = True, 0, self.start
                self.move_some()
        if self.end == self.capacity:
            grown = grow_array(self.entries, self.capacity * sizeof(UnackedDelivery),
                               max(16, self.capacity * 2) * sizeof(UnackedDelivery))
            if grown == NULL:
                raise MemoryError("no memory for unsettled deliveries")
            self.entries = <UnackedDelivery *> grown
            self.capacity = max(16, self.capacity * 2)
        fill(&self.entries[self.end], tag, seq, queue, consumer, since_ms)
        self.end += 1
        return 0

    cdef void move_some(self) noexcept:
        """Go on with moving entries to the beginning; the last one closes the gap."""
        cdef size_t until = min(self.source + MOVED_AN_ADD, self.end)
        cdef UnackedDelivery *entry
        while self.source < until:
            entry = &self.entries[self.source]
            if entry.queue == NULL:
                self.holes -= 1
            else:
                if self.moved < self.source:
                    self.entries[self.moved] = entry[0]
                    entry.queue = entry.consumer = NULL
                if not self.moved:
                    self.start = 0
                self.moved += 1
            self.source += 1
        if not self.moved:
            self.start = self.source
        if self.source == self.end:
            self.end = self.moved
            self.moving = False
            if not self.moved:
                self.start = 0

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
        # Their holes were removed: the rest is copied once, however many come between.
        at, end = self.start, self.end
        merged = <UnackedDelivery *> grow_array(
            NULL, 0, (self.between(at, end) - self.holes + len(gone)) * sizeof(UnackedDelivery))
        if merged == NULL:
            raise MemoryError("no memory for unsettled deliveries")
        for tag, queue, seq, consumer, since_ms in gone:
            while at < end and self.entries[at].tag < <uint64_t> tag:
                if self.entries[at].queue != NULL:
                    merged[kept] = self.entries[at]
                    kept += 1
                at = self.after(at)
            fill(&merged[kept], tag, seq, queue, consumer, since_ms)
            kept += 1
        while at < end:
            if self.entries[at].queue != NULL:
                merged[kept] = self.entries[at]
                kept += 1
            at = self.after(at)
        free_array(self.entries, self.capacity * sizeof(UnackedDelivery))
        self.entries, self.moving = merged, False
        self.start, self.end, self.holes, self.capacity = 0, kept, 0, kept
        return 0

    cdef ssize_t find(self, uint64_t tag) noexcept:
        """The index of the unsettled delivery with a tag; -1: there is none."""
        cdef size_t low = self.start, high = self.end, middle
        if low == high or tag < self.entries[low].tag:
            return -1
        if tag - self.entries[low].tag < high - low:
            middle = low + <size_t> (tag - self.entries[low].tag)
            if self.entries[middle].tag == tag and not (
                    self.moving and self.moved <= middle < self.source):
                return <ssize_t> middle if self.entries[middle].queue != NULL else -1
        low = self.above(tag - 1)
        if low < self.end and self.entries[low].tag == tag:
            return <ssize_t> low if self.entries[low].queue != NULL else -1
        return -1

    cdef ssize_t upto(self, uint64_t tag):
        """The index of the last delivery up to a tag, settled or not; -1: there is none."""
        cdef size_t above = self.above(tag)
        if above <= self.start:
            return -1
        return <ssize_t> (self.moved if self.moving and above == self.source else above) - 1

    cdef size_t above(self, uint64_t tag) noexcept:
        """The index of the first delivery with a higher tag, settled or not."""
        cdef size_t low = self.start, high = self.end, middle
        if self.moving and self.moved:
            if self.entries[self.source].tag <= tag:
                low = self.source
            else:
                high = self.moved
        while low < high:
            middle = (low + high) // 2
            if self.entries[middle].tag <= tag:
                low = middle + 1
            else:
                high = middle
        return self.source if self.moving and low == self.moved else low

    cdef size_t after(self, size_t at) noexcept:
        """The index that comes after another one in a loop, which may be the end."""
        return self.source if self.moving and at + 1 == self.moved else at + 1

    cdef size_t between(self, size_t first, size_t last) noexcept:
        """How many entries there are from one index to before another one."""
        if self.moving and first < self.source <= last:
            return last - first - (self.source - self.moved)
        return last - first

    cdef bint is_empty(self) noexcept:
        """Whether there is no unsettled delivery."""
        return self.between(self.start, self.end) == self.holes

    cdef UnackedDelivery take(self, size_t at) noexcept:
        """Take an entry out, leaving a hole; the caller owns the entry's references."""
        cdef UnackedDelivery taken = self.entries[at]
        self.entries[at].queue = NULL
        self.entries[at].consumer = NULL
        self.holes += 1
        return taken

    cdef bint trim(self) noexcept:
        """Remove holes before the oldest unsettled delivery; returns whether some are left."""
        cdef size_t left = TRIMMED_MAX
        while self.start < self.end and self.entries[self.start].queue == NULL:
            if not left:
                return True
            left -= 1
            self.start = self.after(self.start)
            self.holes -= 1
            if self.moving and self.start >= self.source:
                self.moved, self.source = 0, self.start     # what was moved is settled
        if self.start == self.end:
            self.start = self.end = 0
            self.moving = False
        return False


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
