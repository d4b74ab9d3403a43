"""Cleaning of the durable log."""

from leporid.engine.log cimport Segment
from leporid.engine.plane cimport Plane

cdef int clean(Plane plane) except -1
cdef int relocate(Plane plane, Segment segment) except -1
