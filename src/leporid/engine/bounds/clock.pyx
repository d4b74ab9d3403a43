"""The clock of the engine, and the slices of time that work is cut into.

Responsible for saying when the work at hand has used its time. It must not know what the work is,
nor ask an operating system: the server sets the time at each turn and gives `monotonic_ns`. It is
read only where work can be cut. Without it no time passes, and everything is done in one go; a
test that gives a counter decides where the cuts are.

A turn has stages (input, jobs, deliveries, …). Each has a length, and ends even if many have work
for it. Within a stage, one connection or one job has a slice. Both begin with the first reading, so
that a turn with little to do reads nothing.

Invariant: after `over` or `spend` has returned True, both do so until the next slice.
"""

from libc.stdint cimport uint64_t

cdef enum:
    # Long enough that taking up work again costs little, and short enough for five stages within
    # the 10 ms that a turn may take at most.
    SLICE_NS = 1_000_000


cdef class Clock:
    """The time, as the server has set it."""

    def __cinit__(self):
        self.stage_length_ns = SLICE_NS
        self.units_a_reading = UNITS_A_READING

    def __repr__(self):
        return f"<Clock now_ms={self.now_ms}>"

    cpdef bint over(self) except -1:
        """Whether the slice has used its time; the caller leaves the rest of its work for later."""
        cdef uint64_t now_ns
        self.units = 0
        if self.monotonic_ns is None:
            return False
        now_ns = self.monotonic_ns()
        if not self.stage_end_ns:
            self.stage_end_ns = now_ns + self.stage_length_ns
        if not self.slice_end_ns:
            self.slice_end_ns = min(now_ns + SLICE_NS, self.stage_end_ns)
        self.stage_is_over = now_ns >= self.stage_end_ns
        if now_ns < self.slice_end_ns:
            return False
        self.units = self.units_a_reading   # so that `spend` says so to everybody further up
        return True

    cdef void begin_stage(self, uint64_t length_ns) noexcept:
        """Another kind of work begins, which may take so long in all."""
        self.stage_length_ns = length_ns
        self.stage_end_ns = self.slice_end_ns = 0
        self.stage_is_over = False

    cdef void begin_slice(self) noexcept:
        """Somebody else's work of the same kind begins."""
        self.slice_end_ns = 0
