"""Routes with filters."""

from libc.stdint cimport uint32_t, uint64_t

from leporid.engine.bounds.clock cimport Clock
from leporid.engine.queue.queue cimport Queue
from leporid.engine.routing.route cimport Route
from leporid.engine.selectors.filter cimport Filter, FilterCounters
from leporid.engine.selectors.selector_set cimport SelectorSet
from leporid.engine.selectors.unfinished_match cimport UnfinishedMatch
from leporid.engine.wire.record cimport Message

cdef class UnfinishedRoute

cdef class ConditionalRoute:
    cdef object __weakref__
    cdef FilterCounters totals
    cdef readonly bint amended      # its filters have changed since it was made
    cdef list always                # queues that take every message
    cdef frozenset everywhere       # the same
    cdef SelectorSet members        # the filters of the other queues
    cdef dict numbers               # (filter, queue) -> member
    cdef dict places                # queue with filters -> its place in the lists that follow
    cdef list chosen                # these queues; None: the place is vacant
    cdef list users                 # how many members each of them has
    cdef list single                # the route of a message to one of them; None: not made yet
    cdef list vacant                # vacant places
    cdef uint32_t *place_of         # of each member's queue
    cdef uint64_t *last             # the last message, by `turn`, that each of these queues took
    cdef uint32_t size_of_places, size_of_last
    cdef uint64_t turn
    cdef Route otherwise            # of a message that passes no filter
    cdef UnfinishedRoute unfinished     # of the last message, if it was left so and is not taken
    cpdef int add(self, Filter wanted, Queue queue) except -1
    cpdef int remove(self, Filter wanted, Queue queue) except -1
    cdef Route route_of(self, FilterCounters counters, const Message *message, Clock clock)

cdef class UnfinishedRoute:
    cdef ConditionalRoute source
    cdef FilterCounters counters
    cdef UnfinishedMatch rest
    cdef dict queues                    # that take the message, as far as is known
    cdef int take_over(self) except -1
    cdef Route go_on(self, const Message *message, Clock clock)

cdef class FilterOutcomes:
    cdef object __weakref__
    cdef FilterCounters totals
    cdef SelectorSet members
    cdef uint64_t evaluated, failed     # of the last message, in the last slice
    cdef bytes passed_by(self, const Message *message, Clock clock)
    cdef bytes go_on(self, UnfinishedMatch rest, bytes found, const Message *message, Clock clock)
    cdef bytes so_far(self, bytes before)
    cdef int note(self, FilterCounters counters, size_t passed) except -1
