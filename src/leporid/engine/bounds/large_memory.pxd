"""Memory of many pages: arrays that grow without a copy, and giving memory back in steps."""

from libc.stdint cimport uint8_t

from leporid.engine.bounds.clock cimport Clock

cdef enum:
    STEP_BYTES = 1024 * 1024        # that are given back at a time: 0.1 ms

cdef class LargeMemory:
    cdef uint8_t *base
    cdef size_t bytes

cdef void *grow_array(void *array, size_t before, size_t after) noexcept
cdef void free_array(void *array, size_t size) noexcept
cdef void leave(uint8_t *base, size_t size) noexcept
cdef bint is_leaving() noexcept
cdef void give_back(Clock clock) noexcept
