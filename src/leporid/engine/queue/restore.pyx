"""Restoring: what facts of the log do to a queue's entries, at start.

Responsible for entries that come back from the log. It does not read the log; `replay` does.
Invariant: a fact applied twice changes nothing, and after `finish_restore` the queue is as if it
had never been away, but that everything is ready.
"""

from libc.stdint cimport uint16_t, uint32_t, uint64_t

from leporid.engine.queue.index cimport BLOCK_SLOTS, GONE, MAYBE_DELIVERED, READY, Block, Slot
from leporid.engine.log.log cimport DURABLE_BIT
from leporid.engine.queue.queue cimport Queue
from leporid.engine.wire.wire cimport RANGE_COUNT_BITS, RANGE_COUNT_MAX, Range


cdef int apply_publish(Queue queue, uint64_t seq, uint64_t position) except -1:
    cdef Slot *slot = queue.index.insert(seq)
    if slot.state == GONE:
        queue.index.enter(seq)
    else:
        # The newer record is a copy: it must not go before what it was copied from.
        number = <uint32_t> (slot.position >> 32) & ~<uint32_t> DURABLE_BIT
        queue.plane.durable.find(
            <uint32_t> (position >> 32) & ~<uint32_t> DURABLE_BIT).pins.add(number)
        queue.plane.release(slot.position)
    slot.position = position
    slot.state = READY
    queue.plane.durable.hold(position, 1)
    queue.next_seq = max(queue.next_seq, seq + 1)
    return 0


cdef int apply_settle(Queue queue, Range *settled) except -1:
    cdef uint64_t seq
    cdef Slot *slot
    queue.next_seq = max(queue.next_seq, settled.first + settled.count)
    for seq in range(settled.first, settled.first + settled.count):
        slot = queue.index.slot_of(seq)
        if slot == NULL or slot.state == GONE:
            continue
        if (<uint32_t> (slot.position >> 32) & ~<uint32_t> DURABLE_BIT) != settled.segment:
            continue  # the number's entry is a newer one, or was copied forward since
        slot.state = GONE
        queue.plane.release(slot.position)
        queue.index.leave(seq)
    return 0


cdef int apply_delivered(Queue queue, Range *delivered) except -1:
    """How often, as far as it is known: never less than before."""
    cdef uint64_t seq
    cdef Slot *slot
    cdef uint16_t deliveries = max(1, delivered.count >> RANGE_COUNT_BITS)
    for seq in range(delivered.first, delivered.first + (delivered.count & RANGE_COUNT_MAX)):
        slot = queue.index.slot_of(seq)
        if slot != NULL and slot.state != GONE:
            slot.deliveries = max(deliveries, slot.deliveries)
    return 0


cdef int finish_restore(Queue queue, bint redelivered) except -1:
    """All facts were applied: count what is ready."""
    cdef Block *block = queue.index.block_from(0)
    cdef uint32_t at
    queue.head_seq = block.number * BLOCK_SLOTS if block != NULL else queue.next_seq
    while block != NULL:
        for at in range(BLOCK_SLOTS):
            if block.slots[at].state == READY:
                queue.ready_count += 1
                queue.ready_bytes += queue.plane.record(block.slots[at].position).body_len
                if redelivered:
                    block.slots[at].deliveries |= MAYBE_DELIVERED
                queue.restore_entry(block.number * BLOCK_SLOTS + at, block.slots[at].position)
        block = queue.index.block_from(block.number + 1)
    queue.index.end_restore(queue.next_seq)
    queue.wake()
    return 0
