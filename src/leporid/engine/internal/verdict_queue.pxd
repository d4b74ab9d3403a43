"""The messages of one binding that wait for the verdicts of a filter class."""

from libc.stdint cimport uint64_t

from leporid.engine.publishing.publishing cimport Publishing
from leporid.engine.queue.index cimport Slot
from leporid.engine.queue.queue cimport Queue
from leporid.engine.routing.route cimport Route
from leporid.engine.selecting.verdicts cimport Verdicts
from leporid.engine.wire.record cimport Record

cdef class VerdictQueue(Queue):
    cdef Publishing publishing
    cdef Verdicts verdicts
    cdef readonly uint64_t passed       # messages since the start, as are the next two
    cdef readonly uint64_t dropped
    cdef readonly uint64_t unroutable   # of those that passed
    cdef readonly bint judging          # a batch is out
    cdef bint republishing              # its verdicts came, and some messages are not republished
    cdef bint in_turns                  # it is not done within the call of `judged`
    cdef object routed                  # (exchange, keys, properties) -> steps, for an exchange
    cdef object elsewhere               # -> queues of the alternate exchange; None: there is none
    cdef Route route_to_queue           # to the binding's queue; None: see `routed`
    cdef list asked                     # sequence numbers of the batch that is out
    cdef dict had                       # number -> ids of queues that have it by another verdict
    cdef int forward(self, uint64_t seq, Slot *slot, Route route, list keys) except -1
    cdef list others_of(self, const Record *record)
    cdef Route without_holders(self, uint64_t seq, const Record *record, Route route)
    cdef int note_had(self, uint64_t seq, set queues) except -1
