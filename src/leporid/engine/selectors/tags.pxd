"""A filter that is a list of tags, and what a tag's hash is."""

from libc.stdint cimport int32_t, uint8_t, uint32_t

from leporid.engine.selectors.filter cimport Filter

cdef extern from "tags.h" nogil:
    int32_t hash_of "java_hash" (const uint8_t *p, size_t n)
    const uint8_t *tag_of(const uint8_t *properties, size_t n, uint32_t *length)

cdef struct Tag:
    int32_t hash
    uint32_t length
    const uint8_t *text
    int next                    # in the same bucket; -1 ends it

cdef class Tags(Filter):
    cdef tuple texts            # keeps the bytes of the tags
    cdef Tag *tags
    cdef int first[256]
    # Whether a message whose tag has this hash may pass; false is certain.
    cdef bint may_match(self, int32_t hash) noexcept nogil
