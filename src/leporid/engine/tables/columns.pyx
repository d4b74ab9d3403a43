"""One column of an Arrow table, read in place, on any thread.

Responsible for reading only within a column's buffers, whatever its offsets say. It must not know
pyarrow, nor what a column means. Invariants: no offset is trusted; the buffers stay allocated as
long as the list `held`.
"""

from libc.stdint cimport int32_t, uint8_t
from libc.string cimport memset
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer


cdef class _Held:
    """A buffer of another object, held while it is read."""

    cdef Py_buffer view

    def __cinit__(self, owner):
        PyObject_GetBuffer(owner, &self.view, PyBUF_SIMPLE)

    def __dealloc__(self):
        PyBuffer_Release(&self.view)


cdef Column open_column(object array, list held, int layout) except *:
    """Open an Arrow array, (rows, buffers), of a layout; None: a column of nulls."""
    cdef Column column
    cdef _Held part
    cdef list parts = []
    memset(&column, 0, sizeof(Column))
    if array is None:
        return column
    column.rows, buffers = array
    for owner in buffers:
        parts.append(None if owner is None else _Held(owner))
    if len(parts) != (1 if layout == STRUCT else 2 if layout != TEXT else 3):
        raise ValueError("a column has not the buffers of its type")
    held.extend(parts)
    if parts[0] is not None:
        part = parts[0]
        if <size_t> part.view.len < (column.rows + 7) // 8:
            raise ValueError("a column has fewer validity bits than rows")
        column.valid = <const uint8_t *> part.view.buf
    if layout == STRUCT or not column.rows:
        return column
    if layout == TEXT or layout == MAP:
        part = parts[1]
        if part is None or <size_t> part.view.len < (column.rows + 1) * sizeof(int32_t):
            raise ValueError("a column has fewer offsets than rows")
        column.offsets = <const int32_t *> part.view.buf
    part = parts[len(parts) - 1]
    if layout != MAP and part is not None:
        column.data = <const uint8_t *> part.view.buf
        column.size = part.view.len
    if layout > 0 and column.size < column.rows * layout:
        raise ValueError("a column has fewer values than rows")
    return column
