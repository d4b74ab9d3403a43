"""What chooses messages, and counters of what it was asked."""

from libc.stdint cimport uint8_t, uint64_t

cdef class Filter:
    cdef uint64_t errors        # type errors; changed by any thread
    # 1: the message passes; 0: it does not; -1: it does not, and there was a type error. Any thread
    # may ask, of bytes as a record has them: `names` are exchange and key, both short strings.
    cdef int matches(self, const uint8_t *names, size_t names_len, const uint8_t *properties,
                     size_t properties_len) noexcept nogil
    cdef int failed(self) noexcept nogil

cdef class Conjunction(Filter):
    cdef Filter first, second

cdef class ClassFilter(Filter):
    cdef readonly str name          # the class's
    cdef Filter first               # passed by what it is asked about

cdef class FilterCounters:
    cdef readonly uint64_t asked, evaluated, matched, type_errors
    cpdef int note(self, uint64_t asked, uint64_t evaluated, uint64_t matched,
                   uint64_t type_errors) except -1

cdef bytes short(str text)
