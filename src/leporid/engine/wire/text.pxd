"""Bytes that grow, valid UTF-8, and values of field tables as text; text.pyx says how."""

from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcpy

from leporid.engine.wire.codec cimport DONE, MALFORMED, NO_MEMORY

cdef extern from *:
    size_t COLUMN_BYTES_MAX "INT32_MAX"     # Arrow's offsets in a column have 32 bits
    # The last second of the year 9999; hardly any program has a later time.
    uint64_t SECONDS_MAX "253402300799ull"

cdef enum:
    # A text against what a peer sent: a control character is \u0000 in JSON.
    EXPANSION_MAX = 6

cdef struct Bytes:
    uint8_t *data
    size_t used
    size_t size

# All return DONE, or NO_MEMORY; those that read field tables also MALFORMED.
cdef int grow(Bytes *b, size_t more) noexcept nogil
cdef int put_valid(Bytes *b, const uint8_t *p, const uint8_t *end) noexcept nogil
cdef int put_json_table(Bytes *b, const uint8_t *p, const uint8_t *end, int depth) noexcept nogil
cdef int put_value(Bytes *b, const uint8_t **at, const uint8_t *end, bint json,
                   int depth) noexcept nogil

cdef size_t utf8_step(const uint8_t *p, const uint8_t *end, bint *bad) noexcept nogil


cdef inline int bytes_room(Bytes *b, size_t more) noexcept nogil:
    return DONE if b.size - b.used >= more else grow(b, more)


cdef inline int put(Bytes *b, const void *p, size_t n) noexcept nogil:
    if bytes_room(b, n):
        return NO_MEMORY
    if n:
        memcpy(b.data + b.used, p, n)
    b.used += n
    return DONE


cdef inline int put_byte(Bytes *b, uint8_t byte) noexcept nogil:
    if bytes_room(b, 1):
        return NO_MEMORY
    b.data[b.used] = byte
    b.used += 1
    return DONE


cdef inline size_t ascii_length(const uint8_t *p, size_t n) noexcept nogil:
    """How many of the first bytes are ASCII."""
    cdef size_t at = 0
    cdef uint64_t word
    while n - at >= 8:
        memcpy(&word, p + at, 8)
        if word & 0x8080808080808080u:
            break
        at += 8
    while at < n and p[at] < 0x80:
        at += 1
    return at


cdef inline int put_text(Bytes *b, const uint8_t *p, size_t n) noexcept nogil:
    """Append text of a peer."""
    cdef size_t plain = ascii_length(p, n)
    if put(b, p, plain):
        return NO_MEMORY
    return DONE if plain == n else put_valid(b, p + plain, p + n)
