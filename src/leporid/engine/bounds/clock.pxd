"""The time, and how much of it the work at hand may use."""

from libc.stdint cimport uint32_t, uint64_t

cdef enum:
    # Units of work between two readings of a clock. A unit is about what a small message costs.
    UNITS_A_READING = 64

cdef class Party:
    cdef object __weakref__
    cdef readonly Party group       # with whom it has one part together; None: it is alone
    cdef uint64_t stage             # the last one that it has used time of
    cdef uint64_t used_ns           # of that

cdef class Clock:
    cdef public uint64_t now_ms         # never jumps
    cdef public uint64_t wall_ms        # Unix time
    cdef public object monotonic_ns     # () -> nanoseconds; None: no time passes
    cdef uint32_t units                 # of work, since the last reading
    cdef public uint32_t units_a_reading
    cdef uint64_t stage             # a number
    cdef uint64_t stage_length_ns
    cdef uint64_t stage_end_ns          # 0: the stage begins with the next reading
    cdef uint64_t slice_end_ns          # 0: likewise
    cdef uint64_t read_ns               # the last reading
    cdef readonly bint stage_is_over    # at the last reading
    cdef readonly Party party           # whose work is done; None: nobody's in particular
    cdef int charge(self, Party party, uint64_t time_ns) except -1
    cpdef bint has_slice(self, Party party) except -1
    cpdef bint over(self) except -1
    cdef void begin_stage(self, uint64_t length_ns) noexcept
    cdef void begin_slice(self, Party party) noexcept


cdef inline bint spend(Clock clock, uint32_t units) except -1:
    """Count units of work; returns whether the slice is over. For the ways of every message."""
    clock.units += units
    if clock.units < clock.units_a_reading:
        return False
    return clock.over()
