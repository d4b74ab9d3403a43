"""Credit that consumers of one channel share: the global limit of basic.qos, or a group member's.

Responsible for which consumer may take next when the limit was reached. Queues take turns, one
delivery each; within a queue the highest priority comes first, then the consumer that has waited
longest. It must not know entries. The cost of a delivery does not grow with the waiting consumers.

Consumers of one queue that differ in nothing but their tag wait as one, as `WaitingConsumers`,
which also stands for them in the queue's ring while there is credit and nothing to deliver: then no
message that comes has all of them asked.

Invariant: while there is credit, waiting consumers are offered it before the turn ends
(`queues.offers`), and no other consumer takes it before.
"""

from libc.stdint cimport uint32_t

from leporid.engine.bounds.clock cimport Clock, spend
from leporid.engine.connection.channel cimport Channel
from leporid.engine.connection.consumer cimport Consumer
from leporid.engine.connection.output cimport OUTPUT_HIGH_BYTES, Output, is_above
from leporid.engine.connection.unacked cimport UnackedDeliveries
from leporid.engine.queue.queue cimport Queue
from leporid.engine.queue.takers cimport Level, Taker, Takers, leave_ring


cdef class Credit(SharedCredit):
    """A limit of unsettled deliveries; made by `Channel.credit`."""

    def __cinit__(self, Channel channel not None, uint32_t limit=0):
        self.channel = channel
        self.limit = limit
        self.waiting = Takers()
        self.queues = {}
        self.groups = {}

    def __repr__(self):
        return f"<Credit used={self.used} limit={self.limit} waiting_queues={len(self.queues)}>"

    cdef int take_one(self) except -1:
        self.used += 1
        return 0

    cdef int give_one(self) except -1:
        self.used -= 1
        return self.freed()

    cdef bint available(self):
        """Whether the limit leaves room for one delivery."""
        return self.used < self.limit

    cdef bint grants(self, Queue queue, int priority) except -1:
        """Whether a consumer of that queue may take now; if not, it has to wait."""
        cdef WaitingQueue found
        self.asked += 1
        if not self.available():
            return False
        if self.granted is not queue or self.granted_tag != self.channel.delivery_tag:
            return not self.waiting.levels
        found = self.queues.get(queue)
        return (found is None or not found.takers.levels
                or (<Level> found.takers.levels[0]).priority <= priority)

    cdef int wait(self, Taker taker) except -1:
        """A consumer could take, but for this credit: let it wait."""
        cdef Consumer consumer = <Consumer> taker
        cdef WaitingConsumers group
        cdef UnackedDeliveries unacked = self.channel.unacked
        leave_ring(consumer)
        if (unacked.end > unacked.start
                and unacked.entries[unacked.end - 1].consumer == <void *> consumer):
            self.last, self.last_tag = consumer.queue, unacked.entries[unacked.end - 1].tag
        if consumer.home is None or consumer.credit is not None or consumer.queue.takers.single:
            return self.enqueue(consumer, consumer.queue)
        group = <WaitingConsumers> consumer.group
        if group is None:
            key = (consumer.home, consumer.priority)
            group = self.groups.get(key)
            if group is None:
                group = self.groups[key] = WaitingConsumers()
                group.credit, group.queue, group.home = self, consumer.queue, consumer.home
                group.priority, group.members = consumer.priority, Takers()
            group.count += 1
            consumer.group = group
        group.members.enter(consumer)
        return self.enqueue(group, consumer.queue) if group.level is None else 0

    cdef int enqueue(self, Taker taker, Queue queue) except -1:
        """Let a consumer, or a `WaitingConsumers`, wait behind all others of its priority.

        The queue whose consumer took last comes after all queues that have asked since.
        """
        cdef WaitingQueue found = self.queues.get(queue), last
        if found is None:
            found = self.queues[queue] = WaitingQueue()
            found.credit, found.queue, found.takers = self, queue, Takers()
        found.takers.enter(taker)
        if found.level is not None:
            return 0
        self.waiting.enter(found)
        if self.last is not None and self.last_tag == self.channel.delivery_tag:
            last = self.queues.get(self.last)
            if last is not None and last.level is not None:
                leave_ring(last)
                self.waiting.enter(last)
        return 0

    cdef int forget(self, Taker taker) except -1:
        """A consumer has ended."""
        cdef Consumer consumer = <Consumer> taker
        cdef WaitingConsumers group = <WaitingConsumers> consumer.group
        cdef WaitingQueue found = self.queues.get(consumer.queue)
        leave_ring(consumer)
        if self.last is consumer.queue:
            self.last = None
        if group is not None and group.credit is self:
            consumer.group = None
            group.count -= 1
            if not group.count:
                leave_ring(group)
                self.channel.out.stalled.pop(group, None)
                del self.groups[group.home, group.priority]
        if found is not None and not found.takers.levels:
            leave_ring(found)
            self.channel.out.stalled.pop(found, None)
            del self.queues[consumer.queue]
        return self.freed()     # offers may have stopped at its queue, for lack of output room

    cdef int freed(self) except -1:
        """There may be credit again."""
        if not self.pending and self.waiting.levels and self.available():
            self.pending = True
            self.channel.queues.offers.append(self)
        return 0

    cdef int release(self) except -1:
        """The limit was removed: no consumer waits for it.

        Those for whom the slice has no time are offered what they like in later turns.
        """
        cdef WaitingQueue found
        cdef Taker taker
        cdef Clock clock = self.channel.queues.clock
        while self.waiting.levels:
            found = <WaitingQueue> (<Level> self.waiting.levels[0]).head
            leave_ring(found)
            while found.takers.levels:
                if spend(clock, 1):
                    self.waiting.enter(found)
                    return self.freed()
                taker = (<Level> found.takers.levels[0]).head
                leave_ring(taker)
                taker.resume()
            del self.queues[found.queue]
        return 0

    cdef int offer(self) except -1:
        """Let waiting consumers take, queue by queue one delivery each, until either runs out or
        the slice is over.

        A queue that has nothing for its consumers passes its turn on at once: they stand in its
        ring again, and wait no more.
        """
        cdef WaitingQueue found
        cdef Taker taker
        cdef Output out = self.channel.out
        cdef Clock clock = self.channel.queues.clock
        cdef bint over = False
        self.pending = False
        while self.waiting.levels and self.available():
            found = <WaitingQueue> (<Level> self.waiting.levels[0]).head
            if is_above(out, OUTPUT_HIGH_BYTES):
                out.stalled[found] = None
                break
            leave_ring(found)
            self.waiting.enter(found)
            self.granted, self.granted_tag = found.queue, self.channel.delivery_tag
            while found.takers.levels and self.granted_tag == self.channel.delivery_tag:
                self.asked += 1
                taker = (<Level> found.takers.levels[0]).head
                leave_ring(taker)
                if not found.takers.levels:
                    leave_ring(found)
                taker.offered()
                over = spend(clock, 1)
                if over:
                    break
            self.granted = None
            if not found.takers.levels:
                leave_ring(found)
                del self.queues[found.queue]
            if over:
                return self.freed()
        return 0


