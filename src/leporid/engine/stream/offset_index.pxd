"""Where messages of a stream lie, and which tags there are between."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from leporid.engine.wire.hashing cimport hash_key

cdef enum:
    # One message in so many has its place in memory; the others are found by walking from it.
    ENTRY_EVERY = 256

    # The first bit of a summary also says that a message has no text in x-stream-filter-value.
    SUMMARY_UNFILTERED = 1

# Which tags there are in a batch: a Bloom filter of 1,024 bits.
cdef struct Summary:
    uint64_t words[16]

cdef bint has_tag(const uint8_t *properties, size_t n) noexcept nogil
cdef int summary_note(Summary *s, const uint8_t *properties, size_t n) noexcept nogil


cdef inline uint64_t summary_key(const uint8_t *text, size_t n) noexcept nogil:
    return hash_key(text, n)


cdef inline bint summary_may_have(const Summary *s, uint64_t key) noexcept nogil:
    """Whether a message of the batch may have a tag with that key; False is certain."""
    cdef int shift
    for shift in range(34, 64, 10):
        if not s.words[key >> (shift + 6) & 15] >> (key >> shift & 63) & 1:
            return False
    return True


cdef struct IndexEntry:
    # Where one message of many lies, and when it came.
    uint64_t offset
    uint64_t timestamp_ms
    uint32_t segment
    uint32_t at

cdef class OffsetIndex:
    cdef IndexEntry *entries    # those in [start, end) are in use
    cdef Summary *summaries     # of the batch that begins at each entry; NULL: no message has a tag
    cdef size_t start, end, capacity
    cdef int add(self, uint64_t offset, uint64_t timestamp_ms, uint32_t segment,
                 uint32_t at) except -1
    cdef int grow(self, size_t capacity) except -1
    cdef int note(self, const uint8_t *properties, size_t n, bint tagged) except -1
    cdef Summary *summary(self, size_t entry) noexcept nogil
    cdef size_t after(self, uint64_t offset) noexcept
    cdef IndexEntry *before(self, uint64_t offset) noexcept


cdef inline bint is_due(OffsetIndex offsets, uint64_t offset, uint32_t segment) noexcept:
    """Whether the next message needs an index entry: the first of its segment, or of a batch."""
    cdef IndexEntry *last
    if offsets.end == offsets.start:
        return True
    last = &offsets.entries[offsets.end - 1]
    return last.segment != segment or offset - last.offset >= ENTRY_EVERY
