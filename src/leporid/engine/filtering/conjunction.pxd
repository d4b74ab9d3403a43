"""Two filters that must both let a message pass."""

from leporid.engine.filtering.filter cimport Filter

cdef class Conjunction(Filter):
    cdef Filter first, second
