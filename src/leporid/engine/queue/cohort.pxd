"""Filters that have looked at the same messages of a queue."""

from libc.stdint cimport uint32_t, uint64_t

cdef class Cohort   # before the modules that know it, too

from leporid.engine.queue.index cimport Slot
from leporid.engine.queue.order cimport Order
from leporid.engine.selectors.selector_set cimport SelectorSet
from leporid.engine.queue.wishes cimport Wish, Wishes

cdef uint64_t found_most(Wishes wishes)

cdef class Cohort:
    cdef Wishes wishes
    cdef SelectorSet set
    cdef list members               # by their number in the set
    cdef uint64_t cursors[256]      # for each priority: all entries before were looked at
    cdef bint fresh                 # it has not begun
    cdef bint crowded               # something was found for somebody who has enough
    cdef Py_ssize_t idle            # members that wait for something
    cdef uint64_t heaviest, weight  # of the members' filters: what asking one, or all, costs
    cdef int join(self, Wish wish) except -1
    cdef int leave(self, Wish wish) except -1
    cdef bint is_full(self)
    cdef int scan(self, int lane, Wish wanted) except -1
    cdef bint served(self, Wish wanted, int lane)
    cdef int look(self, uint64_t seq, int lane, const Slot *slot) except -1
    cdef int find(self, Wish wish, uint64_t seq, int lane) except -1
    cdef Cohort ahead(self, int lane)
    cdef int meet(self, Cohort other) except -1
    cdef int make_room(self) except -1
    cdef uint64_t prune(self, list found) except? 0
    cdef int recede(self, uint64_t seq, int lane) except -1
