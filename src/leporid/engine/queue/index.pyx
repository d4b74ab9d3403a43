"""The index of one queue: its entries by sequence number.

Responsible for finding the slot of an entry. Entries lie in blocks of 256 slots; a block is freed
when all its entries are gone, so a few old entries do not keep the memory of newer ones. It must
not know why entries come or go. Invariant: `places` is sorted by block number, and every slot that
is not GONE is found by its sequence number.
"""

from libc.stdint cimport uint64_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memmove, memset


cdef class BlockPool:
    """Freed blocks, for queues that grow."""

    def __dealloc__(self):
        cdef void *block = self.blocks
        cdef void *following
        while block != NULL:
            following = (<void **> block)[0]
            free(block)
            block = following

    cdef Block *take(self) except NULL:
        cdef Block *block = <Block *> self.blocks
        if block != NULL:
            self.blocks = (<void **> block)[0]
            self.count -= 1
        else:
            block = <Block *> malloc(sizeof(Block))
            if block == NULL:
                raise MemoryError("no memory for a block of a queue's index")
        memset(block, 0, sizeof(Block))
        return block

    cdef void give(self, Block *block) noexcept:
        if self.count < POOL_BLOCKS_MAX:
            (<void **> block)[0] = self.blocks
            self.blocks = block
            self.count += 1
        else:
            free(block)


cdef class Index:
    """Entries by sequence number."""

    def __cinit__(self, BlockPool pool):
        self.pool = pool

    def __dealloc__(self):
        cdef size_t i
        for i in range(self.place_start, self.place_end):
            free(self.places[i].block)
        free(self.places)

    cdef Block *block_of(self, uint64_t seq) noexcept:
        cdef uint64_t number = seq // BLOCK_SLOTS, guess
        cdef size_t low = self.place_start, high = self.place_end
        if self.tail != NULL and self.tail.number == number:
            return self.tail
        if low == high or number < self.places[low].number:
            return NULL
        guess = number - self.places[low].number
        if guess < high - low and self.places[low + guess].number == number:
            return self.places[low + guess].block
        low = self.place_from(number)
        if low < self.place_end and self.places[low].number == number:
            return self.places[low].block
        return NULL

    cdef Slot *slot_of(self, uint64_t seq) noexcept:
        cdef Block *block = self.block_of(seq)
        if block == NULL:
            return NULL
        return &block.slots[seq % BLOCK_SLOTS]

    cdef size_t place_from(self, uint64_t number) noexcept:
        """The place of the first block of that number or a higher one."""
        cdef size_t low = self.place_start, high = self.place_end, middle
        while low < high:
            middle = (low + high) // 2
            if self.places[middle].number < number:
                low = middle + 1
            else:
                high = middle
        return low

    cdef Block *block_from(self, uint64_t number) noexcept:
        """The first block of that number or a higher one; NULL when there is none."""
        cdef size_t low = self.place_from(number)
        while low < self.place_end and self.places[low].block == NULL:
            low += 1
        return self.places[low].block if low < self.place_end else NULL

    cdef uint64_t there_from(self, uint64_t seq, uint64_t end) noexcept:
        """The first number from `seq` on, below `end`, that may have an entry; `end` without one.

        A message may be older than the next one by any number of others, which came and went.
        """
        cdef Block *block = self.block_from(seq // BLOCK_SLOTS)
        return end if block == NULL else min(end, max(seq, block.number * BLOCK_SLOTS))

    cdef Slot *append(self, uint64_t seq) except NULL:
        """The slot of an entry newer than all others, counted as live."""
        cdef Block *block = self.tail
        if block == NULL or block.number != seq // BLOCK_SLOTS:
            block = self.new_tail(seq // BLOCK_SLOTS)
        block.live += 1
        return &block.slots[seq % BLOCK_SLOTS]

    cdef Slot *insert(self, uint64_t seq) except NULL:
        """The slot of an entry of any age; the caller counts it with `enter`."""
        cdef Block *block = self.block_of(seq)
        if block == NULL:
            block = self.insert_block(seq // BLOCK_SLOTS)
        return &block.slots[seq % BLOCK_SLOTS]

    cdef int enter(self, uint64_t seq) except -1:
        """Count an entry that `insert` returned as live."""
        self.block_of(seq).live += 1
        return 0

    cdef int leave(self, uint64_t seq) except -1:
        """An entry is GONE; its block may be freed."""
        cdef Block *block = self.block_of(seq)
        block.live -= 1
        if block.live == 0 and block != self.tail:
            self.free_block(block)
        return 0

    cdef int end_restore(self, uint64_t next_seq) except -1:
        """All entries were inserted: `append` continues at `next_seq`."""
        if (self.place_start < self.place_end
                and self.places[self.place_end - 1].number == next_seq // BLOCK_SLOTS):
            self.tail = self.places[self.place_end - 1].block
        return 0

    cdef bint reserve(self, uint64_t seq) except -1:
        """Make the block that `append` will need; returns whether it was not there."""
        if self.tail != NULL and self.tail.number == seq // BLOCK_SLOTS:
            return False
        self.new_tail(seq // BLOCK_SLOTS)
        return True

    cdef Block *new_tail(self, uint64_t number) except NULL:
        cdef Block *previous = self.tail
        self.tail = self.insert_block(number)
        if previous != NULL and previous.live == 0:
            self.free_block(previous)
        return self.tail

    cdef Block *insert_block(self, uint64_t number) except NULL:
        cdef Block *block
        cdef size_t at, count, kept
        cdef BlockEntry *grown
        block = self.pool.take()
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
                memmove(self.places, self.places + self.place_start, count * sizeof(BlockEntry))
                self.place_start, self.place_end = 0, count
            else:
                grown = <BlockEntry *> realloc(
                    self.places, max(8, self.place_capacity * 2) * sizeof(BlockEntry))
                if grown == NULL:
                    self.pool.give(block)
                    raise MemoryError("no memory for a queue's index")
                self.places = grown
                self.place_capacity = max(8, self.place_capacity * 2)
        at = self.place_end
        while at > self.place_start and self.places[at - 1].number > number:
            at -= 1
        if at > self.place_start and self.places[at - 1].number == number:
            self.places[at - 1].block = block  # only replay inserts into a freed block
            self.place_holes -= 1
            return block
        memmove(self.places + at + 1, self.places + at, (self.place_end - at) * sizeof(BlockEntry))
        self.places[at].number = number
        self.places[at].block = block
        self.place_end += 1
        return block

    cdef int free_block(self, Block *block) except -1:
        cdef size_t low = self.place_from(block.number)
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
        self.pool.give(block)
        return 0
