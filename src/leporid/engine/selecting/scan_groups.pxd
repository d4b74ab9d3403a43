"""Selector groups that share a scan through a queue."""

from libc.stdint cimport uint32_t, uint64_t

cdef class ScanGroup    # before the modules that know it, too

from leporid.engine.bounds.clock cimport Clock
from leporid.engine.queue.index cimport Slot
from leporid.engine.selecting.filtered_consumers cimport FilteredConsumers, SelectorGroup
from leporid.engine.selectors.selector_set cimport SelectorSet
from leporid.engine.selectors.unfinished_match cimport UnfinishedMatch

cdef enum:
    UNFINISHED = -1     # the slice was over before every member had evaluated a message

cdef uint64_t found_most(FilteredConsumers selection)

cdef class PendingMatch:
    cdef UnfinishedMatch rest       # None: all members have evaluated it
    cdef list matched               # SelectorGroup; some may have left

cdef class ScanGroup:
    cdef Clock clock
    cdef FilteredConsumers selection
    cdef SelectorSet set
    cdef list members               # SelectorGroup by its number in the set
    cdef uint64_t cursors[256]      # for each priority: all entries before were evaluated
    cdef dict pending               # PendingMatch by the message's number
    cdef bint fresh                 # the scan has not begun
    cdef bint crowded               # a match was found for a group that has enough
    cdef Py_ssize_t idle            # members that wait for a match
    cdef uint64_t heaviest, weight  # cost of the members' filters: of the dearest one, of all
    cdef int join(self, SelectorGroup group) except -1
    cdef int leave(self, SelectorGroup group) except -1
    cdef bint is_full(self)
    cdef int scan(self, int lane, SelectorGroup wanted) except -1
    cdef bint served(self, SelectorGroup wanted, int lane)
    cdef int look(self, uint64_t seq, int lane, const Slot *slot) except -2
    cdef bint evaluate(self, uint64_t seq, const Slot *slot) except -1
    cdef bint has_evaluated(self, uint64_t seq) except -1
    cdef int note(self, uint64_t seq, int lane) except -1
    cdef PendingMatch keep(self, uint64_t seq, uint32_t count)
    cdef uint32_t match(self, const Slot *slot, UnfinishedMatch rest) except? 0xffffffff
    cdef bint has_pending(self) except -1
    cdef int find(self, SelectorGroup group, uint64_t seq, int lane) except -1
    cdef ScanGroup ahead(self, int lane)
    cdef int meet(self, ScanGroup other) except -1
    cdef int make_room(self) except -1
    cdef uint64_t prune(self, list found) except? 0
    cdef int recede(self, uint64_t seq, int lane) except -1
