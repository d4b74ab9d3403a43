"""Small integer ids of header names; interned_names.pyx says how to use them."""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

cdef enum:
    # Ids have 16 bits, and the place of a header's value is its id plus a few.
    NAMES_MAX = 65000
    NO_NAME = 0xffff

cdef struct Name:
    uint8_t *text               # NULL: the id is free
    uint64_t hash
    uint32_t users
    uint16_t next               # in the same bucket, or the next free id; NO_NAME ends the chain
    uint8_t length


cdef class InternedNames:
    cdef Name *names
    cdef uint16_t *buckets
    cdef uint32_t size          # of both arrays, a power of two
    cdef uint32_t count         # names in use
    cdef uint32_t end           # ids below this were given out at least once
    cdef uint16_t free_id
    cdef uint32_t[64] with_length
    cdef uint64_t lengths       # of names in use, modulo 64, as bits
    cdef uint32_t find(self, const uint8_t *text, uint8_t length) noexcept
    cdef uint32_t intern(self, const uint8_t *text, uint8_t length) except? 0xffffffff
    cdef int release(self, uint32_t id) noexcept
    cdef int grow(self) except -1
