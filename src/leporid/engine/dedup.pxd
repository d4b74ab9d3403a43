"""Messages that are known by a header, so that none of them comes twice."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from leporid.engine.queue cimport Queue
from leporid.engine.source cimport Route
from leporid.engine.wire cimport Props, Record

cdef class UniqueQueue(Queue):
    cdef dict keys                      # how many entries have each
    cdef set leaving                    # sequence numbers whose key is free before they are gone
    cdef bint holds(self, bytes key) except -1
    cdef int enter(self, uint64_t seq, uint64_t position) except -1
    cdef int leave(self, uint64_t seq, uint64_t position) except -1

cdef const uint8_t *find_header(const Props *props, const uint8_t *name, uint8_t *type,
                                uint32_t *size) noexcept nogil
cdef bint as_integer(uint8_t type, const uint8_t *p, int64_t *number) noexcept nogil
cdef int props_of(const Record *record, Props *props) noexcept nogil
cdef bytes key_of(const Props *props)
cdef Route unguarded(Route route, const Props *props)
cdef list without_caches(list queues)
