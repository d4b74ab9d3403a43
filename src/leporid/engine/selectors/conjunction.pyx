"""Two filters that must both let a message pass; one of them may be two again.

It does not know what they ask for. Invariant: the first is asked first, and the second only about
what the first lets pass; so the cheaper one stands first.
"""

from libc.stdint cimport uint8_t

from leporid.engine.selectors.filter cimport Filter


cdef class Conjunction(Filter):
    """Lets those messages pass that two filters let pass."""

    def __cinit__(self, Filter first not None, Filter second not None):
        self.first, self.second = first, second

    cdef int matches(self, const uint8_t *names, size_t names_len, const uint8_t *properties,
                     size_t properties_len) noexcept nogil:
        cdef int outcome = self.first.matches(names, names_len, properties, properties_len)
        if outcome == 1:
            outcome = self.second.matches(names, names_len, properties, properties_len)
        return self.failed() if outcome < 0 else outcome
