"""Browsing a queue, which does not change it.

Responsible for which entries are shown, in which order, for keeping the bytes of their records
where they are while a thread reads them, and for copies of the ready messages. It must not take or
mark entries, nor know HTTP, Arrow or what copies are for.

Invariants: entries that came after the browse began are not shown, and none is shown twice, since
it goes through priorities, and through the sequence numbers of each, in one direction; an open
window counts as one entry of each segment that it shows records of, so that none of them is
dropped, reused, mapped or compacted.
"""

from libc.stdint cimport UINT64_MAX, uint32_t, uint64_t
from libc.stdlib cimport malloc, realloc

from leporid.engine.log.log cimport DURABLE_BIT, Log, Segment, is_mostly_dead
from leporid.engine.log.logs cimport Logs
from leporid.engine.log.window cimport Entry, Window
from leporid.engine.queue.index cimport BLOCK_SLOTS, READY, UNACKED, Block, Slot
from leporid.engine.queue.queue cimport Queue
from leporid.engine.queue.sequence_heap cimport SequenceHeap
from leporid.engine.wire.record cimport (
    Message, body_bytes, exchange_name, message_in, properties_bytes, routing_key,
)

cdef enum:
    # Looked at for one window: a millisecond. A queue may have many slots with nothing to show.
    SLOTS_MAX = 256 * 1024
    ROWS_FIRST = 16


cdef Segment segment_at(Logs logs, uint64_t upper):
    cdef Log log = logs.durable if upper & DURABLE_BIT else logs.transient
    return log.find(<uint32_t> upper & ~<uint32_t> DURABLE_BIT)


cdef class QueueWindow(Window):
    """Some messages of a queue; made by `Browse.window` and `Lease.window`."""

    def __cinit__(self, *_):
        self.pinned = set()
        # Allocated even for no rows: `entries` tells it from the window of a stream.
        self.room = ROWS_FIRST
        self.entries = <Entry *> malloc(self.room * sizeof(Entry))
        if self.entries == NULL:
            raise MemoryError("no memory for a window of a queue")

    def __repr__(self):
        return f"<QueueWindow of {self.rows} messages>"

    cdef bint take(self, uint64_t seq, const Slot *slot, bint redelivered,
                   uint64_t bytes_max) except -1:
        """Add a message; returns False if it does not fit any more."""
        cdef Entry *entry
        cdef void *grown
        cdef uint64_t position = slot.position
        cdef uint32_t size = self.logs.record(position).size
        if self.rows and self.bytes + size > bytes_max:
            return False
        if self.rows == self.room:
            grown = realloc(self.entries, self.room * 2 * sizeof(Entry))
            if grown == NULL:
                raise MemoryError("no memory for a window of a queue")
            self.entries = <Entry *> grown
            self.room *= 2
        if position >> 32 != self.newest:
            self.pin(position >> 32)
        entry = &self.entries[self.rows]
        entry.record = self.logs.record(position)
        entry.seq = seq
        entry.redelivered = redelivered
        entry.unacked = slot.state == UNACKED
        self.rows += 1
        self.bytes += size
        return True

    cdef int pin(self, uint64_t upper) except -1:
        cdef Segment segment
        self.newest = upper
        if upper in self.pinned:
            return 0
        self.pinned.add(upper)
        segment = segment_at(self.logs, upper)
        segment.readers += 1
        segment.live += 1
        return 0

    def close(self):
        """Release the bytes; on the broker's thread, when no thread reads them any more."""
        cdef uint64_t upper
        cdef Segment segment
        pinned, self.pinned = self.pinned, set()
        for upper in pinned:
            segment = segment_at(self.logs, upper)
            segment.readers -= 1
            self.logs.release(upper << 32, 0)
            if upper & DURABLE_BIT and is_mostly_dead(segment):
                # Cleaning follows a sync, and may have passed over this segment.
                self.logs.dirty = True
        self.rows = 0


cdef class Browse:
    """One pass through a queue, from a sequence number on.

    Args:
        queue: the queue.
        first: older entries are left out.
        unacked: whether to show unacked entries, too.
        by_arrival: show them in the order in which they came, whatever their priorities: then `at`
            says where another browse goes on.
    """

    def __cinit__(self, Queue queue not None, uint64_t first=0, bint unacked=False,
                  bint by_arrival=False):
        self.queue = queue
        self.first = self.at = first
        self.end = queue.next_seq
        self.unacked = unacked
        self.by_arrival = by_arrival
        self.priority = 0 if by_arrival else queue.max_priority

    def __repr__(self):
        return f"<Browse of {self.queue.name!r} at={self.at} end={self.end}>"

    def window(self, uint32_t rows_max, uint64_t bytes_max):
        """The next messages in order of delivery; an empty window is not the end: see `done`."""
        cdef QueueWindow window = QueueWindow()
        cdef Block *block
        cdef const Slot *slot
        cdef uint64_t stop
        cdef uint32_t looked = 0
        window.logs = self.queue.logs
        while not self.done and looked < SLOTS_MAX:
            looked += BLOCK_SLOTS
            block = self.queue.index.block_from(self.at // BLOCK_SLOTS)
            if self.at >= self.end or block == NULL or block.number * BLOCK_SLOTS >= self.end:
                self.next_priority()
                continue
            self.at = max(self.at, block.number * BLOCK_SLOTS)
            stop = min(self.end, (block.number + 1) * BLOCK_SLOTS)
            while self.at < stop:
                slot = &block.slots[self.at % BLOCK_SLOTS]
                if self.shows(slot) and (window.rows == rows_max or not window.take(
                        self.at, slot, slot.deliveries > (slot.state == UNACKED), bytes_max)):
                    return window
                self.at += 1
        return window

    cdef bint shows(self, const Slot *slot):
        if slot.state != READY and not (self.unacked and slot.state == UNACKED):
            return False
        return self.queue.lanes is None or self.by_arrival or slot.priority == self.priority

    cdef int next_priority(self) except -1:
        """Go on with the next lower priority that may have entries; without one it is done."""
        self.at = self.first
        self.priority -= 1
        if not self.unacked:
            while self.priority >= 0 and not (<SequenceHeap> self.queue.lanes[self.priority]).count:
                self.priority -= 1
        self.done = self.priority < 0
        return 0


def snapshot(Queue queue not None):
    """Ready messages in order of arrival, one by one: (exchange, routing key, properties, body).

    Those that were ready when the first was taken; they stay where they are until the last was.
    """
    cdef QueueWindow window = QueueWindow()
    cdef Block *block = queue.index.block_from(0)
    cdef Message message
    cdef uint32_t at
    window.logs = queue.logs
    try:
        while block != NULL:
            for at in range(BLOCK_SLOTS):
                if block.slots[at].state == READY:
                    window.take(block.number * BLOCK_SLOTS + at, &block.slots[at], False,
                                UINT64_MAX)
            block = queue.index.block_from(block.number + 1)
        for at in range(window.rows):
            message = message_in(window.entries[at].record)
            yield (exchange_name(&message), routing_key(&message),
                   properties_bytes(&message), body_bytes(&message))
    finally:
        window.close()
