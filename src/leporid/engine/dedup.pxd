"""Messages that are known by a header, so that none of them comes twice."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from leporid.engine.queue cimport Queue
from leporid.engine.source cimport Route
from leporid.engine.wire cimport Props, Record

cdef class UniqueQueue(Queue):
    cdef dict keys                      # how many entries have each
    cdef set leaving                    # sequence numbers whose key is free before they are gone
    cdef bint holds(self, bytes key)
    cdef int enter(self, uint64_t position) except -1
    cdef int leave(self, uint64_t position) except -1

cdef bytes key_of(const Props *props)
cdef Route unguarded(Route route, const Props *props)
