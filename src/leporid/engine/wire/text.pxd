"""C declarations of `text.h`: bytes that grow, valid UTF-8, values of a field table as text."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

cdef extern from "text.h" nogil:
    int NO_MEMORY
    uint64_t SECONDS_MAX

    ctypedef struct Bytes:
        uint8_t *data
        size_t used
        size_t size

    int bytes_room(Bytes *b, size_t more)
    int put(Bytes *b, const void *p, size_t n)
    int put_byte(Bytes *b, uint8_t byte)
    int put_text(Bytes *b, const uint8_t *p, size_t n)
    int is_utf8(const uint8_t *p, size_t n)
    int put_json_table(Bytes *b, const uint8_t *p, const uint8_t *end, int depth)
    int put_value(Bytes *b, const uint8_t **at, const uint8_t *end, int json, int depth)
