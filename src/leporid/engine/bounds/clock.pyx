"""The clock of the engine, and the slices of time that work is cut into.

Responsible for saying when the work at hand has used its time. It must not know what the work is,
nor ask an operating system: the server sets the time at each turn and gives `monotonic_ns`. It is
read only where work can be cut. Without it no time passes, and everything is done in one go; a
test that gives a counter decides where the cuts are.

A turn has stages (input, jobs, deliveries, …). Each has a length, and ends even if many have work
for it. Within a stage, one connection or one job has a slice. Both begin with the first reading, so
that a turn with little to do reads nothing.

Slices are counted for *parties*: a user with all connections, or before the login an address. A
party gets one more slice of a stage as long as it has used less than is left, as keys get slots
(`limits.shares`). So one party alone leaves a third of the input to others, whose connections are
read in the same turn, however many connections the one has. Parties of one group have no more
together than a party alone: who has many addresses is one peer, as far as users are concerned.

Invariant: after `over` or `spend` has returned True, both do so until the next slice.
"""

from libc.stdint cimport uint64_t

cdef enum:
    # Long enough that taking up work again costs little, and short enough for five stages within
    # the 10 ms that a turn may take at most.
    SLICE_NS = 500_000


cdef class Party:
    """Connections that share their part of each stage.

    Args:
        group: the party that all of a kind belong to; None: it belongs to none.
    """

    def __cinit__(self, Party group=None):
        self.group = group

    def __repr__(self):
        return f"<Party used_ns={self.used_ns}>"


cdef class Clock:
    """The time, as the server has set it."""

    def __cinit__(self):
        self.stage_length_ns = SLICE_NS
        self.units_a_reading = UNITS_A_READING
        self.stage = 1

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
            self.read_ns = now_ns
        if self.party is not None:
            self.charge(self.party, now_ns - self.read_ns)
        self.read_ns = now_ns
        if not self.slice_end_ns:
            self.slice_end_ns = min(now_ns + SLICE_NS, self.stage_end_ns)
        self.stage_is_over = now_ns >= self.stage_end_ns
        if now_ns < self.slice_end_ns:
            return False
        self.units = self.units_a_reading   # so that `spend` says so to everybody further up
        return True

    cdef int charge(self, Party party, uint64_t time_ns) except -1:
        """A party has used time of the stage, and so has its group."""
        while party is not None:
            if party.stage != self.stage:
                party.stage, party.used_ns = self.stage, 0
            party.used_ns += time_ns
            party = party.group
        return 0

    cpdef bint has_slice(self, Party party) except -1:
        """Whether a party may have one more slice of the stage; None: whoever has no party."""
        if self.stage_is_over:
            return False
        while party is not None:
            if party.stage == self.stage and party.used_ns >= self.stage_end_ns - self.read_ns:
                return False
            party = party.group
        return True

    cdef void begin_stage(self, uint64_t length_ns) noexcept:
        """Another kind of work begins, which may take so long in all."""
        self.stage += 1
        self.party = None
        self.stage_length_ns = length_ns
        self.stage_end_ns = self.slice_end_ns = 0
        self.stage_is_over = False

    cdef void begin_slice(self, Party party) noexcept:
        """Somebody else's work of the same kind begins; None: it is nobody's in particular."""
        self.party = party
        self.slice_end_ns = 0
