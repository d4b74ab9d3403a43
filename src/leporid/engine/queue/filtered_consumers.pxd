"""What consumers with filters want of a queue, and what was found for them."""

from libc.stdint cimport int64_t, uint32_t, uint64_t

cdef class FilteredConsumers   # before the modules that know it, too

from leporid.engine.queue.scan_groups cimport ScanGroup
from leporid.engine.queue.index cimport Slot
from leporid.engine.queue.consumer_verdicts cimport ConsumerVerdicts
from leporid.engine.queue.sequence_heap cimport SequenceHeap
from leporid.engine.plane cimport Plane
from leporid.engine.selectors.filter_counters cimport FilterCounters
from leporid.engine.queue.queue cimport Queue
from leporid.engine.queue.takers cimport Taker, Takers

cdef class SelectorGroup(Taker):             # its `filter` is what it asks of messages
    cdef object key                 # equal for filters that ask the same
    cdef Takers takers              # who wants that
    cdef Py_ssize_t count           # of consumers
    cdef ScanGroup scan_group              # None: it wants everything
    cdef uint32_t number            # in the scan_group
    cdef list found                 # an SequenceHeap for each priority; numbers may be of what is gone
    cdef uint64_t found_count
    cdef bint idle                  # has nothing, and somebody waits; or is to ask about more
    cdef ConsumerVerdicts verdicts            # None: no filter class has the last word

cdef class GroupConsumers(Takers):
    cdef SelectorGroup group
    cdef FilteredConsumers selection

cdef class FilteredConsumers:
    cdef Queue queue
    cdef FilterCounters counters
    cdef dict by_key
    cdef list scan_groups
    cdef list all_verdicts             # those of selection that ask a filter class
    cdef Takers turns               # selection that may have something for somebody who can take
    cdef SelectorGroup everything            # of consumers without a filter
    cdef SequenceHeap again                # came back, and was not looked at since
    cdef int lanes                  # priorities that the queue knows
    cdef uint64_t ends[256]         # with priorities: the last entry of each, and one
    cdef int64_t budget, share      # work that is left for this turn, and that the next one has
    cdef bint searching             # stands in plane.searching
    cdef int attach(self, Taker taker) except -1
    cdef int begin(self, SelectorGroup group) except -1
    cdef bint detach(self, Taker taker) except -1
    cdef int forget(self, SelectorGroup group) except -1
    cdef int came_back(self, uint64_t seq) except -1
    cdef int purged(self) except -1
    cdef int deliver(self) except -1
    cdef int deliver_to_others(self) except -1
    cdef Slot *claim(self, SelectorGroup group, uint64_t *seq) except NULL
    cdef int take_turns(self, SelectorGroup group) except -1
    cdef int rouse(self, SelectorGroup group) except -1
    cdef int rest(self, SelectorGroup group) except -1
    cdef bint has(self, SelectorGroup group) except -1
    cdef int best(self, SelectorGroup group) except -2
    cdef int unseen(self, ScanGroup scan_group)
    cdef int search(self) except -1
    cdef ScanGroup waiting(self, bint newest)
    cdef int look_again(self) except -1
    cdef int postpone(self) except -1

cdef int search_on(Plane plane) except -1
