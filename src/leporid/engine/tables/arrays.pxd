"""One column in Arrow's layout, while it is filled."""

from libc.stdint cimport int32_t, uint8_t

from leporid.engine.wire.codec cimport DONE
from leporid.engine.wire.text cimport NO_MEMORY, Bytes, put_text

cdef enum:
    TEXT = 0                # as a width: values have offsets, and any length

cdef struct Array:
    int32_t *offsets        # of a text or a map: where each row begins; NULL: of one width
    uint8_t *valid          # one bit a row; NULL: no row is missing
    Bytes data
    size_t filled           # offsets are set up to here
    size_t present          # bits that are set

cdef class Buffer:
    cdef void *data
    cdef Py_ssize_t size

cdef int open_array(Array *array, size_t rows, int width, bint nullable) noexcept nogil
cdef void close_array(Array *array) noexcept nogil
cdef tuple give(Array *array, size_t rows, list children)


cdef inline void mark(Array *array, size_t row) noexcept nogil:
    """That row has a value."""
    array.valid[row >> 3] |= <uint8_t> (1 << (row & 7))
    array.present += 1


cdef inline void reach(Array *array, size_t row) noexcept nogil:
    """A row's content begins here; those passed over have none."""
    while array.filled < row:
        array.filled += 1
        array.offsets[array.filled] = <int32_t> array.data.used


cdef inline int put_row(Array *array, size_t row, const uint8_t *text, size_t size) noexcept nogil:
    """One row of text that a peer sent; rows are given in order."""
    reach(array, row)
    if put_text(&array.data, text, size):
        return NO_MEMORY
    reach(array, row + 1)
    if array.valid != NULL:
        mark(array, row)
    return DONE
