"""Consumers of one queue, as it sees them: round robin among those of the same priority that can take.

Those of a queue know each other through its `Takers`; they take turns with those of their `home`,
which is that, unless they want some of the messages only (`selection`).

It does not know entries or credit: a taker says whether it can take. A taker that cannot leaves
its ring and comes back when it may be able to, so that finding the next one never means asking
all of them again. Invariant: whoever can take stands in the ring of its priority, or is represented
there (`WaitingConsumers`); with a single active consumer only that one does.
"""

from libc.stdint cimport int64_t, uint64_t

from leporid.engine.queue.index cimport Slot


cdef class Taker:
    """Somebody who takes entries from a queue: a consumer."""

    cdef bint can_take(self):
        return False

    cdef int take(self, uint64_t seq, Slot *slot) except -1:
        raise NotImplementedError

    cdef int resume(self) except -1:
        """What kept it from taking may be over."""
        raise NotImplementedError

    cdef int offered(self) except -1:
        """It waited for credit, and there is some: take one entry, or let the next one have it."""
        raise NotImplementedError

    # Of a stream, which stays as it is: who reads it takes copies.

    cdef int fill(self) except -1:
        """There may be more to read: take what there is credit for."""
        raise NotImplementedError

    cdef int64_t look_for(self, int64_t work) except? -1:
        """Look for what its filter wants, while work may be done; returns the rest of it."""
        raise NotImplementedError

    cdef uint64_t position(self) except? 0:
        """The offset that it needs next; the stream keeps what comes from there on."""
        raise NotImplementedError


cdef class Level:
    """The consumers of one priority that may take, as a ring; `head` takes next."""


cdef class Takers:
    """All consumers of one queue."""

    def __cinit__(self):
        self.everybody = []
        self.levels = []

    cdef int attach(self, Taker taker) except -1:
        self.everybody.append(taker)
        if self.single and self.chosen is None:
            self.choose()
        return taker.home.enter(taker)

    cdef int detach(self, Taker taker) except -1:
        self.everybody.remove(taker)
        leave_ring(taker)
        if self.chosen is taker:
            self.choose()
        return 0

    cdef int choose(self) except -1:
        """Who is the single active consumer: the oldest of the highest priority."""
        cdef Taker taker
        self.chosen = None
        for taker in self.everybody:
            if self.chosen is None or taker.priority > self.chosen.priority:
                self.chosen = taker
        if self.chosen is not None:
            self.chosen.home.enter(self.chosen)
        return 0

    cdef int enter(self, Taker taker) except -1:
        """The taker may be able to take again; it stands last of its priority."""
        cdef Level level
        cdef Py_ssize_t at = 0
        if taker.level is not None or (self.single and taker is not self.chosen):
            return 0
        for level in self.levels:
            if level.priority <= taker.priority:
                break
            at += 1
        else:
            level = None
        if level is None or level.priority != taker.priority:
            level = Level()
            level.takers = self
            level.priority = taker.priority
            self.levels.insert(at, level)
        taker.level = level
        if level.head is None:
            level.head = taker.next = taker.previous = taker
        else:
            taker.next = level.head
            taker.previous = level.head.previous
            taker.previous.next = taker
            level.head.previous = taker
        return 0

    cdef Taker turn(self):
        """Who takes next; None when nobody can.

        Consumers of a lower priority get what those above cannot take (RabbitMQ, consumer
        priorities).
        """
        cdef Level level
        cdef Taker taker
        while self.levels:
            level = <Level> self.levels[0]
            taker = level.head
            if taker.can_take():
                level.head = taker.next
                return taker
            if level.head is taker:  # else it let another one have its place
                leave_ring(taker)
        return None


cdef int leave_ring(Taker taker) except -1:
    """The taker stands in no ring any more, whosever it was."""
    cdef Level level = taker.level
    if level is None:
        return 0
    if taker.next is taker:
        level.head = None
        level.takers.levels.remove(level)
    else:
        taker.previous.next = taker.next
        taker.next.previous = taker.previous
        if level.head is taker:
            level.head = taker.next
    taker.next = taker.previous = None
    taker.level = None
    return 0


cdef class Selection:
    """Chooses the messages of one queue for consumers that have filters, and for the others then,
    too. Its queue tells it what changes."""

    cdef int attach(self, Taker taker) except -1:
        """A consumer with a filter comes; it is not among its queue's yet."""
        raise NotImplementedError

    cdef bint detach(self, Taker taker) except -1:
        """A consumer with a filter has left; returns whether it was the last of all."""
        raise NotImplementedError

    cdef int deliver(self) except -1:
        """Give ready entries to consumers in turn, as far as a turn goes."""
        raise NotImplementedError

    cdef int came_back(self, uint64_t seq) except -1:
        """An entry is ready again."""
        raise NotImplementedError

    cdef int purged(self) except -1:
        """No entry is ready."""
        raise NotImplementedError


cdef class SharedCredit:
    """Credit that several consumers wait for."""

    cdef int offer(self) except -1:
        """There is some: let those that wait take."""
        raise NotImplementedError
