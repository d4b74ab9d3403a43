"""A heap of timers, each for entries of a queue."""

from libc.stdint cimport uint32_t, uint64_t

from leporid.engine.bounds.clock cimport Clock

ctypedef struct Timer:              # 24 bytes
    uint64_t at_ms
    uint64_t seq
    uint32_t queue
    uint32_t count                  # entries from `seq` on that are due at that time

cdef enum:
    STALE_SLACK = 1024              # timers of settled entries, before the heap is pruned

ctypedef bint (*IsCurrent)(object owner, Timer *timer) except -1

cdef class Timers:
    cdef Timer *heap
    cdef readonly size_t count
    cdef size_t capacity
    cdef size_t unseen                  # of the heap, from the first; a prune still looks at them
    cdef Timer open                     # may grow, so it is not in the heap yet; count 0: none
    cdef int add(self, uint64_t at_ms, uint32_t queue, uint64_t seq) except -1
    cdef int close(self) except -1
    cdef int push(self, uint64_t at_ms, uint32_t queue, uint64_t seq) except -1
    cdef int insert(self, Timer timer) except -1
    cdef Timer pop(self)
    cdef uint64_t next_ms(self)
    cdef int remove(self, size_t at) except -1
    cdef bint is_stale(self, uint64_t current)
    cdef bint prune(self, IsCurrent is_current, object owner, Clock clock) except -1
