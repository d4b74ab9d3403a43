"""Facts about entries, appended to the durable log."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from leporid.engine.plane cimport Plane
from leporid.engine.wire.wire cimport Range

cdef int flush_settles(Plane plane, uint8_t flags) except -1
cdef int append_ranges(Plane plane, uint8_t kind, uint8_t flags, uint32_t queue, Range *ranges,
                       uint32_t count) except -1
cdef int append_commit(Plane plane, uint32_t count, uint32_t purpose) except -1
cdef int make_room(Plane plane, size_t targets, size_t content) except -1
cdef bint settle_with_letter(Plane plane, uint32_t queue, uint64_t position,
                             uint64_t seq) except -1
cdef int mark_clean(Plane plane) except -1
