"""A filter that is a list of tags, and what a tag's hash is."""

from libc.stdint cimport int32_t, uint8_t, uint32_t

from leporid.engine.selectors.filter cimport Filter
from leporid.engine.wire.codec cimport Field, is_named

cdef enum:
    IS_TAG = 1
    IS_FILTER_VALUE = 2

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


cdef inline int tag_header(const Field *field) noexcept nogil:
    """IS_TAG or IS_FILTER_VALUE if a header may hold the message's tag; else 0."""
    if is_named(field, b"x-tag", 5):
        return IS_TAG
    return IS_FILTER_VALUE if is_named(field, b"x-stream-filter-value", 21) else 0
