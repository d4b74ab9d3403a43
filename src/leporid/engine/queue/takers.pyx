"""The consumers of a queue, as the queue sees them: round robin among those of one priority.

Responsible for whose turn it is. A queue has one `Takers` of all its consumers. A consumer takes
turns with those of its `home`, which is the same `Takers`, or that of the consumers with the same
filter (`selecting`). It must not know entries or credit: a `Taker` says whether it can take.

It does not know entries or credit: a taker says whether it can take. A taker that cannot leaves
its ring and comes back when it may be able to, so that finding the next one never means asking
all of them again. Invariant: whoever can take stands in the ring of its priority, or is represented
there (`WaitingConsumers`); with a single active consumer only that one does.
"""

from libc.stdint cimport int64_t, uint64_t

from leporid.engine.queue.index cimport Slot


cdef class Taker:
    """A consumer of a queue, as the queue sees it."""

    cdef bint can_take(self):
        """Whether it has credit and room for a delivery."""
        return False

    cdef int take(self, uint64_t seq, Slot *slot) except -1:
        """Deliver an entry, which is UNACKED now."""
        raise NotImplementedError

    cdef int resume(self) except -1:
        """It may be able to take again."""
        raise NotImplementedError

    cdef int offered(self) except -1:
        """It waited for credit, and there is some: take one entry, or leave it to the next one."""
        raise NotImplementedError

    # Consumers of streams only.

    cdef int fill(self) except -1:
        """There may be more to read: deliver what there is credit for."""
        raise NotImplementedError

    cdef int64_t look_for(self, int64_t work) except? -1:
        """Search for messages that match its filter, spending up to `work`; returns the rest."""
        raise NotImplementedError

    cdef uint64_t position(self) except? 0:
        """The offset that it needs next; retention keeps what follows."""
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
        """Choose the single active consumer: the oldest of the highest priority."""
        cdef Taker taker
        self.chosen = None
        for taker in self.everybody:
            if self.chosen is None or taker.priority > self.chosen.priority:
                self.chosen = taker
        if self.chosen is not None:
            self.chosen.home.enter(self.chosen)
        return 0

    cdef int enter(self, Taker taker) except -1:
        """Put a consumer that may be able to take into its ring, behind all others."""
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
        """The consumer that takes next; None if none can.

        Consumers of a lower priority get messages when those above cannot take any (RabbitMQ,
        consumer priorities).
        """
        cdef Level level
        cdef Taker taker
        while self.levels:
            level = <Level> self.levels[0]
            taker = level.head
            if taker.can_take():
                level.head = taker.next
                return taker
            if level.head is taker:  # else it put another one in its place
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
    """Delivers a queue's messages once some of its consumers have filters; the queue tells it what
    changes. Implemented by `FilteredConsumers`."""

    cdef int attach(self, Taker taker) except -1:
        """A consumer with a filter is about to be attached to the queue."""
        raise NotImplementedError

    cdef bint detach(self, Taker taker) except -1:
        """A consumer with a filter was detached; returns whether it was the last one."""
        raise NotImplementedError

    cdef int deliver(self) except -1:
        """Deliver ready entries to consumers in turn, within the budget of a turn."""
        raise NotImplementedError

    cdef int came_back(self, uint64_t seq) except -1:
        """An entry was requeued."""
        raise NotImplementedError

    cdef int purged(self) except -1:
        """The queue was purged: no entry is ready."""
        raise NotImplementedError


cdef class SharedCredit:
    """A limit of unsettled deliveries that several consumers share. Implemented by `Credit`."""

    cdef int offer(self) except -1:
        """There is credit: let waiting consumers take."""
        raise NotImplementedError
