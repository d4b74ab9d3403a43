"""The messages of a window that match a request."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from leporid.engine.log.window cimport Entry, Window
from leporid.engine.stream.choice cimport Choice, Tally
from leporid.engine.wire.record cimport Record

cdef struct Bounds:
    const uint8_t *key
    const uint8_t *prefix
    const uint8_t *exchange
    Py_ssize_t key_len, prefix_len, exchange_len    # -1: any
    uint64_t since_ms, until_ms

cdef class Chosen:
    cdef readonly uint32_t rows
    cdef const Record **records
    cdef const Entry **entries      # the same rows, if they are of a queue
    cdef Window window              # has their bytes
    cdef Choice choice              # None: no filter
    cdef Tally tally
    cdef int choose(self, const Bounds *bounds) noexcept nogil
    cdef int choose_entries(self, const Bounds *bounds) noexcept nogil
    cdef bint passes(self, const Record *record, const Bounds *bounds) noexcept nogil
