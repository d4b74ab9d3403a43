"""What consumers with filters want of a queue, and what was found for them."""

from libc.stdint cimport int64_t, uint32_t, uint64_t

cdef class Wishes   # before the modules that know it, too

from leporid.engine.queue.cohort cimport Cohort
from leporid.engine.queue.index cimport Slot
from leporid.engine.queue.inquiry cimport Inquiry
from leporid.engine.queue.order cimport Order
from leporid.engine.plane cimport Plane
from leporid.engine.selectors.questions cimport Questions
from leporid.engine.queue.queue cimport Queue
from leporid.engine.queue.takers cimport Taker, Takers

cdef class Wish(Taker):             # its `filter` is what it asks of messages
    cdef object key                 # equal for filters that ask the same
    cdef Takers takers              # who wants that
    cdef Py_ssize_t count           # of consumers
    cdef Cohort cohort              # None: it wants everything
    cdef uint32_t number            # in the cohort
    cdef list found                 # an Order for each priority; numbers may be of what is gone
    cdef uint64_t found_count
    cdef bint idle                  # has nothing, and somebody waits; or is to ask about more
    cdef Inquiry inquiry            # None: no filter class has the last word

cdef class Party(Takers):
    cdef Wish wish
    cdef Wishes wishes

cdef class Wishes:
    cdef Queue queue
    cdef Questions questions
    cdef dict by_key
    cdef list cohorts
    cdef list inquiries             # those of wishes that ask a filter class
    cdef Takers turns               # wishes that may have something for somebody who can take
    cdef Wish everything            # of consumers without a filter
    cdef Order again                # came back, and was not looked at since
    cdef int lanes                  # priorities that the queue knows
    cdef uint64_t ends[256]         # with priorities: the last entry of each, and one
    cdef int64_t budget, share      # work that is left for this turn, and that the next one has
    cdef bint searching             # stands in plane.searching
    cdef int attach(self, Taker taker) except -1
    cdef int begin(self, Wish wish) except -1
    cdef bint detach(self, Taker taker) except -1
    cdef int forget(self, Wish wish) except -1
    cdef int came_back(self, uint64_t seq) except -1
    cdef int purged(self) except -1
    cdef int deliver(self) except -1
    cdef int deliver_to_others(self) except -1
    cdef Slot *claim(self, Wish wish, uint64_t *seq) except NULL
    cdef int take_turns(self, Wish wish) except -1
    cdef int rouse(self, Wish wish) except -1
    cdef int rest(self, Wish wish) except -1
    cdef bint has(self, Wish wish) except -1
    cdef int best(self, Wish wish) except -2
    cdef int unseen(self, Cohort cohort)
    cdef int search(self) except -1
    cdef Cohort waiting(self, bint newest)
    cdef int look_again(self) except -1
    cdef int postpone(self) except -1

cdef int search_on(Plane plane) except -1
