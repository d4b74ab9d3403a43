"""Timeouts of unsettled deliveries."""

from libc.stdint cimport uint64_t

cdef class Timeouts     # before the modules that know it, too

from leporid.engine.connection.channel cimport Channel
from leporid.engine.connection.connections cimport Connections
from leporid.engine.connection.consumer cimport Consumer
from leporid.engine.queue.queue cimport Queue
from leporid.engine.queue.timers cimport Timers

cdef class Timeouts:
    cdef Connections connections
    cdef Timers timers              # of channels: `seq` is a channel's watch_number
    cdef dict channels              # with consumers or unsettled deliveries, by watch_number
    cdef uint64_t numbers           # the last watch_number
    cdef int watch(self, Channel channel, uint64_t timeout_ms) except -1
    cdef int forget(self, Channel channel) except -1
    cdef int turn(self) except -1
    cdef int look(self, Channel channel) except -1
    cdef int set_alarm(self, Channel channel, uint64_t at_ms) except -1

cdef uint64_t timeout_of(Connections connections, Queue queue, Consumer consumer)
