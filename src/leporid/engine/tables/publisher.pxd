"""Publishes rows that came as a table."""

from libc.stdint cimport uint8_t, uint64_t

from leporid.engine.plane cimport Plane
from leporid.engine.peers.sender cimport Sender

cdef class Publisher(Sender):
    cdef readonly uint64_t accepted, duplicates, unroutable, refused
    cdef readonly uint64_t generation   # to wait for; 0: none
    cdef Plane plane
    cdef object source_of           # (name) -> Source
    cdef bytes producer
    cdef uint64_t sequence          # of the next row
    cdef int publish_row(self, const uint8_t *names, size_t names_len, const uint8_t *properties,
                         size_t properties_len, const uint8_t *body, size_t body_len,
                         uint64_t sequence) except -1
