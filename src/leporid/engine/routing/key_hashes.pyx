"""The hashes by which RabbitMQ chooses a binding for a key, so that a key goes where it goes there.

MurmurHash3 with 32 bits (Austin Appleby, public domain) is that of super-streams, of the broker and
of its stream clients. Bob Jenkins' hash of 1996 (public domain) is what Erlang's `phash2` is made
of, which modulus-hash exchanges use. Responsible for these functions of bytes and words. It must
not know exchanges, nor how Erlang makes words of its terms. Invariant: the results are the same on
every machine.
"""

from libc.stdint cimport uint8_t, uint32_t
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

cdef enum:
    JENKINS_BLOCK_BYTES = 12
    GOLDEN = 0x9E3779B9


cdef inline uint32_t little(const uint8_t *at, Py_ssize_t count) noexcept nogil:
    """A word of up to four octets, the lowest first."""
    cdef uint32_t word = 0
    cdef Py_ssize_t i
    for i in range(min(count, 4)):
        word |= <uint32_t> at[i] << <uint32_t> (8 * i)
    return word


cdef inline uint32_t rotated(uint32_t value, uint32_t by) noexcept nogil:
    return (value << by) | (value >> (32 - by))


cdef inline uint32_t scrambled(uint32_t block) noexcept nogil:
    return rotated(block * <uint32_t> 0xCC9E2D51, 15) * <uint32_t> 0x1B873593


cpdef uint32_t murmur3_32(bytes data, uint32_t seed):
    """The hash of some bytes."""
    cdef const uint8_t *octets = <const uint8_t *> PyBytes_AS_STRING(data)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(data), at = 0
    cdef uint32_t value = seed
    while size - at >= 4:
        value = rotated(value ^ scrambled(little(octets + at, 4)), 13) * 5 + <uint32_t> 0xE6546B64
        at += 4
    if at < size:
        value ^= scrambled(little(octets + at, size - at))
    value ^= <uint32_t> size
    value = (value ^ (value >> 16)) * <uint32_t> 0x85EBCA6B
    value = (value ^ (value >> 13)) * <uint32_t> 0xC2B2AE35
    return value ^ (value >> 16)


cdef inline void mix(uint32_t *a, uint32_t *b, uint32_t *c) noexcept nogil:
    a[0] = (a[0] - b[0] - c[0]) ^ (c[0] >> 13)
    b[0] = (b[0] - c[0] - a[0]) ^ (a[0] << 8)
    c[0] = (c[0] - a[0] - b[0]) ^ (b[0] >> 13)
    a[0] = (a[0] - b[0] - c[0]) ^ (c[0] >> 12)
    b[0] = (b[0] - c[0] - a[0]) ^ (a[0] << 16)
    c[0] = (c[0] - a[0] - b[0]) ^ (b[0] >> 5)
    a[0] = (a[0] - b[0] - c[0]) ^ (c[0] >> 3)
    b[0] = (b[0] - c[0] - a[0]) ^ (a[0] << 10)
    c[0] = (c[0] - a[0] - b[0]) ^ (b[0] >> 15)


cpdef uint32_t jenkins_of_words(uint32_t a, uint32_t b, uint32_t value) noexcept:
    """The hash of two words, which goes on from an earlier one."""
    mix(&a, &b, &value)
    return value


cpdef uint32_t jenkins_of_bytes(bytes data, uint32_t value):
    """The hash of some bytes, which goes on from an earlier one; nothing changes nothing."""
    cdef const uint8_t *octets = <const uint8_t *> PyBytes_AS_STRING(data)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(data), left = size
    cdef uint32_t a = GOLDEN, b = GOLDEN
    if not size:
        return value
    while left >= JENKINS_BLOCK_BYTES:
        a += little(octets, 4)
        b += little(octets + 4, 4)
        value += little(octets + 8, 4)
        mix(&a, &b, &value)
        octets += JENKINS_BLOCK_BYTES
        left -= JENKINS_BLOCK_BYTES
    a += little(octets, left)
    if left > 4:
        b += little(octets + 4, left - 4)
    value += <uint32_t> size
    if left > 8:
        value += little(octets + 8, left - 8) << 8  # the lowest octet is the size's
    mix(&a, &b, &value)
    return value
