"""A column in Arrow's layout while it is being filled."""

from libc.stdint cimport int32_t, uint8_t

from leporid.engine.wire.codec cimport DONE
from leporid.engine.wire.text cimport NO_MEMORY, Bytes, put_text

cdef enum:
    TEXT = 0                        # as a width: values have offsets, and any length

cdef struct Array:
    int32_t *offsets                # of a text or a map: the start of each row; NULL: fixed width
    uint8_t *valid                  # one bit per row; NULL: no row is null
    Bytes data
    size_t filled                   # offsets are set up to this row
    size_t present                  # bits that are set

cdef class Buffer:
    cdef void *data
    cdef Py_ssize_t size

cdef int open_array(Array *array, size_t rows, int width, bint nullable) noexcept nogil
cdef void close_array(Array *array) noexcept nogil
cdef tuple give(Array *array, size_t rows, list children)


cdef inline void mark(Array *array, size_t row) noexcept nogil:
    """Note that a row has a value."""
    array.valid[row >> 3] |= <uint8_t> (1 << (row & 7))
    array.present += 1


cdef inline void reach(Array *array, size_t row) noexcept nogil:
    """Begin a row at the end of the data; skipped rows are empty."""
    while array.filled < row:
        array.filled += 1
        array.offsets[array.filled] = <int32_t> array.data.used


cdef inline int put_row(Array *array, size_t row, const uint8_t *text, size_t size) noexcept nogil:
    """Append a row of text that a peer sent; rows come in order."""
    reach(array, row)
    if put_text(&array.data, text, size):
        return NO_MEMORY
    reach(array, row + 1)
    if array.valid != NULL:
        mark(array, row)
    return DONE
