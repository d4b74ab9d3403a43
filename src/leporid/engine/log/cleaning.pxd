"""Cleaning of the logs."""

from leporid.engine.log.log cimport Segment
from leporid.engine.log.logs cimport Logs

cdef int clean(Logs logs) except -1
cdef int compact(Logs logs) except -1
cdef int relocate(Logs logs, Segment segment) except -1
cdef int go_on_relocating(Logs logs) except -1
cdef bint is_relocating(Logs logs) noexcept
