"""What a restart makes of a queue: its entries, as the log tells them, and what is appended for it.

Responsible for the state that replay builds, and for the facts of an orderly shutdown. It must not
read segments, which replay does, nor know what a kind of queue keeps of an entry: its
`restore_entry` does. Invariant: after `end_restore` every entry is ready, in its old place.
"""

from libc.stdint cimport uint16_t, uint32_t, uint64_t

from leporid.engine.log.facts cimport append_ranges
from leporid.engine.log.log cimport KIND_DELIVERED, is_durable, segment_number
from leporid.engine.queue.index cimport (
    BLOCK_SLOTS, GONE, MAYBE_DELIVERED, READY, Block, Slot,
)
from leporid.engine.queue.queue cimport Queue
from leporid.engine.wire.record cimport RANGE_COUNT_BITS, RANGE_COUNT_MAX, Range, Record


cdef int restore_record(Queue queue, uint64_t seq, uint64_t position) except -1:
    """Replay found the record of an entry; a second record is a newer copy of the first."""
    cdef Slot *slot = queue.index.insert(seq)
    cdef const Record *record = queue.logs.record(position)
    if slot.state == GONE:
        queue.index.enter(seq)
    else:
        # The copy must not be dropped before its original.
        queue.logs.durable.find(segment_number(position)).pins.add(
            segment_number(slot.position))
        queue.logs.release(slot.position, slot.share)
    slot.position = position
    slot.share = record.size // record.targets
    slot.state = READY
    queue.logs.durable.hold(position, 1, slot.share)
    queue.next_seq = max(queue.next_seq, seq + 1)
    return 0


cdef int settle_restored(Queue queue, const Range *which) except -1:
    """Replay found that these entries were settled."""
    cdef uint64_t seq = which.first, end = which.first + which.count
    cdef Slot *slot
    queue.next_seq = max(queue.next_seq, end)
    while seq < end:
        slot = queue.index.slot_of(seq)
        if slot == NULL:
            seq = queue.index.there_from(seq, end)
            continue
        # In another segment the number was used again, or the record was copied since.
        if slot.state != GONE and segment_number(slot.position) == which.segment:
            slot.state = GONE
            queue.logs.release(slot.position, slot.share)
            queue.index.leave(seq)
        seq += 1
    return 0


cdef int count_restored(Queue queue, const Range *which) except -1:
    """Replay found how often these entries were delivered; a count never sinks."""
    cdef uint64_t seq
    cdef Slot *slot
    cdef uint16_t deliveries = max(1, which.count >> RANGE_COUNT_BITS)
    for seq in range(which.first, which.first + (which.count & RANGE_COUNT_MAX)):
        slot = queue.index.slot_of(seq)
        if slot != NULL and slot.state != GONE:
            slot.deliveries = max(deliveries, slot.deliveries)
    return 0


cdef int end_restore(Queue queue, bint redelivered) except -1:
    """The log was read: every entry is ready; `redelivered` marks all as maybe delivered."""
    cdef Block *block = queue.index.block_from(0)
    cdef uint32_t at
    queue.head_seq = block.number * BLOCK_SLOTS if block != NULL else queue.next_seq
    while block != NULL:
        for at in range(BLOCK_SLOTS):
            if block.slots[at].state == READY:
                queue.ready_count += 1
                queue.totals.ready += 1
                queue.ready_bytes += queue.logs.record(block.slots[at].position).body_len
                if redelivered:
                    block.slots[at].deliveries |= MAYBE_DELIVERED
                queue.restore_entry(block.number * BLOCK_SLOTS + at, block.slots[at].position)
        block = queue.index.block_from(block.number + 1)
    queue.index.end_restore(queue.next_seq)
    queue.wake()
    return 0


cdef int append_deliveries(Queue queue) except -1:
    """Append how often unsettled entries were delivered, for the next start."""
    cdef Range[BLOCK_SLOTS] ranges
    cdef Block *block = queue.index.block_from(0) if queue.durable else NULL
    cdef uint32_t count
    while block != NULL:
        count = delivered_ranges(block, ranges)
        if count:
            append_ranges(queue.logs, KIND_DELIVERED, 0, queue.id, ranges, count)
        block = queue.index.block_from(block.number + 1)
    return 0


cdef uint32_t delivered_ranges(const Block *block, Range *ranges) noexcept nogil:
    """The delivered entries of a block, as a DELIVERED record has them.

    Adjacent entries with the same number of deliveries are one range, whose `count` has that
    number in its upper half.
    """
    cdef const Slot *slot
    cdef uint64_t first = block.number * BLOCK_SLOTS
    cdef uint32_t count = 0, at, segment, alike
    for at in range(BLOCK_SLOTS):
        slot = &block.slots[at]
        if slot.state == GONE or not slot.deliveries or not is_durable(slot.position):
            continue
        segment = segment_number(slot.position)
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
