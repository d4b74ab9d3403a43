"""Facts about entries in the durable log: what was settled, and what an orderly stop leaves.

Responsible for turning what queues noted into records. It does not decide what is settled.
Invariant: a fact about entries of another segment pins that segment's number in this one.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc, qsort
from libc.string cimport memcpy, memset

from leporid.engine.queue.index cimport BLOCK_SLOTS, GONE, Block, Slot
from leporid.engine.log.log cimport (
    COMMIT_REPLACES, DURABLE_BIT, FLAG_IN_TX, KIND_CLEAN, KIND_COMMIT, KIND_DELIVERED, KIND_SETTLE,
    Segment,
)
from leporid.engine.plane cimport Plane
from leporid.engine.queue.queue cimport Queue
from leporid.engine.wire.wire cimport (
    RANGE_COUNT_BITS, RANGE_COUNT_MAX, Range, Record, Target,
)

cdef enum:
    RANGES_MAX = 4096               # in one SETTLE record

# What the end of an entry and the COMMIT after it take.
cdef size_t LETTER_ROOM = 2 * (sizeof(Record) + 8) + sizeof(Range)


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


cdef int flush_settles(Plane plane, uint8_t flags) except -1:
    """Append what was settled since the last time."""
    cdef Queue queue
    cdef uint32_t count, at = 0
    settling, plane.settling = plane.settling, []
    for queue in settling:
        queue.settling = False
        count = merge_ranges(queue.ranges, queue.range_count)
        queue.range_count = 0
        if queue.retired:
            continue
        at = 0
        while at < count:
            append_ranges(plane, KIND_SETTLE, flags, queue.id, queue.ranges + at,
                          min(count - at, RANGES_MAX))
            at += RANGES_MAX
    return 0


cdef int append_ranges(Plane plane, uint8_t kind, uint8_t flags, uint32_t queue, Range *ranges,
                       uint32_t count) except -1:
    """A fact about entries of one queue: queue id, number of ranges, the ranges."""
    cdef size_t body = 8 + count * sizeof(Range)
    cdef Record *record = plane.durable.begin(sizeof(Record) + body)
    cdef uint32_t *head = <uint32_t *> (<uint8_t *> record + sizeof(Record))
    cdef uint32_t at
    cdef Segment active = plane.durable.active
    memset(record, 0, sizeof(Record))
    record.size = <uint32_t> (sizeof(Record) + body)
    record.kind = kind
    record.flags = flags
    record.timestamp_ms = plane.wall_ms
    record.body_len = <uint32_t> body
    head[0] = queue
    head[1] = count
    memcpy(head + 2, ranges, count * sizeof(Range))
    for at in range(count):
        if ranges[at].segment != active.number:
            active.pins.add(ranges[at].segment)
    plane.durable.finish(record)
    plane.dirty = True
    return 0


cdef int append_commit(Plane plane, uint32_t count, uint32_t purpose) except -1:
    """That many facts before it, which are a transaction for that purpose, count."""
    cdef size_t size = sizeof(Record) + 8
    cdef Record *record = plane.durable.begin(size)
    cdef uint32_t *words = <uint32_t *> (<uint8_t *> record + sizeof(Record))
    memset(record, 0, size)
    record.size = <uint32_t> size
    record.kind = KIND_COMMIT
    record.body_len = 8
    words[0], words[1] = count, purpose
    plane.durable.finish(record)
    plane.dirty = True
    return 0


cdef int make_room(Plane plane, size_t targets, size_t content) except -1:
    """Have a segment that takes a message for so many queues together with what
    `settle_with_letter` appends to it; `content` is its names, properties and body."""
    cdef size_t size = (sizeof(Record) + targets * sizeof(Target) + content + 7) & ~<size_t> 7
    plane.durable.begin(size + LETTER_ROOM)
    return 0


cdef bint settle_with_letter(Plane plane, uint32_t queue, uint64_t position,
                             uint64_t seq) except -1:
    """Make one transaction of the newest fact, a dead letter, and the end of what it was made of.

    Returns False, and does nothing, when the segment has no room for all of it.
    """
    cdef Segment active = plane.durable.active
    cdef Range settled
    if active.capacity - active.used < LETTER_ROOM:
        return False
    settled.segment = <uint32_t> (position >> 32) & ~<uint32_t> DURABLE_BIT
    settled.first, settled.count = seq, 1
    plane.durable.amend(FLAG_IN_TX)
    append_ranges(plane, KIND_SETTLE, FLAG_IN_TX, queue, &settled, 1)
    append_commit(plane, 2, COMMIT_REPLACES)
    plane.noted += 1
    plane.noted_by = max(plane.noted_by, plane.generation)
    return True


cdef uint32_t delivered_ranges(const Block *block, Range *ranges) noexcept nogil:
    """What was delivered of a block, as DELIVERED has it: neighbours that are alike in one range.

    A range's `count` has how often in its upper half.
    """
    cdef const Slot *slot
    cdef uint64_t first = block.number * BLOCK_SLOTS
    cdef uint32_t count = 0, at, segment, alike
    for at in range(BLOCK_SLOTS):
        slot = &block.slots[at]
        if slot.state == GONE or not slot.deliveries or not slot.position >> 63:
            continue
        segment = <uint32_t> (slot.position >> 32) & ~<uint32_t> DURABLE_BIT
        alike = ranges[count - 1].count & RANGE_COUNT_MAX if count else 0
        if (alike and ranges[count - 1].segment == segment
                and ranges[count - 1].first + alike == first + at
                and ranges[count - 1].count >> RANGE_COUNT_BITS == slot.deliveries):
            ranges[count - 1].count += 1
            continue
        ranges[count].segment, ranges[count].first = segment, first + at
        ranges[count].count = <uint32_t> slot.deliveries << RANGE_COUNT_BITS | 1
        count += 1
    return count


cdef int mark_clean(Plane plane) except -1:
    """The last facts of an orderly shutdown: what was delivered before, and CLEAN."""
    cdef Queue queue
    cdef Range *ranges
    cdef Record *record
    cdef Block *block
    cdef uint32_t count
    flush_settles(plane, 0)
    ranges = <Range *> malloc(BLOCK_SLOTS * sizeof(Range))
    if ranges == NULL:
        raise MemoryError("no memory for the last facts")
    for queue in plane.queues.values():
        block = queue.index.block_from(0) if queue.durable else NULL
        while block != NULL:
            count = delivered_ranges(block, ranges)
            if count:
                append_ranges(plane, KIND_DELIVERED, 0, queue.id, ranges, count)
            block = queue.index.block_from(block.number + 1)
    free(ranges)
    record = plane.durable.begin(sizeof(Record))
    memset(record, 0, sizeof(Record))
    record.size = sizeof(Record)
    record.kind = KIND_CLEAN
    plane.durable.finish(record)
    plane.dirty = True
    return 0
