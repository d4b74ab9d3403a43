"""Messages that came as Arrow columns, encoded as AMQP has them."""

from libc.stdint cimport uint8_t, uint32_t

from leporid.engine.wire.text cimport Bytes

cdef struct Row:
    size_t names            # where exchange and key, then the properties begin in `encoded`
    uint32_t names_len
    uint32_t properties_len
    uint32_t body_len
    uint32_t keyless        # its key is null, not empty
    const uint8_t *body

cdef class Rows:
    cdef readonly size_t count
    cdef readonly set exchanges     # names of all that are published to, as bytes
    cdef Row *rows
    cdef Bytes encoded
    cdef list held                  # the memory that bodies lie in
