"""Queues that take no message twice, by a header."""

from libc.stdint cimport uint64_t

from leporid.engine.bounds.sharded_dict cimport ShardedDict
from leporid.engine.queue.queue cimport Queue
from leporid.engine.wire.codec cimport Props

cdef class UniqueQueue(Queue):
    cdef ShardedDict keys               # key -> how many entries have it
    cdef set leaving                    # numbers of entries whose key is free before they are gone
    cdef bint holds(self, bytes key) except -1
    cdef int enter(self, uint64_t seq, uint64_t position) except -1
    cdef int leave(self, uint64_t seq, uint64_t position) except -1

cdef bytes key_of(const Props *props)
