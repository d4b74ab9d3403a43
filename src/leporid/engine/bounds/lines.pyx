"""Lines: what waits for a slice of time, one line for each party.

Responsible for the order: parties take turns, and so do those in a party's line. Parties of one
group have one line, in which they take turns. It must not know what waits. Invariant: of two
parties that wait, none is next twice in a row, however much of it waits, unless the other one has
had its part of the stage; of two groups likewise.
"""

from leporid.engine.bounds.clock cimport Clock, Party

from collections import deque


cdef class Lines:
    """What waits, in a line for each party; None is a party, too: that of work of nobody's."""

    def __cinit__(self):
        self.lines = {}
        self.order = deque()

    def __repr__(self):
        return f"<Lines parties={len(self.order)} count={self.count}>"

    cpdef int add(self, Party party, waiting) except -1:
        """Put it at the end of its party's line."""
        cdef Lines lines
        if party is None or party.group is None:
            self.line_of(party, deque).append(waiting)
        else:
            lines = <Lines?> self.line_of(party.group, Lines)
            lines.line_of(party, deque).append(waiting)
            lines.count += 1
        self.count += 1
        return 0

    cdef object line_of(self, Party party, kind):
        """The line of a party, or the lines of a group's; it is made if nothing waits there."""
        line = self.lines.get(party)
        if line is None:
            line = self.lines[party] = kind()
            self.order.append(party)
        return line

    cpdef object take(self):
        """Take what is next; something must wait."""
        cdef Lines lines
        line = self.lines[self.order[0]]
        if type(line) is Lines:
            lines = <Lines> line
            waiting = lines.take()
            self.end_turn(lines.count)
        else:
            waiting = line.popleft()
            self.end_turn(len(line))
        return waiting

    cdef int end_turn(self, Py_ssize_t left) except -1:
        """Something was taken from the first line, in which so much is left."""
        party = self.order.popleft()
        if left:
            self.order.append(party)
        else:
            del self.lines[party]
        self.count -= 1
        return 0

    cdef object begin_slice(self, Clock clock):
        """Begin a slice for what is next of the first party that may have one, and take it.

        None: nobody may have one in this stage.
        """
        cdef Lines lines
        for _ in range(len(self.order)):
            if clock.has_slice(self.order[0]):
                line = self.lines[self.order[0]]
                if type(line) is not Lines:
                    clock.begin_slice(self.order[0])
                    return self.take()
                lines = <Lines> line
                waiting = lines.begin_slice(clock)
                if waiting is not None:
                    self.end_turn(lines.count)
                    return waiting
            self.order.rotate(-1)
        return None
