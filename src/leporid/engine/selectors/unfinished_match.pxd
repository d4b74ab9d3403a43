"""What is left of asking a set of filters about one message."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

cdef class UnfinishedMatch:
    cdef uint64_t *left         # members that are still to be asked, as bits
    cdef uint32_t words, at     # of `left`; of the first one that may have a bit
    cdef uint64_t message       # its number in the set: who came later is not asked
    cdef uint32_t part          # of the first of them that is next
    cdef uint8_t *known         # what LIKEs of that part came to; NULL: none was run
    cdef bint is_done(self) noexcept
    cdef bint next(self, uint32_t *number) noexcept
    cdef int done_with(self, uint32_t number) noexcept
    cdef uint8_t *results(self, uint32_t instructions) except NULL

cdef UnfinishedMatch unfinished_match(uint64_t message, uint64_t *left, uint32_t words)
