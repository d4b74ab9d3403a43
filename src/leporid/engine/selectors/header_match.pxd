"""What a binding of a headers exchange asks of a message's headers."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from leporid.engine.selectors.filter cimport Filter
from leporid.engine.selectors.machine cimport Operand
from leporid.engine.wire.codec cimport Field

cdef enum:
    IS_THERE                    # whatever its value is
    IS_VALUE                    # a text, or a number that an Operand holds
    IS_BOOLEAN
    IS_DECIMAL

cdef struct HeaderTerm:
    const uint8_t *name
    Operand value               # of IS_VALUE; its integer is that of the others
    uint64_t hash               # of the name
    uint32_t next               # in the same bucket
    uint8_t length
    uint8_t kind
    int64_t scale               # of IS_DECIMAL

cdef class HeaderMatch(Filter):
    cdef tuple kept             # (name, wanted) of each term; keeps their bytes
    cdef HeaderTerm *terms
    cdef uint32_t *buckets
    cdef uint32_t count, mask
    cdef uint64_t lengths       # of the names, as bits, modulo 64
    cdef readonly bint any
    cdef const HeaderTerm *find(self, const Field *field) noexcept nogil
    cdef bint holds(self, const HeaderTerm *term, const Field *field) noexcept nogil
