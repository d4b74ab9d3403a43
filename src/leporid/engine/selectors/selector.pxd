"""A filter that is a compiled expression."""

from leporid.engine.selectors.filter cimport Filter
from leporid.engine.selectors.machine cimport Program

cdef class Selector(Filter):
    cdef Program *program
    cdef bytes code             # the program's texts lie in it
