"""The messages that a selector group's filter class is asked about."""

from libc.stdint cimport uint64_t

cdef class ConsumerVerdicts     # before the modules that know it, too

from leporid.engine.queue.sequence_heap cimport SequenceHeap
from leporid.engine.selecting.filtered_consumers cimport FilteredConsumers, SelectorGroup

cdef class ConsumerVerdicts:
    cdef readonly str name          # of the class
    cdef SelectorGroup group        # None: its last consumer has left
    cdef FilteredConsumers selection
    cdef list doubts                # messages to ask about: a SequenceHeap for each priority
    cdef uint64_t doubt_count
    cdef list out                   # messages of the batch that is out: likewise
    cdef list asked                 # that batch in its order; empty: none is out
    cdef bint void                  # its verdicts will be ignored
    cdef int drop(self) except -1
    cdef int doubt(self, uint64_t seq, int lane) except -1
    cdef int best(self) except -2
    cdef bint rouse(self) except -1
    cdef int look_ahead(self) except -1
    cdef int search(self) except -1
    cdef int ask(self) except -1
    cdef int forget_doubts(self) except -1
    cdef int start_over(self) except -1
    cdef int prune(self) except -1
    cdef int recede(self, uint64_t seq, int lane) except -1
    cdef bint enough(self) except -1
    cdef int clean(self, SequenceHeap order) except -1
    cdef list take_back(self)
    cdef int go_on(self) except -1
