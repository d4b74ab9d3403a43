"""FilterCounters: how often the filters in one place were asked, and what came of it.

Responsible for adding up. It does not know what is asked, nor where. Invariant: what is matched or
a type error was evaluated, and what was evaluated was asked; what was asked and not evaluated, a
value that the message has or lacks answered with no.
"""

from libc.stdint cimport uint64_t


cdef class FilterCounters:
    """Those of one exchange, or of the consumers of one queue."""

    cpdef int note(self, uint64_t asked, uint64_t evaluated, uint64_t matched,
                   uint64_t type_errors) except -1:
        """Count some more."""
        self.asked += asked
        self.evaluated += evaluated
        self.matched += matched
        self.type_errors += type_errors
        return 0

    def __repr__(self):
        return (f"<FilterCounters asked={self.asked} evaluated={self.evaluated} "
                f"matched={self.matched} type_errors={self.type_errors}>")
