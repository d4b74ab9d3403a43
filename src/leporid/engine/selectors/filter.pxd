"""What chooses messages: by their tag, or by an expression."""

from libc.stdint cimport uint8_t, uint64_t

cdef class Filter:
    cdef uint64_t errors        # type errors; changed by any thread
    # 1: the message passes; 0: it does not; -1: it does not, and there was a type error. Any thread
    # may ask, of bytes as a record has them: `names` are exchange and key, both short strings.
    cdef int matches(self, const uint8_t *names, size_t names_len, const uint8_t *properties,
                     size_t properties_len) noexcept nogil
    cdef int failed(self) noexcept nogil

cdef bytes short(str text)
