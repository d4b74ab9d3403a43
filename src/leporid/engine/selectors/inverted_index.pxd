"""Posting lists by place and value; inverted_index.pyx says how to use them."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from leporid.engine.selectors.machine cimport Operand, TEXT_VALUE, is_numeric

cdef extern from *:
    uint32_t NOBODY "UINT32_MAX"

cdef struct PostingList:        # of one value in one place
    PostingList *next           # in the same bucket
    PostingList *before         # kept by the index's user, who may link lists
    PostingList *after
    uint64_t hash
    uint32_t place, count, size
    Operand value               # a text lies behind this struct
    uint32_t *members


cdef class InvertedIndex:
    cdef PostingList **buckets
    cdef size_t size, count     # of buckets, a power of two; of lists
    cdef PostingList *find(self, uint32_t place, const Operand *value) noexcept
    cdef bint add(self, uint32_t place, const Operand *value, uint32_t member,
                  PostingList **found) except -1
    cdef uint32_t remove(self, PostingList *postings, uint32_t at) noexcept
    cdef int grow(self) except -1
    cdef PostingList *make(self, uint32_t place, const Operand *value) except NULL
    cdef int drop(self, PostingList *postings) noexcept


cdef inline bint is_indexable(const Operand *v) noexcept nogil:
    return v.kind == TEXT_VALUE or is_numeric(v)
