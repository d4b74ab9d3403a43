"""A queue's index of entries and the ring of those who take from it."""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from leporid.engine.plane cimport Plane
from leporid.engine.wire cimport Range

cdef enum:
    BLOCK_SLOTS = 256
    GONE = 0
    READY = 1
    UNACKED = 2
    REDELIVERED = 1

ctypedef struct Slot:               # 24 bytes
    uint64_t position
    uint64_t expires_at_ms
    uint32_t tag_hash
    uint16_t deliveries
    uint8_t state
    uint8_t flags

ctypedef struct Block:
    uint64_t number                 # sequence number of slots[0] / BLOCK_SLOTS
    uint32_t live                   # slots that are not GONE
    Slot slots[BLOCK_SLOTS]

ctypedef struct Place:
    uint64_t number
    Block *block                    # NULL when all its slots are gone

cdef class Level

cdef class Taker:
    cdef readonly int priority
    cdef Taker next
    cdef Taker previous
    cdef Level level                # the ring it stands in; None while it cannot take
    cdef bint can_take(self)
    cdef int take(self, uint64_t seq, Slot *slot) except -1
    cdef int resume(self) except -1

cdef class Level:
    cdef int priority
    cdef Taker head

cdef class Queue:
    cdef readonly uint32_t id
    cdef readonly str name
    cdef readonly bint durable
    cdef readonly bint retired
    cdef readonly uint64_t ready_count
    cdef readonly uint64_t unacked_count
    cdef readonly uint64_t ready_bytes
    cdef readonly uint64_t next_seq
    cdef readonly uint64_t published, delivered
    cdef readonly int consumer_count
    cdef Plane plane
    cdef bint hungry                # stands in plane.hungry
    cdef uint64_t head_seq          # every entry from here on was never delivered
    cdef Place *places
    cdef size_t place_start, place_end, place_capacity, place_holes
    cdef Block *tail
    cdef uint64_t *returned         # heap of sequence numbers that went back
    cdef size_t returned_count, returned_capacity
    cdef Range *ranges              # settled, not yet in the log
    cdef uint32_t range_count, range_capacity
    cdef bint settling
    cdef list levels                # of consumers, highest priority first
    cdef Block *block_of(self, uint64_t seq)
    cdef Slot *slot_of(self, uint64_t seq)
    cdef Block *new_tail(self, uint64_t number) except NULL
    cdef Block *insert_block(self, uint64_t number) except NULL
    cdef int free_block(self, Block *block) except -1
    cdef int push(self, uint64_t position, uint32_t body_len) except -1
    cdef Slot *pop(self, uint64_t *seq)
    cdef int settle(self, uint64_t seq, Slot *slot) except -1
    cdef int requeue(self, uint64_t seq, Slot *slot) except -1
    cdef int set_ttl(self, uint64_t seq, uint64_t ttl_ms) except -1
    cdef int expire(self, uint64_t seq) except -1
    cdef int note_settled(self, uint64_t position, uint64_t seq) except -1
    cdef int deliver(self) except -1
    cdef void wake(self)
    cdef int attach(self, Taker taker) except -1
    cdef int detach(self, Taker taker) except -1
    cdef int enter_ring(self, Taker taker) except -1
    cdef int leave_ring(self, Taker taker) except -1
    cdef int apply_publish(self, uint64_t seq, uint64_t position) except -1
    cdef int apply_settle(self, Range *settled) except -1
    cdef int restore_ttl(self, uint64_t seq, uint64_t position) except -1
    cdef int finish_restore(self, bint redelivered) except -1
    cdef int drop_all(self, uint8_t state) except -1

cdef uint32_t merge_ranges(Range *ranges, uint32_t count) noexcept nogil
