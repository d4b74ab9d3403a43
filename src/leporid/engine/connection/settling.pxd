"""Settling what a channel had delivered."""

from libc.stdint cimport uint64_t

from leporid.engine.connection.channel cimport Channel
from leporid.engine.connection.consumer cimport Consumer
from leporid.engine.queue.queue cimport Queue

cdef int settle(Channel channel, uint64_t tag, bint multiple, int how) except -1
cdef int take_back(Channel channel, size_t at) except -1
cdef int recover(Channel channel) except -1
cdef int drop_unsettled(Channel channel, Consumer consumer) except -1
cdef int give_back_unsettled(Channel channel, int how) except -1
cdef int settle_entry(Channel channel, Queue queue, uint64_t seq, Consumer taker, int how) except -1
