"""Consumer timeouts: deliveries that stay unsettled for too long (RabbitMQ, consumer_timeout).

Responsible for when a channel is checked, and for its overdue deliveries: the channel is closed, or
the message alone is requeued. It must not know who configured a timeout. A channel has one timer,
which deliveries and acks do not touch: when it fires, the oldest delivery says when to check again.
Invariant: no delivery of a watched channel is overdue before the channel's `ring_at_ms`.
"""

from libc.stdint cimport uint64_t

from leporid.engine.bounds.clock cimport spend
from leporid.engine.connection.channel cimport Channel
from leporid.engine.connection.connections cimport Connections
from leporid.engine.connection.consumer cimport Consumer
from leporid.engine.connection.unacked cimport UnackedDelivery
from leporid.engine.queue.queue cimport Queue
from leporid.engine.queue.timers cimport Timer, Timers
from leporid.engine.stream.stream cimport Stream
from leporid.engine.wire.record cimport NO_LIMIT

from collections import deque

from leporid.amqp.errors import PreconditionFailed

cdef enum:
    LOOK_EVERY_MS = 20              # at most so often a channel is checked, however short a timeout
    # If a channel has timeouts of different lengths, all of its deliveries are checked. Each so
    # many of them delay its next check by a millisecond, so that the checks stay cheap.
    LOOKS_PER_MS = 5000


cdef uint64_t timeout_of(Connections connections, Queue queue, Consumer consumer):
    """The consumer's timeout, else its queue's, else the default; 0: none. Streams have none."""
    if type(queue) is Stream:
        return 0
    if consumer is not None and consumer.timeout_ms != NO_LIMIT:
        return consumer.timeout_ms
    if queue.timeout_ms != NO_LIMIT:
        return queue.timeout_ms
    return connections.consumer_timeout_ms


cdef bint requeues_alone(Queue queue, Consumer consumer):
    """Whether an overdue message is requeued and its channel stays open."""
    if consumer is not None and consumer.timeout_requeues >= 0:
        return consumer.timeout_requeues
    return queue.timeout_requeues


cdef object overdue(Channel channel, uint64_t timeout_ms):
    """The fault of a channel whose client has not settled a delivery in time, as in RabbitMQ."""
    return PreconditionFailed(
        f"delivery acknowledgement on channel {channel.number} timed out. Timeout value used: "
        f"{timeout_ms} ms. This timeout value can be configured, see consumers doc guide to learn "
        "more")


cdef class Check:
    """A channel whose deliveries are being checked, which may take several turns."""