cdef class ChannelCredit(Credit):
    """The limit of a whole channel (basic.qos with global = true); the channel keeps the count."""

    def __repr__(self):
        return (f"<ChannelCredit used={self.channel.outstanding} "
                f"limit={self.channel.global_limit} waiting_queues={len(self.queues)}>")

    cdef bint available(self):
        return (not self.channel.global_limit
                or self.channel.outstanding < self.channel.global_limit)


cdef class WaitingQueue(Taker):
    """Consumers of one queue that wait for a credit."""

    cdef int resume(self) except -1:
        return self.credit.freed()


cdef class WaitingConsumers(Taker):
    """Consumers with the same credit, queue, filter and priority, some of which wait."""

    cdef bint can_take(self) except -1:
        """Never itself; while there is credit, one that waits takes its place in the ring."""
        cdef Output out = self.credit.channel.out
        cdef Taker first
        if not self.members.levels:
            return False
        if is_above(out, OUTPUT_HIGH_BYTES):
            out.stalled[self] = None
            return False
        leave_ring(self)
        if not self.credit.grants(self.queue, self.priority):
            self.credit.enqueue(self, self.queue)
            return False
        first = (<Level> self.members.levels[0]).head
        leave_ring(first)
        Takers.enter(self.home, first)
        first.level.head = first
        if self.members.levels:
            Takers.enter(self.home, self)
        return False

    cdef int resume(self) except -1:
        if self.level is None and self.members.levels:
            self.queue.resume(self)
        return 0

    cdef int offered(self) except -1:
        if self.members.levels:
            self.home.enter(self)
            self.queue.deliver_offered()
        return 0
