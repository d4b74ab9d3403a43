"""What is left of asking a set of filters about one message, when the slice of time is over.

Responsible for which members are still to be asked, and for how far the one is that was being
asked. It must not know filters: `SelectorSet` asks them. Members come and go meanwhile; numbers
are given again, so a member is asked only if it was there when the message came. Invariant: each
member is asked once at most.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

cdef extern from *:
    int lowest_bit "__builtin_ctzll" (uint64_t bits) nogil


cdef class UnfinishedMatch:
    """The rest of one match."""

    def __dealloc__(self):
        free(self.left)
        free(self.known)

    cdef bint is_done(self) noexcept:
        """Whether nobody is left."""
        cdef uint32_t number
        return not self.next(&number)

    cdef bint next(self, uint32_t *number) noexcept:
        """Say which member is to be asked next; False without one."""
        while self.at < self.words:
            if self.left[self.at]:
                number[0] = 64 * self.at + lowest_bit(self.left[self.at])
                return True
            self.at += 1
        return False

    cdef int done_with(self, uint32_t number) noexcept:
        """The member was asked, or need not be."""
        self.left[number >> 6] &= ~(<uint64_t> 1 << (number & 63))
        self.part = 0
        free(self.known)
        self.known = NULL
        return 0

    cdef uint8_t *results(self, uint32_t instructions) except NULL:
        """What the LIKEs of a program came to that is being run."""
        if self.known == NULL:
            self.known = <uint8_t *> calloc(instructions, 1)
            if self.known == NULL:
                raise MemoryError("no memory to go on with a filter")
        return self.known


cdef UnfinishedMatch unfinished_match(uint64_t message, uint64_t *left, uint32_t words):
    """Take over members that are left to be asked about a message; `left` is empty afterwards."""
    cdef UnfinishedMatch rest = UnfinishedMatch()
    rest.message = message
    rest.left = <uint64_t *> malloc(words * sizeof(uint64_t))
    if rest.left == NULL:
        memset(left, 0, words * sizeof(uint64_t))
        raise MemoryError("no memory to go on with a message's filters")
    rest.words = words
    memcpy(rest.left, left, words * sizeof(uint64_t))
    memset(left, 0, words * sizeof(uint64_t))
    return rest
