"""Runs compiled expressions (`leporid.filters.program`) over encoded messages.

Responsible for a program's memory; what it does is in `selector.h`. It does not know expressions.
Invariant: a `Selector` has a program whose every number was checked when it was loaded.
"""

from libc.stdint cimport uint8_t, uint64_t
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

from leporid.engine.selectors.filter cimport Filter
from leporid.engine.selectors.machine cimport program_close, program_matches, program_open
from leporid.engine.wire.codec cimport NO_MEMORY
from leporid.engine.wire.hashing cimport keep_secret

keep_secret()


cdef class Selector(Filter):
    """Lets those messages pass for which an expression is true."""

    def __cinit__(self, bytes code not None):
        cdef int failed = 0
        self.code = code
        self.program = program_open(<const uint8_t *> PyBytes_AS_STRING(code),
                                    PyBytes_GET_SIZE(code), &failed)
        if self.program == NULL:
            if failed == NO_MEMORY:
                raise MemoryError
            raise ValueError("not a program that a compiler made")

    def __dealloc__(self):
        program_close(self.program)

    cdef int matches(self, const uint8_t *names, size_t names_len, const uint8_t *properties,
                     size_t properties_len) noexcept nogil:
        cdef int outcome = program_matches(self.program, names, names_len, properties,
                                           properties_len, NULL)
        return self.failed() if outcome < 0 else outcome

    def work(self, bytes names not None, bytes properties not None):
        """Steps that a message takes: instructions, fields of its headers, steps of patterns."""
        cdef uint64_t steps = 0
        program_matches(self.program, <const uint8_t *> PyBytes_AS_STRING(names),
                        PyBytes_GET_SIZE(names), <const uint8_t *> PyBytes_AS_STRING(properties),
                        PyBytes_GET_SIZE(properties), &steps)
        return steps
