"""CRC32C of records and files: by the processor's instruction where it has one, else by tables."""

from libc.stdint cimport uint8_t, uint32_t

cdef extern from "crc.h" nogil:
    bint has_crc_instruction()
    uint32_t crc_by_instruction(uint32_t crc, const uint8_t *p, size_t n)

cdef uint32_t crc_by_tables(uint32_t crc, const uint8_t *p, size_t n) noexcept nogil
cdef uint32_t crc_joined(uint32_t first, uint32_t second, size_t second_bytes) noexcept nogil


cdef inline uint32_t crc32c(uint32_t seed, const uint8_t *p, size_t n) noexcept nogil:
    """The CRC of n bytes. A seed other than 0 makes a record of one file invalid in every other."""
    if has_crc_instruction():
        return ~crc_by_instruction(~seed, p, n)
    return ~crc_by_tables(~seed, p, n)