cdef class Timeouts:
    """The channels with consumers or unsettled deliveries."""

    def __cinit__(self, Connections connections):
        self.connections = connections
        self.timers = Timers()
        self.channels = {}
        self.checks = deque()

    def __repr__(self):
        return f"<Timeouts channels={len(self.channels)}>"

    cdef int watch(self, Channel channel, uint64_t timeout_ms) except -1:
        """From now on a channel may have deliveries with this timeout; 0: none."""
        if not channel.watch_number:
            self.numbers += 1
            channel.watch_number = self.numbers
            channel.ring_at_ms = channel.timeout_least_ms = NO_LIMIT
            self.channels[channel.watch_number] = channel
        if not timeout_ms:
            return 0
        if channel.check is not None:
            # It may not meet a consumer that is new, and says in the end when to look again.
            channel.check.least_ms = min(channel.check.least_ms, timeout_ms)
            channel.check.earliest_ms = min(channel.check.earliest_ms,
                                            self.connections.clock.now_ms + timeout_ms)
        channel.timeout_least_ms = min(channel.timeout_least_ms, timeout_ms)
        if self.connections.clock.now_ms + timeout_ms < channel.ring_at_ms:
            self.set_alarm(channel, self.connections.clock.now_ms + timeout_ms)
        return 0

    cdef int forget(self, Channel channel) except -1:
        """A channel closes, or has neither consumers nor deliveries."""
        channel.check = None
        self.channels.pop(channel.watch_number, None)
        channel.watch_number = 0
        return 0

    cdef int turn(self) except -1:
        """Check the channels whose timer fires, while the slice lasts."""
        cdef Timer timer
        cdef Channel channel
        cdef Check check
        cdef uint64_t now_ms = self.connections.clock.now_ms
        # What changes meanwhile waits, so that all have their turn although it never ends.
        if self.connections.queues.timeouts_changed and self.changing is None:
            self.connections.queues.timeouts_changed = False
            self.changing = list(self.channels)
        if self.changing is not None:
            self.change_some()
        while self.timers.count and self.timers.heap[0].at_ms <= now_ms:
            timer = self.timers.pop()
            channel = self.channels.get(timer.seq)
            if channel is not None and channel.ring_at_ms == timer.at_ms and channel.check is None:
                self.begin(channel)
            if spend(self.connections.clock, 1):
                break
        while self.checks:
            check = self.checks[0]
            if check.channel.check is check and self.look(check):
                break
            self.checks.popleft()
            if spend(self.connections.clock, 1):
                break
        self.late = bool(self.checks) or self.changing is not None or (
            self.timers.count and self.timers.heap[0].at_ms <= now_ms)
        if self.timers.is_stale(len(self.channels)) and self.timers.prune(
                is_current, self, self.connections.clock):
            self.late = True
        return 0

    cdef int change_some(self) except -1:
        """Begin to check channels, since timeouts have changed, until the slice is over."""
        cdef Channel channel
        while self.changing:
            channel = self.channels.get(self.changing.pop())
            if channel is not None:
                channel.timeout_least_ms = 0  # unknown until all its deliveries were checked
                self.begin(channel)
            if spend(self.connections.clock, 1):
                return 0
        self.changing = None
        return 0

    cdef int begin(self, Channel channel) except -1:
        """Begin to check a channel, once more if a check is under way."""
        cdef Check check = Check()
        check.channel = channel
        check.earliest_ms = check.least_ms = channel.ring_at_ms = NO_LIMIT
        channel.check = check
        self.checks.append(check)
        return 0

    cdef bint look(self, Check check) except -1:
        """Handle the overdue deliveries of a channel; returns whether the slice is over before all
        were checked."""
        cdef Connections connections = self.connections
        cdef Channel channel = check.channel
        cdef Consumer consumer
        cdef Queue queue
        cdef UnackedDelivery *entry
        cdef uint64_t timeout_ms
        cdef size_t at = channel.unacked.above(check.upto), this
        cdef bint over = False
        if channel.out.muted:
            return self.forget(channel)     # its connection closes
        channel.unacked.walks += 1
        while at < channel.unacked.end and not over:
            entry = &channel.unacked.entries[at]
            # Deliveries are in the order of their age: later ones are due no earlier than this.
            if channel.timeout_least_ms and entry.queue != NULL and (
                    entry.since_ms + channel.timeout_least_ms >= check.earliest_ms):
                break
            this, at = at, channel.unacked.after(at)
            check.upto = entry.tag
            over = spend(connections.clock, 1)
            # What the client has settled is not overdue, even if that takes more than a turn.
            if entry.queue == NULL or entry.tag <= channel.settling_upto:
                continue
            check.looked += 1
            queue = <Queue> entry.queue
            consumer = <Consumer> entry.consumer if entry.consumer != NULL else None
            timeout_ms = timeout_of(connections, queue, consumer)
            if not timeout_ms:
                continue
            check.least_ms = min(check.least_ms, timeout_ms)
            if entry.since_ms + timeout_ms > connections.clock.now_ms:
                check.earliest_ms = min(check.earliest_ms, entry.since_ms + timeout_ms)
            elif requeues_alone(queue, consumer):
                connections.queues.timed_out += 1
                channel.take_back(this)
            else:
                connections.queues.timed_out += 1
                channel.unacked.walks -= 1
                self.forget(channel)
                channel.session.on_fault(channel.number, overdue(channel, timeout_ms))
                return False
        else:
            if at < channel.unacked.end:
                channel.unacked.walks -= 1
                channel.unacked.trim()
                return True
            check.all = True
        channel.unacked.walks -= 1
        channel.unacked.trim()
        if check.consumers is None:
            check.consumers = iter(channel.consumers)
        return self.look_at_consumers(check)

    cdef bint look_at_consumers(self, Check check) except -1:
        """Note when deliveries could be overdue that a channel's consumers have not got yet;
        returns whether the slice is over before all were looked at."""
        cdef Consumer consumer
        cdef uint64_t timeout_ms
        for consumer in check.consumers:
            timeout_ms = timeout_of(self.connections, consumer.queue, consumer)
            if timeout_ms and not consumer.no_ack:
                check.least_ms = min(check.least_ms, timeout_ms)
                check.earliest_ms = min(check.earliest_ms,
                                        self.connections.clock.now_ms + timeout_ms)
            if spend(self.connections.clock, 1):
                return True
        self.end(check)
        return False

    cdef int end(self, Check check) except -1:
        """A channel was checked: set its timer again."""
        cdef Channel channel = check.channel
        cdef uint64_t now_ms = self.connections.clock.now_ms
        channel.check = None
        if not len(channel.consumers) and channel.unacked.is_empty():
            return self.forget(channel)
        if check.all:
            channel.timeout_least_ms = check.least_ms
        channel.ring_at_ms = NO_LIMIT
        if check.earliest_ms != NO_LIMIT:
            self.set_alarm(channel, max(
                check.earliest_ms, now_ms + max(LOOK_EVERY_MS, check.looked // LOOKS_PER_MS)))
        return 0

    cdef int set_alarm(self, Channel channel, uint64_t at_ms) except -1:
        channel.ring_at_ms = at_ms
        return self.timers.push(at_ms, 0, channel.watch_number)


cdef bint is_current(object owner, Timer *timer) except -1:
    """Whether a timer is the one that a channel has set last."""
    cdef Channel channel = (<Timeouts> owner).channels.get(timer.seq)
    return channel is not None and channel.ring_at_ms == timer.at_ms
