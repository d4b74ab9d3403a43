"""Timeouts of unsettled deliveries."""

from libc.stdint cimport uint64_t

cdef class Check        # before the modules that know them, too
cdef class Timeouts

from leporid.engine.connection.channel cimport Channel
from leporid.engine.connection.connections cimport Connections
from leporid.engine.connection.consumer cimport Consumer
from leporid.engine.queue.queue cimport Queue
from leporid.engine.queue.timers cimport Timers

cdef class Check:
    cdef Channel channel
    cdef uint64_t upto              # the delivery tag that it has come to
    cdef uint64_t looked            # how many deliveries it has looked at
    # The first of these to be overdue, and the shortest timeout among them.
    cdef uint64_t earliest_ms, least_ms
    cdef bint all                   # of its deliveries have been looked at
    cdef object consumers           # that are still to be looked at; None: deliveries are first

cdef class Timeouts:
    cdef Connections connections
    cdef readonly Timers timers     # of channels: `seq` is a channel's watch_number
    cdef dict channels              # with consumers or unsettled deliveries, by watch_number
    cdef uint64_t numbers           # the last watch_number
    cdef object changing            # watch_numbers of those whose timeout may be another; or None
    cdef object checks              # under way; a turn goes on with the first
    cdef bint late                  # a turn had no time for all that was due
    cdef int watch(self, Channel channel, uint64_t timeout_ms) except -1
    cdef int forget(self, Channel channel) except -1
    cdef int turn(self) except -1
    cdef int change_some(self) except -1
    cdef int begin(self, Channel channel) except -1
    cdef bint look(self, Check check) except -1
    cdef bint look_at_consumers(self, Check check) except -1
    cdef int end(self, Check check) except -1
    cdef int set_alarm(self, Channel channel, uint64_t at_ms) except -1

cdef uint64_t timeout_of(Connections connections, Queue queue, Consumer consumer)
