"""A dict that never grows in one long step."""

from libc.stdint cimport uint64_t


cdef class Shard:
    cdef int level
    cdef Py_ssize_t count
    cdef dict entries           # None once it has become several
    cdef list shards
    cdef int divide(self) except -1
    cdef int add(self, key, value) except -1
    cdef Shard next(self, uint64_t mixed)


cdef class ShardedDict:
    cdef Shard root
    cpdef object get(self, key)
    cdef Shard shard(self, key)
    cdef int change_counts(self, key, int by) except -1
