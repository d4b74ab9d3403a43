"""CRC32C (Castagnoli) by tables, for processors without an instruction for it; and of joined parts.

Responsible for the tables, which exist once: eight bytes are looked up at a time ("slicing by 8").
It does not know records. Invariant: all ways come to the same CRC.
"""

from libc.stdint cimport uint8_t, uint32_t
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

cdef enum:
    POLYNOMIAL = 0x82f63b78         # its bits reversed, as everything here
    ONE = 0x80000000                # the polynomial 1

cdef uint32_t[8][256] tables
# For each octet of a length: x to the power of 8 times what it stands for, modulo the polynomial.
cdef uint32_t[4][256] powers


cdef void fill_tables() noexcept nogil:
    cdef uint32_t byte, crc
    cdef int ahead, _bit
    for byte in range(256):
        crc = byte
        for _bit in range(8):
            crc = crc >> 1 ^ (POLYNOMIAL if crc & 1 else 0)
        tables[0][byte] = crc
    for ahead in range(1, 8):
        for byte in range(256):
            crc = tables[ahead - 1][byte]
            tables[ahead][byte] = tables[0][crc & 0xff] ^ crc >> 8


cdef uint32_t product(uint32_t left, uint32_t right) noexcept nogil:
    """Two polynomials multiplied, modulo CRC32C's."""
    cdef uint32_t found = 0
    while left:
        if left & ONE:
            found ^= right
        left <<= 1
        right = right >> 1 ^ (POLYNOMIAL if right & 1 else 0)
    return found


cdef void fill_powers() noexcept nogil:
    cdef uint32_t step = ONE >> 8
    cdef int octet, value
    for octet in range(4):
        powers[octet][0] = ONE
        for value in range(1, 256):
            powers[octet][value] = product(powers[octet][value - 1], step)
        step = product(powers[octet][255], step)


fill_tables()
fill_powers()


cdef uint32_t crc_joined(uint32_t first, uint32_t second, size_t second_bytes) noexcept nogil:
    """The CRC of two parts, without reading them.

    Args:
        first: the CRC of the first part, with any seed.
        second: the CRC of the second part, with 0 as its seed.
        second_bytes: the length of the second part, below 4 GiB.
    """
    cdef int octet
    for octet in range(4):
        if second_bytes >> 8 * octet & 0xff:
            first = product(powers[octet][second_bytes >> 8 * octet & 0xff], first)
    return first ^ second


cdef uint32_t crc_by_tables(uint32_t crc, const uint8_t *p, size_t n) noexcept nogil:
    cdef uint32_t low, high
    while n >= 8:
        low = crc ^ (p[0] | <uint32_t> p[1] << 8 | <uint32_t> p[2] << 16 | <uint32_t> p[3] << 24)
        high = p[4] | <uint32_t> p[5] << 8 | <uint32_t> p[6] << 16 | <uint32_t> p[7] << 24
        crc = (
            tables[7][low & 0xff] ^ tables[6][low >> 8 & 0xff]
            ^ tables[5][low >> 16 & 0xff] ^ tables[4][low >> 24]
            ^ tables[3][high & 0xff] ^ tables[2][high >> 8 & 0xff]
            ^ tables[1][high >> 16 & 0xff] ^ tables[0][high >> 24]
        )
        p += 8
        n -= 8
    while n:
        crc = tables[0][(crc ^ p[0]) & 0xff] ^ crc >> 8
        p += 1
        n -= 1
    return crc


def checksum(bytes data not None, uint32_t seed=0):
    """The CRC of some bytes, as records have it."""
    return crc32c(seed, <const uint8_t *> PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))


def checksum_by_tables(bytes data not None, uint32_t seed=0):
    """The same, on any processor."""
    return <uint32_t> ~crc_by_tables(~seed, <const uint8_t *> PyBytes_AS_STRING(data),
                                     PyBytes_GET_SIZE(data))


def joined_checksum(uint32_t first, bytes second not None):
    """The CRC of two parts, of which the first one has the CRC `first`."""
    return crc_joined(first, checksum(second), len(second))
