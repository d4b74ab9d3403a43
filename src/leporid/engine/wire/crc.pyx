"""CRC32C (Castagnoli) by tables, for processors without an instruction for it.

Responsible for the tables, which exist once: eight bytes are looked up at a time ("slicing by 8").
It does not know records. Invariant: both ways come to the same CRC.
"""

from libc.stdint cimport uint8_t, uint32_t
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

cdef uint32_t[8][256] tables


cdef void fill_tables() noexcept nogil:
    cdef uint32_t byte, crc
    cdef int ahead, _bit
    for byte in range(256):
        crc = byte
        for _bit in range(8):
            crc = crc >> 1 ^ (0x82f63b78u if crc & 1 else 0)
        tables[0][byte] = crc
    for ahead in range(1, 8):
        for byte in range(256):
            crc = tables[ahead - 1][byte]
            tables[ahead][byte] = tables[0][crc & 0xff] ^ crc >> 8


fill_tables()


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
