"""Messages whose bytes stay in memory while somebody works on them."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from leporid.engine.wire.record cimport Record

cdef struct Stretch:
    # Records one after another; between messages there may be other facts.
    const uint8_t *start
    const uint8_t *end

cdef struct Entry:
    # A message of a queue.
    const Record *record
    uint64_t seq
    bint redelivered
    bint unacked

cdef class Window:
    cdef readonly uint64_t first, end   # offsets that it is about
    cdef readonly uint32_t rows         # messages in it
    cdef readonly uint64_t bytes        # of their records
    cdef readonly uint64_t batches_skipped  # of a stream, in which nothing was wanted
    cdef Stretch *stretches
    cdef int count, capacity
    cdef Entry *entries                 # instead of stretches, if it is of a queue
    cdef int add(self, const uint8_t *start, const uint8_t *end) except -1
