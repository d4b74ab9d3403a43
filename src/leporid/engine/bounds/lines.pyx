"""Lines: what waits for a slice of time, one line for each party.

Responsible for the order: parties take turns, and so do those in a party's line. It must not know
what waits. Invariant: of two parties that wait, none is next twice in a row, however much of it
waits, unless the other one has had its part of the stage.
"""

from leporid.engine.bounds.clock cimport Clock

from collections import deque


cdef class Lines:
    """What waits, in a line for each party; None is a party, too: that of work of nobody's."""

    def __cinit__(self):
        self.lines = {}
        self.order = deque()

    def __repr__(self):
        return f"<Lines parties={len(self.order)} count={self.count}>"

    cpdef int add(self, party, waiting) except -1:
        """Put it at the end of its party's line."""
        line = self.lines.get(party)
        if line is None:
            line = self.lines[party] = deque()
            self.order.append(party)
        line.append(waiting)
        self.count += 1
        return 0

    cpdef object take(self):
        """Take what is next; something must wait."""
        party = self.order.popleft()
        line = self.lines[party]
        waiting = line.popleft()
        if line:
            self.order.append(party)
        else:
            del self.lines[party]
        self.count -= 1
        return waiting

    cdef object begin_slice(self, Clock clock):
        """Begin a slice for what is next of the first party that may have one, and take it.

        None: nobody may have one in this stage.
        """
        for _ in range(len(self.order)):
            if clock.has_slice(self.order[0]):
                clock.begin_slice(self.order[0])
                return self.take()
            self.order.rotate(-1)
        return None
