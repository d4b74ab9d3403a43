"""Producers and their sequence numbers, by which a repeated publish is recognized."""

from libc.stdint cimport uint32_t, uint64_t

from leporid.engine.log.log cimport Log
from leporid.engine.wire.record cimport Record

cdef class Producer:
    cdef readonly bytes reference
    cdef readonly uint32_t number       # its id in the records of one log
    cdef readonly uint64_t next         # sequence numbers below were published
    cdef uint64_t closing               # `next` when the newest sync began
    cdef uint64_t safe                  # `next` when the one before began: on disk for sure

cdef class Producers:
    cdef dict by_reference              # the least recently used first
    cdef dict by_number
    cdef uint32_t last_number
    cdef uint32_t told                  # number of the segment with a fact about every producer
    cdef Producer find(self, bytes reference)
    cdef Producer get(self, Log log, bytes reference, uint64_t timestamp_ms)
    cdef int tell(self, Log log, Producer producer, uint64_t timestamp_ms) except -1
    cdef int begin_sync(self, Log log, uint64_t timestamp_ms) except -1
    cdef int learn(self, const Record *record) except -1
    cdef int meet(self, const Record *record) except -1
    cdef int doubt(self) except -1
