"""A filter whose last word a filter class has."""

from leporid.engine.selectors.filter cimport Filter

cdef class ClassFilter(Filter):
    cdef readonly str name          # the class's
    cdef Filter first               # passed by what it is asked about
