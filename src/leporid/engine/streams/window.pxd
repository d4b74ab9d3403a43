"""Messages whose bytes stay in memory while somebody works on them."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

cdef class Window    # before the modules that know it, too

from leporid.engine.streams.choice cimport Choice
from leporid.engine.streams.stream cimport Cursor, Stream
from leporid.engine.encoding.wire cimport Record

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
    cdef readonly uint64_t batches_skipped  # in which nothing was wanted, by their summaries
    cdef readonly list lost             # (from, to): offsets in it whose messages were damaged
    cdef Stretch *stretches
    cdef int count, capacity
    cdef Entry *entries                 # instead of stretches, if it is of a queue
    cdef list segments                  # that must not lose their bytes
    cdef bint leave_out(self, Stream stream, Choice choice, Cursor *cursor, uint64_t end) noexcept
    cdef int add(self, const uint8_t *start, const uint8_t *end) except -1
