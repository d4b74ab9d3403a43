"""A consumer of a queue."""

from libc.stdint cimport uint32_t, uint64_t

cdef class Consumer     # before the modules that know it, too

from leporid.engine.connection.channel cimport Channel
from leporid.engine.connection.credit cimport Credit, WaitingConsumers
from leporid.engine.queue.queue cimport Queue
from leporid.engine.queue.takers cimport Taker

cdef class Consumer(Taker):
    cdef readonly str tag
    cdef readonly Queue queue
    cdef readonly Channel channel
    cdef readonly bint no_ack
    cdef readonly uint32_t prefetch
    cdef uint64_t timeout_ms        # UINT64_MAX: as its queue says
    cdef int timeout_requeues       # -1: as its queue says
    cdef bint replies               # to direct reply-to: such deliveries use up no tag
    cdef bytes head
    cdef Credit credit              # besides its channel's: that it shares with others; or None
    cdef WaitingConsumers group     # with whom it waits for its channel's; None: it never had to
    cdef bint has_credit(self)

cdef bint has_room(Consumer consumer) except -1
