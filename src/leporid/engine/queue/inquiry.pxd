"""What a wish asks a filter class, and what came of it."""

from libc.stdint cimport uint64_t

cdef class Inquiry  # before the modules that know it, too

from leporid.engine.queue.order cimport Order
from leporid.engine.plane cimport Plane
from leporid.engine.queue.wishes cimport Wish, Wishes

cdef class Inquiry:
    cdef readonly str name          # the class's
    cdef Wish wish                  # None: nobody wants to know any more
    cdef Wishes wishes
    cdef list doubts                # an Order for each priority: to be asked about
    cdef uint64_t doubt_count
    cdef list out                   # the same: of the batch that is out
    cdef list asked                 # all of that batch, as it was asked; empty: none is out
    cdef bint void                  # its verdicts are of no use
    cdef int drop(self) except -1
    cdef int doubt(self, uint64_t seq, int lane) except -1
    cdef int best(self) except -2
    cdef int look_ahead(self) except -1
    cdef int search(self) except -1
    cdef int ask(self) except -1
    cdef int forget_doubts(self) except -1
    cdef int start_over(self) except -1
    cdef int prune(self) except -1
    cdef int recede(self, uint64_t seq, int lane) except -1
    cdef bint enough(self) except -1
    cdef int clean(self, Order order) except -1
    cdef list take_back(self)
    cdef int go_on(self) except -1

cdef int renew_class(Plane plane, str name) except -1
cdef object waiting_for(Plane plane, str name)
