"""Columns in Arrow's layout: memory that is filled row by row and then handed over.

Responsible for offsets, validity bits and the memory of one column, and for exporting it through
the buffer protocol. It must not know what a column means.

Invariant: memory belongs to an `Array` until `give`, and from then on to `Buffer` objects, which
free it with their last reader.
"""

from libc.stdint cimport int32_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset
from cpython.buffer cimport PyBuffer_FillInfo


cdef uint8_t nothing[8]


cdef class Buffer:
    """Memory of one column, exported through the buffer protocol; read only."""

    def __dealloc__(self):
        free(self.data)

    def __getbuffer__(self, Py_buffer *view, int flags):
        # An empty buffer has an address, too: some readers require one.
        PyBuffer_FillInfo(view, self, nothing if self.data == NULL else self.data, self.size,
                          True, flags)

    def __len__(self):
        return self.size


cdef Buffer own(void *data, size_t size):
    """A buffer that owns memory from malloc."""
    cdef Buffer buffer = Buffer()
    buffer.data = data
    buffer.size = size
    return buffer


cdef int open_array(Array *array, size_t rows, int width, bint nullable) noexcept nogil:
    memset(array, 0, sizeof(Array))
    if nullable:
        array.valid = <uint8_t *> calloc(max(1, (rows + 7) // 8), 1)
        if array.valid == NULL:
            return NO_MEMORY
    if width == TEXT:
        array.offsets = <int32_t *> calloc(rows + 1, sizeof(int32_t))
        return NO_MEMORY if array.offsets == NULL else DONE
    array.data.data = <uint8_t *> calloc(max(1, rows), width)
    array.data.size = array.data.used = rows * width
    return NO_MEMORY if array.data.data == NULL else DONE


cdef void close_array(Array *array) noexcept nogil:
    free(array.offsets)
    free(array.valid)
    free(array.data.data)
    memset(array, 0, sizeof(Array))


cdef tuple give(Array *array, size_t rows, list children):
    """(number of nulls, buffers, children); the memory is handed over to the buffers."""
    cdef list buffers = []
    cdef size_t missing = 0
    if array.valid != NULL:
        missing = rows - array.present
    if missing:
        buffers.append(own(array.valid, (rows + 7) // 8))
        array.valid = NULL
    else:
        buffers.append(None)
    if array.offsets != NULL:
        reach(array, rows)
        buffers.append(own(array.offsets, (rows + 1) * sizeof(int32_t)))
        array.offsets = NULL
    if not children:
        buffers.append(own(array.data.data, array.data.used))
        array.data.data = NULL
    return missing, buffers, children
