"""One column of an Arrow table, read in place."""

from libc.stdint cimport int32_t, uint8_t

# Layouts of a column; above 0: the width of its values in bytes.
cdef enum:
    TEXT = 0
    MAP = -1
    STRUCT = -2

cdef enum:
    WRONG_LAYOUT = 1                # offsets that lead out of the column

cdef struct Column:
    # One Arrow array; NULL for each buffer that it lacks.
    const uint8_t *valid
    const int32_t *offsets
    const uint8_t *data
    size_t rows
    size_t size                     # bytes of data

cdef Column open_column(object array, list held, int layout) except *

cdef inline bint is_there(const Column *column, size_t row) noexcept nogil:
    if row >= column.rows:
        return False
    return column.valid == NULL or column.valid[row >> 3] >> (row & 7) & 1


cdef inline int text_at(const Column *column, size_t row, const uint8_t **text,
                        size_t *size) noexcept nogil:
    """A row's text; NULL for none."""
    cdef int32_t start, end
    text[0] = NULL
    size[0] = 0
    if not is_there(column, row):
        return 0
    start, end = column.offsets[row], column.offsets[row + 1]
    if start < 0 or end < start or <size_t> end > column.size:
        return WRONG_LAYOUT
    # An empty text is not NULL.
    text[0] = column.data + start if column.data != NULL else <const uint8_t *> ""
    size[0] = end - start
    return 0
