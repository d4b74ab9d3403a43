"""The index of one queue: its entries by sequence number."""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

cdef extern from *:
    """#define AT_ONCE 0xffffffffffffffffull"""
    # Of `expires_at_ms`: once its queue has delivered what it could (a time to live of 0).
    uint64_t AT_ONCE

cdef enum:
    BLOCK_SLOTS = 256
    POOL_BLOCKS_MAX = 64            # of 6 KiB
    GONE = 0
    READY = 1
    UNACKED = 2
    HELD = 3                        # requeued, but not ready before its delay is over
    DELIVERIES_MAX = 0x7fff         # counting ends there
    MAYBE_DELIVERED = 0x8000        # before a crash; how often is unknown

ctypedef struct Slot:               # 24 bytes
    uint64_t position
    uint64_t expires_at_ms          # 0: never; AT_ONCE
    uint16_t deliveries             # count, and MAYBE_DELIVERED; 0: never delivered
    uint8_t state
    uint8_t priority
    uint32_t share                  # of the record's bytes; cleaning goes by it

ctypedef struct Block:
    uint64_t number                 # sequence number of slots[0] / BLOCK_SLOTS
    uint32_t live                   # slots that are not GONE
    Slot slots[BLOCK_SLOTS]

ctypedef struct BlockEntry:
    uint64_t number
    Block *block                    # NULL when all its slots are gone

cdef inline bint is_over(const Slot *slot, uint64_t now_ms) noexcept nogil:
    """Whether an entry must not be delivered any more: so that it is late to drop it."""
    return slot.expires_at_ms != 0 and slot.expires_at_ms < now_ms


cdef inline bint is_deliverable(const Slot *slot, uint64_t now_ms) noexcept nogil:
    """Whether an entry is ready, and not late to be dropped; NULL is none."""
    return slot != NULL and slot.state == READY and not is_over(slot, now_ms)


cdef class BlockPool:
    cdef void *blocks
    cdef uint32_t count
    cdef Block *take(self) except NULL
    cdef void give(self, Block *block) noexcept

cdef class Index:
    cdef BlockPool pool
    cdef BlockEntry *places
    cdef size_t place_start, place_end, place_capacity, place_holes
    cdef Block *tail
    cdef Block *block_of(self, uint64_t seq) noexcept
    cdef Slot *slot_of(self, uint64_t seq) noexcept
    cdef size_t place_from(self, uint64_t number) noexcept
    cdef Block *block_from(self, uint64_t number) noexcept
    cdef uint64_t there_from(self, uint64_t seq, uint64_t end) noexcept
    cdef Slot *append(self, uint64_t seq) except NULL
    cdef Slot *insert(self, uint64_t seq) except NULL
    cdef int enter(self, uint64_t seq) except -1
    cdef int leave(self, uint64_t seq) except -1
    cdef int end_restore(self, uint64_t next_seq) except -1
    cdef bint reserve(self, uint64_t seq) except -1
    cdef Block *new_tail(self, uint64_t number) except NULL
    cdef Block *insert_block(self, uint64_t number) except NULL
    cdef int free_block(self, Block *block) except -1
