"""Messages that came as Arrow columns, encoded as AMQP has them."""

from libc.stdint cimport int32_t, uint8_t, uint32_t

from leporid.engine.text cimport Bytes

cdef struct Column:
    # One Arrow array, as far as it is there.
    const uint8_t *valid
    const int32_t *offsets
    const uint8_t *data
    size_t rows
    size_t size             # bytes of data

cdef struct Row:
    size_t names            # where exchange and key, then the properties begin in `encoded`
    uint32_t names_len
    uint32_t properties_len
    uint32_t body_len
    const uint8_t *body

cdef class Rows:
    cdef readonly size_t count
    cdef readonly set exchanges     # names of all that are published to, as bytes
    cdef Row *rows
    cdef Bytes encoded
    cdef list held                  # the memory that bodies lie in
