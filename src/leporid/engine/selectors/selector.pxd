"""A filter that is a compiled expression."""

from leporid.engine.selectors.filter cimport Filter
from libc.stdint cimport uint8_t, uint64_t

cdef extern from "selector.h" nogil:
    int NO_MEMORY

    ctypedef struct Program:
        pass

    Program *program_open(const uint8_t *p, size_t n, int *failed)
    void program_close(Program *program)
    int program_matches(const Program *program, const uint8_t *names, size_t names_len,
                        const uint8_t *properties, size_t properties_len, uint64_t *work)

cdef class Selector(Filter):
    cdef Program *program
    cdef bytes code             # the program's texts lie in it
