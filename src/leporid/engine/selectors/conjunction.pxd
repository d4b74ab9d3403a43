"""Two filters that must both let a message pass."""

from leporid.engine.selectors.filter cimport Filter

cdef class Conjunction(Filter):
    cdef Filter first, second
