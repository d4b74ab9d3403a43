"""OffsetIndex: a sparse index of a stream's log, with one entry for 256 messages, and a summary of
the tags of the messages from each entry to the next.

A summary is a Bloom filter of 1,024 bits: it says that no message of the batch has a tag, or that
one may have it. With 256 tags, as many as a batch has messages, one question in seven is answered
"may have" although no message has the tag; with 25 tags one in some 2,800. In a summary are the
texts of x-tag and of x-stream-filter-value, each the first header of its name, as filters read
them. Some dialects hold other values equal to texts: a batch that has such a value may have every
tag.

It does not know segments or readers: who appends says when an entry is due. Invariants: entries
rise in offset and in place; no message of a batch has a tag that its summary has not.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memmove, memset

from leporid.engine.selectors.tags cimport IS_FILTER_VALUE, IS_TAG, tag_header
from leporid.engine.wire.codec cimport (
    FIELD_TEXT, FIELD_VOID, Field, headers_in, next_field, read_value,
)


cdef class OffsetIndex:
    """The index entries of one stream."""

    def __dealloc__(self):
        free(self.entries)
        free(self.summaries)

    cdef int add(self, uint64_t offset, uint64_t timestamp_ms, uint32_t segment,
                 uint32_t at) except -1:
        """IndexEntry a message, which is behind all others."""
        cdef IndexEntry *entry
        cdef size_t count = self.end - self.start
        if self.end == self.capacity:
            if self.start > self.capacity // 2:
                memmove(self.entries, self.entries + self.start, count * sizeof(IndexEntry))
                if self.summaries != NULL:
                    memmove(self.summaries, self.summaries + self.start, count * sizeof(Summary))
                self.start, self.end = 0, count
            else:
                self.grow(max(<size_t> 8, self.capacity * 2))
        entry = &self.entries[self.end]
        entry.offset, entry.timestamp_ms = offset, timestamp_ms
        entry.segment, entry.at = segment, at
        if self.summaries != NULL:
            memset(&self.summaries[self.end], 0, sizeof(Summary))
        self.end += 1
        return 0

    cdef int grow(self, size_t capacity) except -1:
        cdef void *grown = realloc(self.entries, capacity * sizeof(IndexEntry))
        if grown == NULL:
            raise MemoryError("no memory for the places of a stream")
        self.entries = <IndexEntry *> grown
        if self.summaries != NULL:
            grown = realloc(self.summaries, capacity * sizeof(Summary))
            if grown == NULL:
                raise MemoryError("no memory for the tags of a stream")
            self.summaries = <Summary *> grown
        self.capacity = capacity
        return 0

    cdef int note(self, const uint8_t *properties, size_t n, bint tagged) except -1:
        """Have the newest batch say what tags a message has, if it is `tagged`.

        The first tag there is makes room for all batches; what came before it has none.
        """
        cdef size_t at
        if self.summaries == NULL:
            self.summaries = <Summary *> calloc(self.capacity, sizeof(Summary))
            if self.summaries == NULL:
                raise MemoryError("no memory for the tags of a stream")
            # Of the newest batch, too: if the message is its first, it says so for nothing.
            for at in range(self.start, self.end):
                self.summaries[at].words[0] = SUMMARY_UNFILTERED
        if tagged:
            summary_note(&self.summaries[self.end - 1], properties, n)
        else:
            self.summaries[self.end - 1].words[0] |= SUMMARY_UNFILTERED
        return 0

    cdef Summary *summary(self, size_t entry) noexcept nogil:
        """Of the batch that begins with an entry; NULL: there are no tags."""
        return NULL if self.summaries == NULL else &self.summaries[entry]

    cdef size_t after(self, uint64_t offset) noexcept:
        """The index of the first entry beyond an offset; `end` if there is none."""
        cdef size_t low = self.start, high = self.end, middle
        while low < high:
            middle = (low + high) // 2
            if self.entries[middle].offset <= offset:
                low = middle + 1
            else:
                high = middle
        return low

    cdef IndexEntry *before(self, uint64_t offset) noexcept:
        """The last entry at or before an offset; NULL when there is none."""
        cdef size_t after = self.after(offset)
        return NULL if after == self.start else &self.entries[after - 1]

    @property
    def summary_bytes(self):
        """Of what is kept about tags."""
        return (self.end - self.start) * sizeof(Summary) if self.summaries != NULL else 0


cdef int summary_add(Summary *s, uint64_t key) noexcept nogil:
    cdef int shift
    for shift in range(34, 64, 10):
        s.words[key >> (shift + 6) & 15] |= <uint64_t> 1 << (key >> shift & 63)
    return 0


cdef bint has_tag(const uint8_t *properties, size_t n) noexcept nogil:
    """Whether a message has one of the two headers: HAS_TAG, of properties that were checked."""
    cdef const uint8_t *end = NULL
    cdef const uint8_t *p = headers_in(properties, n, &end)
    cdef Field field
    while p != NULL and p < end:
        if next_field(&p, end, &field):
            return False
        if tag_header(&field):
            return True
    return False


cdef int summary_note(Summary *s, const uint8_t *properties, size_t n) noexcept nogil:
    """Add the tags of one message, whose properties were checked."""
    cdef const uint8_t *end = NULL
    cdef const uint8_t *p = headers_in(properties, n, &end)
    cdef int seen = 0, which, kind
    cdef bint filtered = False
    cdef Field field
    while p != NULL and p < end and seen != IS_TAG | IS_FILTER_VALUE:
        if next_field(&p, end, &field):
            break
        which = tag_header(&field)
        if not which or seen & which:
            continue
        seen |= which
        kind = read_value(field.type, field.content).kind
        if kind == FIELD_TEXT:
            summary_add(s, summary_key(field.content, field.size))
            filtered |= which == IS_FILTER_VALUE
        elif kind != FIELD_VOID:
            memset(s, 0xff, sizeof(Summary))
    if not filtered:
        s.words[0] |= SUMMARY_UNFILTERED
    return 0
