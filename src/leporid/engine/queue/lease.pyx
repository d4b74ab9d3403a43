"""A lease: messages of a queue that are taken together, and settled or requeued together.

Responsible for which entries it has. It must not know how long it lasts, nor who holds it.
Invariant: until it ends its entries are UNACKED, as a consumer's deliveries are, so that restart,
queue deletion and limits treat both alike.
"""

from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport free, malloc

from leporid.engine.queue.browse cimport QueueWindow
from leporid.engine.queue.index cimport DELIVERIES_MAX, READY, UNACKED, Slot
from leporid.engine.queue.queue cimport Queue
from leporid.engine.wire.record cimport NO_LIMIT


cdef class Lease:
    """Takes up to `most` ready messages, in order of delivery or as named by `take`.

    Args:
        queue: the queue.
        most: at most so many messages.
        chosen: take none now; `more` takes them, or `take` names them.
        shown: to somebody, as a delivery. Else what is released is as it was: not redelivered, and
            no nearer to the delivery limit.
    """

    def __cinit__(self, Queue queue not None, uint64_t most, bint chosen=False, bint shown=True):
        cdef Slot *slot
        cdef uint64_t seq
        self.queue = queue
        self.shown = shown
        queue.queues.work()  # waiting consumers come first
        most = self.most = 0 if queue.paused else min(most, queue.ready_count)
        self.numbers = <uint64_t *> malloc(max(<uint64_t> 1, most) * sizeof(uint64_t))
        if self.numbers == NULL:
            raise MemoryError("no memory for a lease")
        while self.count < most and not chosen:
            slot = queue.pop(&seq)
            if slot == NULL:
                break
            self.note(seq, slot)

    cdef void note(self, uint64_t seq, Slot *slot) noexcept:
        """Add an entry that was taken."""
        cdef Queue queue = self.queue
        if slot.deliveries and self.shown:
            queue.counts.redelivered += 1
            queue.type_counts.redelivered += 1
        if self.shown and slot.deliveries & DELIVERIES_MAX < DELIVERIES_MAX:
            slot.deliveries += 1
        queue.counts.got += 1
        queue.type_counts.got += 1
        self.numbers[self.count] = seq
        self.count += 1

    def more(self, uint64_t most):
        """Take up to `most` of the next ready messages; returns whether it may take more."""
        cdef Slot *slot
        cdef uint64_t seq
        most = min(self.most, self.count + most)
        while self.count < most and not self.is_over():
            slot = self.queue.pop(&seq)
            if slot == NULL:
                return False
            self.note(seq, slot)
        return self.count < self.most and not self.is_over()

    cdef bint is_over(self) noexcept:
        """Whether it takes nothing more."""
        return self.ended or self.queue.retired or self.queue.paused

    def take(self, numbers):
        """Take those of these messages that are still ready; returns whether it may take more."""
        cdef Queue queue = self.queue
        cdef Slot *slot
        cdef uint64_t seq
        for seq in numbers:
            if self.count == self.most or self.is_over():
                return False
            slot = queue.slot_of(seq)
            if slot == NULL or slot.state != READY:
                continue
            queue.take(slot)
            self.note(seq, slot)
        return self.count < self.most

    def __dealloc__(self):
        free(self.numbers)

    def __repr__(self):
        return (f"<Lease of {self.count} messages of {self.queue.name!r}"
                f"{' ended' if self.ended else ''}>")

    def window(self, uint64_t at, uint64_t end, uint32_t rows_max, uint64_t bytes_max):
        """Its messages from number `at` to below `end`: as many as the limits allow, at least one.

        Raises:
            ValueError: the lease has ended, its queue was deleted, or it has fewer messages.
        """
        cdef QueueWindow window = QueueWindow()
        cdef Slot *slot
        if self.ended or self.queue.retired or at > end or end > self.count:
            raise ValueError(f"{self!r} does not show {at} to {end}")
        window.logs = self.queue.logs
        window.first = window.end = at
        while window.end < end and window.rows < rows_max:
            slot = self.queue.slot_of(self.numbers[window.end])
            if not window.take(self.numbers[window.end], slot, slot.deliveries > 1, bytes_max):
                break
            window.end += 1
        return window

    def acknowledge(self, uint64_t most=NO_LIMIT):
        """Settle all of them, or the first `most`; returns whether any are left."""
        return self.settle(False, most)

    def release(self, uint64_t most=NO_LIMIT):
        """Requeue all of them, or the first `most`; returns whether any are left.

        Their next delivery is a redelivery, if they were shown.
        """
        return self.settle(True, most)

    cdef bint settle(self, bint requeue, uint64_t most) except -1:
        """The lease ends with the first call; the others go on where it left off."""
        cdef uint64_t number, end
        cdef Slot *slot
        self.ended = True
        if self.queue.retired:
            return False
        end = self.count if most > self.count - self.settled else self.settled + most
        while self.settled < end:
            number = self.numbers[self.settled]
            self.settled += 1
            slot = self.queue.slot_of(number)
            if slot == NULL or slot.state != UNACKED:
                continue
            if requeue and not self.shown:
                self.queue.put_back(number, slot)
            elif requeue:
                self.queue.requeue(number, slot, False)
            else:
                self.queue.counts.acked += 1
                self.queue.type_counts.acked += 1
                self.queue.settle(number, slot)
        return self.settled < self.count
