"""Credit that several consumers of one channel have together, such as those of a group's member.

Responsible for how many deliveries they may all have unsettled, and for asking them again when
there is credit. It does not know what they read. Invariant: who found no credit is asked again when
there is some, and nobody is first every time.
"""

from libc.stdint cimport uint32_t

from leporid.engine.queues.takers cimport Taker


cdef class Credit:
    """So many unsettled deliveries; made by `Channel.credit`."""

    def __cinit__(self, uint32_t limit):
        self.limit = limit
        self.takers = []

    def __repr__(self):
        return f"<Credit used={self.used} limit={self.limit} takers={len(self.takers)}>"

    cdef int take_one(self) except -1:
        self.used += 1
        return 0

    cdef int give_one(self) except -1:
        cdef bint was_used_up = self.used >= self.limit
        cdef size_t at, count = len(self.takers)
        cdef Taker taker
        self.used -= 1
        if not was_used_up or not count:
            return 0
        self.turn = (self.turn + 1) % count
        for at in range(count):
            taker = self.takers[(self.turn + at) % count]
            taker.resume()
        return 0
