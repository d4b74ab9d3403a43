"""A filter whose last word a filter class has, which is asked later and elsewhere.

Responsible for naming the class, and for the filter beside it, which is asked first. It does not
know how a class is asked: whoever uses such a filter sees to that. Invariant: what the class lets
pass, this lets pass; so a message that it refuses need not be judged.
"""

from libc.stdint cimport uint8_t

from leporid.engine.selectors.filter cimport Filter


cdef class ClassFilter(Filter):
    """Lets those messages pass that may be judged."""

    def __cinit__(self, str name not None, Filter first=None):
        self.name = name
        self.first = Filter() if first is None else first

    def __repr__(self):
        return f"<ClassFilter {self.name!r}>"

    cdef int matches(self, const uint8_t *names, size_t names_len, const uint8_t *properties,
                     size_t properties_len) noexcept nogil:
        return self.first.matches(names, names_len, properties, properties_len)
