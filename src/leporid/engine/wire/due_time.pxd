"""When a message is due by its headers; due_time.pyx says how."""

from libc.stdint cimport int64_t, uint8_t, uint64_t

from leporid.engine.wire.codec cimport Props

cdef enum:
    WHEN_NOW = 0
    WHEN_DUE = 1
    WHEN_INVALID = -1
    WHEN_TOO_FAR = -2

cdef enum:
    NEGATED_BYTES = 8           # that `negated` may need beyond what it copies

cdef extern from *:
    int64_t DELAY_MS_MAX "315360000000ll"       # ten years, as of anything that expires

cdef int find_delay(const Props *props, uint64_t came_ms, int64_t *due_ms) noexcept nogil
cdef int find_due(const Props *props, uint64_t came_ms, bint delaying,
                  int64_t *due_ms) noexcept nogil
cdef size_t negated(uint8_t *to, const uint8_t *properties, size_t n, const Props *props,
                    int mark) noexcept nogil
