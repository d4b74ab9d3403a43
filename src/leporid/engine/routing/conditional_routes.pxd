"""Routes with filters."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from leporid.engine.selectors.filter cimport Filter
from leporid.engine.selectors.filter_counters cimport FilterCounters
from leporid.engine.queue.queue cimport Queue
from leporid.engine.selectors.selector_set cimport SelectorSet
from leporid.engine.routing.route cimport Route
from leporid.engine.wire.record cimport Message

cdef class ConditionalRoute:
    cdef object __weakref__
    cdef FilterCounters totals
    cdef readonly bint amended      # it has other filters than it was made of
    cdef list always                # queues of every message
    cdef frozenset everywhere       # the same
    cdef SelectorSet members        # the filters of the others
    cdef dict numbers               # of members, by filter and queue
    cdef dict places                # of the queues of some, in the lists that follow
    cdef list chosen                # these queues; None: the place is vacant
    cdef list users                 # how many members each has
    cdef list single                # the route of a message to one; made when there is one
    cdef list vacant                # places
    cdef uint32_t *place_of         # of the queue of each member, among the chosen
    cdef uint64_t *last             # the turn in which each of the chosen was chosen last
    cdef uint32_t size_of_places, size_of_last
    cdef uint64_t turn
    cdef Route otherwise            # of a message that passes no filter
    cpdef int add(self, Filter wanted, Queue queue) except -1
    cpdef int remove(self, Filter wanted, Queue queue) except -1
    cdef Route route_of(self, FilterCounters counters, const Message *message)

cdef class FilterOutcomes:
    cdef object __weakref__
    cdef FilterCounters totals
    cdef SelectorSet members
    cdef uint64_t evaluated, failed     # of the last message
    cdef uint32_t count                 # that it passed
    cdef bytes passed_by(self, const Message *message)
    cdef int note(self, FilterCounters counters) except -1
