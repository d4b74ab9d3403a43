"""The consumers of a queue of which some have filters."""

from libc.stdint cimport int64_t, uint32_t, uint64_t

cdef class FilteredConsumers    # before the modules that know it, too

from leporid.engine.queue.index cimport Slot
from leporid.engine.queue.queue cimport Queue
from leporid.engine.queue.sequence_heap cimport SequenceHeap
from leporid.engine.queue.takers cimport Selection, Taker, Takers
from leporid.engine.selecting.consumer_verdicts cimport ConsumerVerdicts
from leporid.engine.selecting.scan_groups cimport ScanGroup
from leporid.engine.selecting.verdicts cimport Verdicts
from leporid.engine.selectors.filter cimport FilterCounters

cdef class Searches:
    cdef Verdicts verdicts
    cdef public int64_t work        # budget of all searches in one turn
    cdef list queues                # queues whose search goes on in the next turn
    cdef readonly FilterCounters filters    # of all consumers of queues
    cdef dict by_class              # ConsumerVerdicts, by filter class
    cdef int turn(self) except -1

cdef class SelectorGroup(Taker):
    cdef object key                 # equal for equal filters
    cdef Takers takers              # its consumers
    cdef Py_ssize_t count           # of consumers
    cdef ScanGroup scan_group       # None: it takes every message
    cdef uint32_t number            # in its scan group
    cdef list found                 # matches: a SequenceHeap for each priority; some are gone
    cdef uint64_t found_count
    cdef bint idle                  # waits for its scan group to find a match
    cdef ConsumerVerdicts verdicts  # None: it has no filter class

cdef class GroupConsumers(Takers):
    cdef SelectorGroup group
    cdef FilteredConsumers selection

cdef class FilteredConsumers(Selection):
    cdef Queue queue
    cdef Searches searches
    cdef FilterCounters counters
    cdef dict by_key
    cdef list scan_groups
    cdef list all_verdicts          # those of groups that ask a filter class
    cdef Takers turns               # groups that may have a message and a consumer that can take
    cdef SelectorGroup everything   # the group of the consumers without a filter
    cdef SequenceHeap again         # requeued entries that were not evaluated again yet
    cdef int lanes                  # number of the queue's priorities
    cdef int64_t budget, share      # work left for this turn, and granted to the next
    cdef int begin(self, SelectorGroup group) except -1
    cdef int forget(self, SelectorGroup group) except -1
    cdef int deliver_to_others(self) except -1
    cdef int wake_later(self) except -1
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
    cdef bint evaluate_again(self, uint64_t seq, const Slot *slot) except -1
    cdef int postpone(self) except -1

cdef FilteredConsumers selection_of(Queue queue, Searches searches)
