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
    cdef readonly uint64_t passed       # since the start, and so are the next two
    cdef readonly uint64_t dropped
    cdef readonly uint64_t unroutable   # of those that passed
    cdef readonly bint judging          # a batch is out
    cdef object routed                  # (exchange, keys, properties) -> queues; None: to `way`
    cdef object elsewhere               # the same, of the alternate exchange; None: there is none
    cdef Route way
    cdef list asked                     # the numbers of the batch that is out
    cdef dict had                       # by number: who got it by somebody else's verdict
    cdef int go_on(self, uint64_t seq, Slot *slot) except -1
    cdef list others_of(self, const Record *record)
    cdef Route without_those_who_had_it(self, uint64_t seq, const Record *record, Route route)
    cdef int note_had(self, uint64_t seq, set queues) except -1
