"""C declarations of `fields.h`: the values of a field table as they are encoded."""

from libc.stdint cimport int64_t, uint8_t, uint32_t

from leporid.engine.wire.wire cimport Props

cdef extern from "fields.h" nogil:
    int DONE
    int MALFORMED

    int next_value(const uint8_t **at, const uint8_t *end, uint8_t *type,
                   const uint8_t **content, uint32_t *size)
    int find_header(const Props *props, const char *name, uint8_t n, uint8_t *type,
                    const uint8_t **content, uint32_t *size)
    int as_integer(uint8_t type, const uint8_t *content, int64_t *number)
    int as_real(uint8_t type, const uint8_t *content, double *number)
