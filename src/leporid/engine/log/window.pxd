"""Messages whose bytes stay in memory while another thread reads them."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from leporid.engine.wire.record cimport Record

cdef struct Stretch:
    # Adjacent records; there may be other facts between messages.
    const uint8_t *start
    const uint8_t *end

cdef struct Entry:
    # A message of a queue.
    const Record *record
    uint64_t seq
    bint redelivered
    bint unacked

cdef class Window:
    cdef readonly uint64_t first, end   # its range of offsets
    cdef readonly uint32_t rows         # messages in it
    cdef readonly uint64_t bytes        # of their records
    cdef readonly uint64_t batches_skipped  # of a stream: no message of them can match
    cdef Stretch *stretches
    cdef int count, capacity
    cdef Entry *entries                 # of a queue, instead of stretches
    cdef int add(self, const uint8_t *start, const uint8_t *end) except -1
