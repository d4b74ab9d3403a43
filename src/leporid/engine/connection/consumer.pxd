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
    cdef uint64_t *delivered        # counts its deliveries, of its queue
    cdef uint64_t *type_delivered   # and of all queues of this type
    cdef uint64_t timeout_ms        # NO_LIMIT: its queue's
    cdef int timeout_requeues       # -1: its queue's
    cdef bint replies               # to direct reply-to: deliveries use up no tag
    cdef bytes head                 # class, method and consumer tag of basic.deliver
    cdef Credit credit              # a limit shared with others, besides the channel's; or None
    cdef WaitingConsumers group     # waits with it for the channel's limit; None: it never waited
    cdef bint has_credit(self) except -1

cdef bint has_room(Consumer consumer) except -1
