"""The consumers of a queue, as the queue sees them: round robin among those of one priority.

Responsible for whose turn it is. A queue has one `Takers` of all its consumers. A consumer takes
turns with those of its `home`, which is the same `Takers`, or that of the consumers with the same
filter (`selecting`). It must not know entries or credit: a `Taker` says whether it can take. A
taker that cannot leaves its ring and comes back when it may be able to, so that finding the next
one never means asking all of them again.

Invariants: whoever can take stands in the ring of its priority, or is represented there
(`WaitingConsumers`); with a single active consumer only that one does. Consumers and priorities
come and go in O(log n).
"""

from libc.stdint cimport int64_t, uint64_t

from leporid.engine.queue.index cimport Slot
from leporid.engine.queue.ranks cimport Ranked, put_in, take_out

cdef enum:
    # With more priorities than this, the ring of one is looked up instead of searched for.
    LEVELS_SEARCHED = 8


cdef class Taker(Ranked):
    """A consumer of a queue, as the queue sees it."""

    cdef bint can_take(self) except -1:
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

    cdef uint64_t skip(self) except? 0:
        """Retention dropped what it needs: go on at the first message; returns how many of those
        that it would have got were dropped."""
        raise NotImplementedError


cdef class Level(Ranked):
    """The consumers of one priority that may take, as a ring; `head` takes next."""


cdef class Takers:
    """All consumers of one queue."""

    def __cinit__(self):
        self.everybody = []
        self.levels = []

    cdef int attach(self, Taker taker) except -1:
        self.arrivals += 1
        taker.arrival = self.arrivals
        put_in(self.everybody, taker)
        if self.single and self.chosen is None:
            self.choose()
        return taker.home.enter(taker)

    cdef int detach(self, Taker taker) except -1:
        take_out(self.everybody, taker)
        leave_ring(taker)
        if self.chosen is taker:
            self.choose()
        return 0

    cdef int choose(self) except -1:
        """Choose the single active consumer: the oldest of the highest priority."""
        self.chosen = None
        if self.everybody:
            self.chosen = <Taker> self.everybody[0]
            self.chosen.home.enter(self.chosen)
        return 0

    cdef int enter(self, Taker taker) except -1:
        """Put a consumer that may be able to take into its ring, behind all others."""
        cdef Level level
        if taker.level is not None or (self.single and taker is not self.chosen):
            return 0
        level = self.level_of(taker.priority)
        taker.level = level
        if level.head is None:
            level.head = taker.next = taker.previous = taker
        else:
            taker.next = level.head
            taker.previous = level.head.previous
            taker.previous.next = taker
            level.head.previous = taker
        return 0

    cdef Level level_of(self, int priority):
        """The ring of a priority, which may be a new one."""
        cdef Level level
        if self.by_priority is None:
            for level in self.levels:
                if level.priority == priority:
                    return level
        else:
            level = self.by_priority.get(priority)
            if level is not None:
                return level
        level = Level()
        level.takers, level.priority = self, priority
        put_in(self.levels, level)
        if self.by_priority is not None:
            self.by_priority[priority] = level
        elif len(self.levels) > LEVELS_SEARCHED:
            self.by_priority = {(<Level> each).priority: each for each in self.levels}
        return level

    cdef int close(self, Level level) except -1:
        """Nobody stands in a ring any more."""
        level.head = None
        take_out(self.levels, level)
        if self.by_priority is not None:
            del self.by_priority[level.priority]
            if not self.levels:
                self.by_priority = None
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
        level.takers.close(level)
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
        """An entry is about to be ready again."""
        raise NotImplementedError

    cdef int purged(self) except -1:
        """The queue was purged: no entry is ready."""
        raise NotImplementedError


cdef class SharedCredit:
    """A limit of unsettled deliveries that several consumers share. Implemented by `Credit`."""

    cdef int offer(self) except -1:
        """There is credit: let waiting consumers take."""
        raise NotImplementedError
