"""The deduplication cache of an exchange."""

from libc.stdint cimport uint64_t

from leporid.engine.queue.unique_queue cimport UniqueQueue
from leporid.engine.wire.codec cimport Props

cdef class ExchangeCache(UniqueQueue):
    cdef uint64_t cache_ttl             # NO_LIMIT: none
    cdef set reserved                   # keys of the transaction that is being committed
    cdef uint64_t ttl_of(self, const Props *props)
