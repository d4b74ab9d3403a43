"""Channels with deliveries that nobody settles."""

from libc.stdint cimport uint64_t

from leporid.engine.plane cimport Plane
from leporid.engine.queue.timers cimport Timers

cdef class Timeouts:
    cdef Plane plane
    cdef Timers timers              # of channels: `seq` is the channel's number here
    cdef dict channels              # those with consumers or unsettled deliveries, by that number
    cdef uint64_t numbers
    cdef bint changed               # a queue's timeout: all channels are looked at once
    cdef int watch(self, object given, uint64_t timeout_ms) except -1
    cdef int forget(self, object given) except -1
    cdef int turn(self) except -1
    cdef int look(self, object given) except -1
    cdef int set_alarm(self, object given, uint64_t at_ms) except -1
    cdef int prune(self) except -1

cdef uint64_t timeout_of(Plane plane, object queue, object consumer)
