"""Credit that several consumers of one channel share."""

from libc.stdint cimport uint32_t, uint64_t

cdef class Credit   # before the modules that know it, too

from leporid.engine.connection.channel cimport Channel
from leporid.engine.queue.queue cimport Queue
from leporid.engine.queue.takers cimport SharedCredit, Taker, Takers

cdef class Credit(SharedCredit):
    cdef readonly uint32_t limit
    cdef readonly uint32_t used
    cdef readonly uint64_t asked    # how often a consumer was asked whether it takes
    cdef Channel channel
    cdef Takers waiting             # a WaitingQueue for each queue, in the order of their turns
    cdef dict queues                # queue -> WaitingQueue
    cdef dict groups                # (home, priority) -> WaitingConsumers
    cdef bint pending               # is in queues.offers
    cdef Queue granted              # the queue whose consumers may take one delivery now,
    cdef uint64_t granted_tag       # as long as this is the channel's delivery tag
    cdef Queue last                 # the queue of the channel's delivery `last_tag`
    cdef uint64_t last_tag
    cdef bint available(self)
    cdef bint grants(self, Queue queue, int priority) except -1
    cdef int wait(self, Taker consumer) except -1
    cdef int enqueue(self, Taker taker, Queue queue) except -1
    cdef int forget(self, Taker consumer) except -1
    cdef int take_one(self) except -1
    cdef int give_one(self) except -1
    cdef int freed(self) except -1
    cdef int release(self) except -1

cdef class ChannelCredit(Credit):
    pass

cdef class WaitingQueue(Taker):
    cdef Credit credit
    cdef Queue queue
    cdef Takers takers              # highest priority first

cdef class WaitingConsumers(Taker):
    cdef Credit credit
    cdef Queue queue
    cdef Takers members             # consumers that wait, longest first
    cdef Py_ssize_t count           # of its consumers, waiting or not
