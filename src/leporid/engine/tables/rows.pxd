"""Messages from Arrow columns, encoded as in AMQP."""

from libc.stdint cimport uint8_t, uint32_t

from leporid.engine.wire.text cimport Bytes

cdef struct Row:
    size_t names                    # offset in `encoded` of exchange and key, then properties
    uint32_t names_len
    uint32_t properties_len
    uint32_t body_len
    uint32_t keyless                # its key is null, not empty
    const uint8_t *body

cdef class Rows:
    cdef readonly size_t count
    cdef readonly set exchanges     # names of all exchanges in the rows, as bytes
    cdef Row *rows
    cdef Bytes encoded
    cdef list held                  # owns the memory of the bodies
