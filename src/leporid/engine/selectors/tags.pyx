"""Chooses messages by their tag: by its hash first, then by its text.

Responsible for the tags of one filter. The hash is Java's, so that numbers made by RocketMQ's
clients hold. It does not know lists of tags as text. Invariant: no message passes whose tag is not
one of the filter's, whatever its hash is.
"""

from libc.stdint cimport int32_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

from leporid.engine.selectors.filter cimport Filter

cdef enum:
    BUCKETS = 256


def java_hash(bytes text not None):
    """What Java's `String.hashCode` says of a text in UTF-8: a signed number of 32 bits."""
    return hash_of(<const uint8_t *> PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text))


cdef class Tags(Filter):
    """Lets those messages pass whose tag is one of these."""

    def __cinit__(self, tags):
        cdef int at, bucket
        cdef bytes text
        self.texts = tuple(tags)
        self.tags = <Tag *> calloc(max(1, len(self.texts)), sizeof(Tag))
        if self.tags == NULL:
            raise MemoryError
        for at in range(BUCKETS):
            self.first[at] = -1
        for at, text in enumerate(self.texts):
            self.tags[at].text = <const uint8_t *> PyBytes_AS_STRING(text)
            self.tags[at].length = PyBytes_GET_SIZE(text)
            self.tags[at].hash = hash_of(self.tags[at].text, self.tags[at].length)
            bucket = bucket_of(self.tags[at].hash)
            self.tags[at].next = self.first[bucket]
            self.first[bucket] = at

    def __dealloc__(self):
        free(self.tags)

    cdef bint may_match(self, int32_t hash) noexcept nogil:
        cdef int at = self.first[bucket_of(hash)]
        while at >= 0 and self.tags[at].hash != hash:
            at = self.tags[at].next
        return at >= 0

    cdef int matches(self, const uint8_t *names, size_t names_len, const uint8_t *properties,
                     size_t properties_len) noexcept nogil:
        cdef uint32_t length = 0
        cdef const uint8_t *tag = tag_of(properties, properties_len, &length)
        cdef Tag *one
        cdef int32_t hash
        cdef int at
        if tag == NULL:
            return 0
        hash = hash_of(tag, length)
        at = self.first[bucket_of(hash)]
        while at >= 0:
            one = &self.tags[at]
            if one.hash == hash and one.length == length and not memcmp(one.text, tag, length):
                return 1
            at = one.next
        return 0

    def may_have(self, int32_t hash):
        """Whether a message may pass whose tag has this hash; False is certain."""
        return self.may_match(hash)


cdef int bucket_of(int32_t hash) noexcept nogil:
    return (<uint32_t> hash ^ <uint32_t> hash >> 8) & (BUCKETS - 1)
