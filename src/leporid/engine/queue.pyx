"""A queue: an index of entries in order of arrival, and the ring of consumers it feeds.

Responsible for the order of messages and for who gets the next one. It does not know frames,
channels, exchanges or files; an entry refers to a record by its position in a log.

Every entry has a sequence number, dense within the queue, that it keeps until it is settled; a
requeued entry therefore goes back to its original place. Entries lie in blocks of 256, and a block
is freed when all of its entries are gone.

Invariants: entries from `head_seq` on were never delivered; entries before it that are READY
stand in the heap `returned`; ready_count and unacked_count equal the number of slots in that state.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, qsort, realloc
from libc.string cimport memmove, memset

from leporid.engine.log cimport DURABLE_BIT
from leporid.engine.plane cimport Plane
from leporid.engine.wire cimport (
    TTL_SET, Props, Range, Record, Target, parse_ttl, walk_properties,
)

# Blocks kept for the next queue that grows; 64 of 6 KiB.
cdef enum:
    FREE_BLOCKS_MAX = 64


cdef int compare_ranges(const void *a, const void *b) noexcept nogil:
    cdef const Range *left = <const Range *> a
    cdef const Range *right = <const Range *> b
    if left.segment != right.segment:
        return 1 if left.segment > right.segment else -1
    if left.first == right.first:
        return 0
    return 1 if left.first > right.first else -1


cdef uint32_t merge_ranges(Range *ranges, uint32_t count) noexcept nogil:
    """Sort by place and join neighbours; returns how many are left."""
    cdef uint32_t kept = 0, i
    qsort(ranges, count, sizeof(Range), compare_ranges)
    for i in range(1, count):
        if (ranges[i].segment == ranges[kept].segment
                and ranges[i].first == ranges[kept].first + ranges[kept].count):
            ranges[kept].count += ranges[i].count
        else:
            kept += 1
            ranges[kept] = ranges[i]
    return kept + 1 if count else 0


cdef class Taker:
    """Somebody who takes entries from a queue: a consumer."""

    cdef bint can_take(self):
        return False

    cdef int take(self, uint64_t seq, Slot *slot) except -1:
        raise NotImplementedError

    cdef int resume(self) except -1:
        """What kept it from taking may be over."""
        raise NotImplementedError


cdef class Level:
    """The consumers of one priority that may take, as a ring; `head` takes next."""


cdef class Queue:
    """One queue's entries; made by `Plane.queue`."""

    def __cinit__(self, Plane plane, uint32_t queue_id, str name, bint durable):
        self.plane = plane
        self.id = queue_id
        self.name = name
        self.durable = durable
        self.levels = []

    def __dealloc__(self):
        cdef size_t i
        for i in range(self.place_start, self.place_end):
            free(self.places[i].block)
        free(self.places)
        free(self.returned)
        free(self.ranges)

    def __repr__(self):
        return (f"<Queue {self.name!r} ready={self.ready_count} unacked={self.unacked_count} "
                f"consumers={self.consumer_count}>")

    # ------------------------------------------------------------- blocks

    cdef Block *block_of(self, uint64_t seq):
        cdef uint64_t number = seq // BLOCK_SLOTS, guess
        cdef size_t low = self.place_start, high = self.place_end, middle
        if self.tail != NULL and self.tail.number == number:
            return self.tail
        if low == high or number < self.places[low].number:
            return NULL
        guess = number - self.places[low].number
        if guess < high - low and self.places[low + guess].number == number:
            return self.places[low + guess].block
        while low < high:
            middle = (low + high) // 2
            if self.places[middle].number < number:
                low = middle + 1
            else:
                high = middle
        if low < self.place_end and self.places[low].number == number:
            return self.places[low].block
        return NULL

    cdef Slot *slot_of(self, uint64_t seq):
        cdef Block *block = self.block_of(seq)
        if block == NULL:
            return NULL
        return &block.slots[seq % BLOCK_SLOTS]

    cdef Block *new_tail(self, uint64_t number) except NULL:
        cdef Block *previous = self.tail
        self.tail = self.insert_block(number)
        if previous != NULL and previous.live == 0:
            self.free_block(previous)
        return self.tail

    cdef Block *insert_block(self, uint64_t number) except NULL:
        cdef Block *block
        cdef size_t at, count, kept
        cdef Place *grown
        if self.plane.free_blocks != NULL:
            block = <Block *> self.plane.free_blocks
            self.plane.free_blocks = (<void **> block)[0]
            self.plane.free_block_count -= 1
        else:
            block = <Block *> malloc(sizeof(Block))
            if block == NULL:
                raise MemoryError("no memory for a block of a queue's index")
        memset(block, 0, sizeof(Block))
        block.number = number
        if self.place_end == self.place_capacity:
            count = self.place_end - self.place_start
            if self.place_holes * 2 > count:
                kept = 0
                for at in range(self.place_start, self.place_end):
                    if self.places[at].block != NULL:
                        self.places[kept] = self.places[at]
                        kept += 1
                self.place_start, self.place_end, self.place_holes = 0, kept, 0
            elif self.place_start * 2 > self.place_capacity:
                memmove(self.places, self.places + self.place_start, count * sizeof(Place))
                self.place_start, self.place_end = 0, count
            else:
                grown = <Place *> realloc(
                    self.places, max(8, self.place_capacity * 2) * sizeof(Place))
                if grown == NULL:
                    free(block)
                    raise MemoryError("no memory for a queue's index")
                self.places = grown
                self.place_capacity = max(8, self.place_capacity * 2)
        at = self.place_end
        while at > self.place_start and self.places[at - 1].number > number:
            at -= 1
        if at > self.place_start and self.places[at - 1].number == number:
            self.places[at - 1].block = block  # only replay comes back to a freed block
            self.place_holes -= 1
            return block
        memmove(self.places + at + 1, self.places + at, (self.place_end - at) * sizeof(Place))
        self.places[at].number = number
        self.places[at].block = block
        self.place_end += 1
        return block

    cdef int free_block(self, Block *block) except -1:
        cdef size_t low = self.place_start, high = self.place_end, middle
        while low < high:
            middle = (low + high) // 2
            if self.places[middle].number < block.number:
                low = middle + 1
            else:
                high = middle
        while low < self.place_end and self.places[low].block != block:
            low += 1
        self.places[low].block = NULL
        self.place_holes += 1
        while self.place_start < self.place_end and self.places[self.place_start].block == NULL:
            self.place_start += 1
            self.place_holes -= 1
        if self.place_start == self.place_end:
            self.place_start = self.place_end = 0
        if self.tail == block:
            self.tail = NULL
        if self.plane.free_block_count < FREE_BLOCKS_MAX:
            (<void **> block)[0] = self.plane.free_blocks
            self.plane.free_blocks = block
            self.plane.free_block_count += 1
        else:
            free(block)
        return 0

    # ------------------------------------------------------------- entries

    cdef int push(self, uint64_t position, uint32_t body_len) except -1:
        """Append an entry; the caller counts it on the record's segment."""
        cdef uint64_t seq = self.next_seq
        cdef Block *block = self.tail
        cdef Slot *slot
        if block == NULL or block.number != seq // BLOCK_SLOTS:
            block = self.new_tail(seq // BLOCK_SLOTS)
        self.next_seq += 1
        block.live += 1
        slot = &block.slots[seq % BLOCK_SLOTS]
        slot.position = position
        slot.expires_at_ms = 0
        slot.tag_hash = 0
        slot.deliveries = 0
        slot.state = READY
        slot.flags = 0
        self.ready_count += 1
        self.ready_bytes += body_len
        self.published += 1
        if not self.hungry and self.consumer_count:
            self.wake()
        return 0

    cdef void wake(self):
        """Have the plane look whether somebody can take."""
        if not self.hungry and self.ready_count:
            self.hungry = True
            self.plane.hungry.append(self)

    cdef Slot *pop(self, uint64_t *seq):
        """The next ready entry, now UNACKED; NULL when there is none."""
        cdef Slot *slot
        cdef Block *block
        cdef uint64_t *heap = self.returned
        cdef uint64_t last
        cdef size_t at, child, count
        while self.returned_count:
            seq[0] = heap[0]
            self.returned_count -= 1
            count = self.returned_count
            last = heap[count]
            at = 0
            while True:
                child = 2 * at + 1
                if child >= count:
                    break
                if child + 1 < count and heap[child + 1] < heap[child]:
                    child += 1
                if heap[child] >= last:
                    break
                heap[at] = heap[child]
                at = child
            heap[at] = last
            slot = self.slot_of(seq[0])
            if slot != NULL and slot.state == READY:
                break
        else:
            slot = NULL
            while self.head_seq < self.next_seq:
                block = self.block_of(self.head_seq)
                if block == NULL:
                    self.head_seq = (self.head_seq // BLOCK_SLOTS + 1) * BLOCK_SLOTS
                    continue
                seq[0] = self.head_seq
                self.head_seq += 1
                if block.slots[seq[0] % BLOCK_SLOTS].state == READY:
                    slot = &block.slots[seq[0] % BLOCK_SLOTS]
                    break
            if slot == NULL:
                return NULL
        slot.state = UNACKED
        self.ready_count -= 1
        self.unacked_count += 1
        self.ready_bytes -= self.plane.record(slot.position).body_len
        return slot

    cdef int settle(self, uint64_t seq, Slot *slot) except -1:
        """An entry is done with: forget it, and say so in the log if it was durable."""
        cdef Block *block = self.block_of(seq)
        cdef uint64_t position = slot.position
        if slot.state == UNACKED:
            self.unacked_count -= 1
        else:
            self.ready_count -= 1
            self.ready_bytes -= self.plane.record(position).body_len
        slot.state = GONE
        if slot.expires_at_ms:
            self.plane.timed_count -= 1
        if self.durable and position >> 63:
            self.note_settled(position, seq)
        self.plane.release(position)
        block.live -= 1
        if block.live == 0 and block != self.tail:
            self.free_block(block)
        return 0

    cdef int set_ttl(self, uint64_t seq, uint64_t ttl_ms) except -1:
        """The entry expires that much later; 0: unless it is delivered in this turn."""
        cdef Slot *slot = self.slot_of(seq)
        self.plane.timed_count += 1
        slot.expires_at_ms = self.plane.now_ms + ttl_ms
        if ttl_ms:
            self.plane.timers.push(slot.expires_at_ms, self.id, seq)
        else:
            self.plane.momentary.append((self, seq))
        return 0

    cdef int expire(self, uint64_t seq) except -1:
        """Drop an entry if it is ready and its time is over; returns whether it was dropped."""
        cdef Slot *slot = self.slot_of(seq)
        if slot == NULL or slot.state != READY or not slot.expires_at_ms:
            return 0
        if slot.expires_at_ms > self.plane.now_ms:
            return 0
        self.settle(seq, slot)
        return 1

    cdef int note_settled(self, uint64_t position, uint64_t seq) except -1:
        cdef uint32_t segment = <uint32_t> (position >> 32) & ~<uint32_t> DURABLE_BIT
        cdef Range *last
        cdef void *grown
        if self.range_count:
            last = &self.ranges[self.range_count - 1]
            if last.segment == segment and last.first + last.count == seq:
                last.count += 1
                return 0
        if self.range_count == self.range_capacity:
            self.range_capacity = max(4, self.range_capacity * 2)
            grown = realloc(self.ranges, self.range_capacity * sizeof(Range))
            if grown == NULL:
                raise MemoryError("no memory to note settled messages")
            self.ranges = <Range *> grown
        last = &self.ranges[self.range_count]
        last.segment, last.first, last.count = segment, seq, 1
        self.range_count += 1
        if not self.settling:
            self.settling = True
            self.plane.settling.append(self)
        return 0

    cdef int requeue(self, uint64_t seq, Slot *slot) except -1:
        """Put an unacked entry back to where it was, marked as redelivered."""
        cdef size_t at, parent
        cdef void *grown
        if self.returned_count == self.returned_capacity:
            self.returned_capacity = max(16, self.returned_capacity * 2)
            grown = realloc(self.returned, self.returned_capacity * sizeof(uint64_t))
            if grown == NULL:
                raise MemoryError("no memory to requeue a message")
            self.returned = <uint64_t *> grown
        at = self.returned_count
        self.returned_count += 1
        while at:
            parent = (at - 1) // 2
            if self.returned[parent] <= seq:
                break
            self.returned[at] = self.returned[parent]
            at = parent
        self.returned[at] = seq
        slot.state = READY
        slot.flags |= REDELIVERED
        self.unacked_count -= 1
        self.ready_count += 1
        self.ready_bytes += self.plane.record(slot.position).body_len
        self.plane.requeued += 1
        if slot.expires_at_ms:
            self.plane.timers.push(slot.expires_at_ms, self.id, seq)
        self.wake()
        return 0

    cdef int drop_all(self, uint8_t state) except -1:
        """Settle every entry that is in that state."""
        cdef size_t i
        cdef uint32_t s
        cdef Block *block
        cdef uint64_t number
        i = self.place_start
        while i < self.place_end:
            block = self.places[i].block
            if block != NULL:
                number = block.number
                for s in range(BLOCK_SLOTS):
                    if block.slots[s].state == state:
                        # The last entry of a block frees it, so it is not looked at again.
                        if block.live == 1:
                            self.settle(number * BLOCK_SLOTS + s, &block.slots[s])
                            break
                        self.settle(number * BLOCK_SLOTS + s, &block.slots[s])
                if self.place_start == self.place_end:
                    break
            i = max(i + 1, self.place_start)
        return 0

    def purge(self):
        """Drop every ready message; returns how many there were."""
        cdef uint64_t count = self.ready_count
        self.drop_all(READY)
        self.returned_count = 0
        self.head_seq = self.next_seq
        return count

    def retire(self):
        """The queue was deleted: drop every entry; returns how many were ready.

        Unsettled deliveries are forgotten: settling one later does nothing.
        """
        cdef uint64_t count = self.purge()
        self.drop_all(UNACKED)
        self.retired = True
        self.plane.queues.pop(self.id, None)
        # Facts about a queue that is gone from the definitions need not be kept.
        self.range_count = 0
        return count

    # ------------------------------------------------------------- consumers

    cdef int attach(self, Taker taker) except -1:
        self.consumer_count += 1
        self.enter_ring(taker)
        self.wake()
        return 0

    cdef int detach(self, Taker taker) except -1:
        self.consumer_count -= 1
        self.leave_ring(taker)
        return 0

    cdef int enter_ring(self, Taker taker) except -1:
        """The taker may be able to take again; it stands last of its priority."""
        cdef Level level
        cdef Py_ssize_t at = 0
        if taker.level is not None:
            return 0
        for level in self.levels:
            if level.priority <= taker.priority:
                break
            at += 1
        else:
            level = None
        if level is None or level.priority != taker.priority:
            level = Level()
            level.priority = taker.priority
            self.levels.insert(at, level)
        taker.level = level
        if level.head is None:
            level.head = taker.next = taker.previous = taker
        else:
            taker.next = level.head
            taker.previous = level.head.previous
            taker.previous.next = taker
            level.head.previous = taker
        self.wake()
        return 0

    cdef int leave_ring(self, Taker taker) except -1:
        cdef Level level = taker.level
        if level is None:
            return 0
        if taker.next is taker:
            level.head = None
            self.levels.remove(level)
        else:
            taker.previous.next = taker.next
            taker.next.previous = taker.previous
            if level.head is taker:
                level.head = taker.next
        taker.next = taker.previous = None
        taker.level = None
        return 0

    cdef int deliver(self) except -1:
        """Give ready entries to takers, one each in turn, until either runs out.

        Consumers of a lower priority get what those above cannot take (RabbitMQ, consumer
        priorities).
        """
        cdef Level level
        cdef Taker taker
        cdef Slot *slot
        cdef uint64_t seq
        while self.ready_count and self.levels:
            level = <Level> self.levels[0]
            taker = level.head
            if not taker.can_take():
                self.leave_ring(taker)
                continue
            level.head = taker.next
            slot = self.pop(&seq)
            if slot == NULL:
                return 0
            self.delivered += 1
            taker.take(seq, slot)
        return 0

    # ------------------------------------------------------------- replay

    cdef int apply_publish(self, uint64_t seq, uint64_t position) except -1:
        cdef Block *block = self.block_of(seq)
        cdef Slot *slot
        if block == NULL:
            block = self.insert_block(seq // BLOCK_SLOTS)
        slot = &block.slots[seq % BLOCK_SLOTS]
        if slot.state == GONE:
            block.live += 1
        else:
            self.plane.release(slot.position)
        slot.position = position
        slot.state = READY
        self.plane.durable.hold(position, 1)
        self.next_seq = max(self.next_seq, seq + 1)
        return 0

    cdef int apply_settle(self, Range *settled) except -1:
        cdef uint64_t seq
        cdef Block *block
        cdef Slot *slot
        self.next_seq = max(self.next_seq, settled.first + settled.count)
        for seq in range(settled.first, settled.first + settled.count):
            block = self.block_of(seq)
            if block == NULL:
                continue
            slot = &block.slots[seq % BLOCK_SLOTS]
            if slot.state == GONE:
                continue
            if (<uint32_t> (slot.position >> 32) & ~<uint32_t> DURABLE_BIT) != settled.segment:
                continue
            slot.state = GONE
            self.plane.release(slot.position)
            block.live -= 1
            if block.live == 0:
                self.free_block(block)
        return 0

    cdef int restore_ttl(self, uint64_t seq, uint64_t position) except -1:
        """What is left of its time to live; wall time counted while nobody ran."""
        cdef Record *record = self.plane.record(position)
        cdef const uint8_t *properties = (<const uint8_t *> record + sizeof(Record)
                                          + record.targets * sizeof(Target) + record.names_len)
        cdef Props props
        cdef uint64_t ttl_ms, over_ms
        if walk_properties(properties, record.properties_len, &props):
            return 0
        if parse_ttl(&props, &ttl_ms) != TTL_SET:
            return 0
        over_ms = record.timestamp_ms + ttl_ms
        ttl_ms = over_ms - self.plane.wall_ms if over_ms > self.plane.wall_ms else 0
        return self.set_ttl(seq, ttl_ms)

    cdef int finish_restore(self, bint redelivered) except -1:
        """All facts were applied: count what is ready."""
        cdef size_t i
        cdef uint32_t s
        cdef Block *block
        for i in range(self.place_start, self.place_end):
            block = self.places[i].block
            if block == NULL:
                continue
            for s in range(BLOCK_SLOTS):
                if block.slots[s].state == READY:
                    self.ready_count += 1
                    self.ready_bytes += self.plane.record(block.slots[s].position).body_len
                    if redelivered:
                        block.slots[s].flags |= REDELIVERED
                    self.restore_ttl(block.number * BLOCK_SLOTS + s, block.slots[s].position)
        if self.place_start < self.place_end:
            self.head_seq = self.places[self.place_start].number * BLOCK_SLOTS
            if self.places[self.place_end - 1].number == self.next_seq // BLOCK_SLOTS:
                self.tail = self.places[self.place_end - 1].block
        else:
            self.head_seq = self.next_seq
        return 0
