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
from leporid.engine.wire.codec cimport FIELD_TEXT, Field, headers_in, next_field, read_value
from leporid.engine.wire.text cimport utf8_step

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


cdef int32_t hash_of(const uint8_t *p, size_t n) noexcept nogil:
    """Java's `String.hashCode`, over units of UTF-16; broken UTF-8 counts as U+FFFD, as there."""
    cdef const uint8_t *end = p + n
    cdef uint32_t hash = 0, point
    cdef size_t length
    cdef bint bad
    while p < end:
        point = p[0]
        if point < 0x80:
            hash = 31 * hash + point
            p += 1
            continue
        length = utf8_step(p, end, &bad)
        if bad:
            point = 0xfffd
        elif length == 2:
            point = (point & 31) << 6 | (p[1] & 63)
        elif length == 3:
            point = (point & 15) << 12 | (p[1] & 63) << 6 | (p[2] & 63)
        else:
            point = (point & 7) << 18 | (p[1] & 63) << 12 | (p[2] & 63) << 6 | (p[3] & 63)
        p += length
        if point >= 0x10000:    # two units
            hash = 31 * hash + (0xd7c0 + (point >> 10))
            point = 0xdc00 | (point & 0x3ff)
        hash = 31 * hash + point
    return <int32_t> hash


cdef const uint8_t *tag_of(const uint8_t *properties, size_t n, uint32_t *length) noexcept nogil:
    """The text of header x-tag, else of x-stream-filter-value; NULL: the message has no tag.

    The first header of a name counts.
    """
    cdef const uint8_t *end = NULL
    cdef const uint8_t *p = headers_in(properties, n, &end)
    cdef const uint8_t *other = NULL
    cdef uint32_t other_length = 0
    cdef int seen = 0, which
    cdef Field field
    while p != NULL and p < end and seen != IS_TAG | IS_FILTER_VALUE:
        if next_field(&p, end, &field):
            break
        which = tag_header(&field)
        if not which or seen & which:
            continue
        seen |= which
        if read_value(field.type, field.content).kind != FIELD_TEXT:
            continue
        if which == IS_TAG:
            length[0] = field.size
            return field.content
        other, other_length = field.content, field.size
    length[0] = other_length
    return other
