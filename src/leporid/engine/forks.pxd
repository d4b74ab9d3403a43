"""Routes with filters."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from leporid.engine.plane cimport Plane
from leporid.engine.selector_set cimport SelectorSet
from leporid.engine.source cimport Route

cdef class Fork:
    cdef object __weakref__
    cdef Plane plane
    cdef list always                # queues of every message
    cdef list chosen                # queues of some
    cdef SelectorSet members        # their filters
    cdef uint32_t *place_of         # of the queue of each member, among the chosen
    cdef uint64_t *last             # the turn in which each of the chosen was chosen last
    cdef uint64_t turn
    cdef Route otherwise            # of a message that passes no filter
    cdef list single                # of one that goes to one of the chosen; made when there is one
    cdef Route route_of(self, const uint8_t *names, size_t names_len, const uint8_t *properties,
                        size_t properties_len)
