"""Cleaning of the logs."""

from leporid.engine.log.log cimport Segment
from leporid.engine.plane cimport Plane

cdef int clean(Plane plane) except -1
cdef int compact(Plane plane) except -1
cdef int relocate(Plane plane, Segment segment) except -1
