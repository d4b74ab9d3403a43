"""Consumer timeouts: what becomes of deliveries that nobody settles (RabbitMQ, consumer_timeout).

Responsible for when a channel is looked at, and for what then happens to deliveries that are too
old: the channel is closed, or the message alone goes back to its queue. It does not know who
configured a timeout. A channel has one timer, which nothing on the way of a message touches: when
it rings, the oldest delivery says when to look again. Invariant: no delivery of a watched channel
is overdue before `ring_at_ms` of that channel.
"""

from libc.stdint cimport UINT64_MAX, uint64_t

from leporid.engine.connection.channel cimport Channel
from leporid.engine.connection.consumer cimport Consumer
from leporid.engine.connection.unacked cimport UnackedDelivery
from leporid.engine.plane cimport Plane
from leporid.engine.queue.queue cimport Queue
from leporid.engine.connection.settling cimport take_back
from leporid.engine.stream.stream cimport Stream
from leporid.engine.queue.timers cimport Timer, Timers

from leporid.amqp.errors import PreconditionFailed

cdef enum:
    STALE_MAX = 1024                # timers that count no more, before it is worth looking
    LOOK_EVERY_MS = 20              # at a channel; a timeout of a millisecond costs no more
    # Where timeouts of different lengths meet on a channel, all of its deliveries are gone through.
    # So many of them cost it a millisecond of its precision, so that the broker is left its time.
    LOOKS_PER_MS = 5000


cdef uint64_t timeout_of(Plane plane, object queue, object consumer):
    """The consumer's own, else its queue's, else everybody's; 0: none. Streams have none."""
    if type(queue) is Stream:
        return 0
    if consumer is not None and (<Consumer> consumer).timeout_ms != UINT64_MAX:
        return (<Consumer> consumer).timeout_ms
    if (<Queue> queue).timeout_ms != UINT64_MAX:
        return (<Queue> queue).timeout_ms
    return plane.consumer_timeout_ms


cdef bint requeues_alone(Queue queue, Consumer consumer):
    """Whether the message alone goes back."""
    if consumer is not None and consumer.timeout_requeues >= 0:
        return consumer.timeout_requeues
    return queue.timeout_requeues


cdef class Timeouts:
    """The channels of one plane that have something to lose."""

    def __cinit__(self, Plane plane):
        self.plane = plane
        self.timers = Timers()
        self.channels = {}

    def __repr__(self):
        return f"<Timeouts channels={len(self.channels)}>"

    cdef int watch(self, object given, uint64_t timeout_ms) except -1:
        """A channel may have a delivery, from now on, that may last so long; 0: for ever."""
        cdef Channel channel = <Channel> given
        if not channel.watch_number:
            self.numbers += 1
            channel.watch_number = self.numbers
            channel.ring_at_ms = channel.timeout_least_ms = UINT64_MAX
            self.channels[channel.watch_number] = channel
        if not timeout_ms:
            return 0
        channel.timeout_least_ms = min(channel.timeout_least_ms, timeout_ms)
        if self.plane.now_ms + timeout_ms < channel.ring_at_ms:
            self.set_alarm(channel, self.plane.now_ms + timeout_ms)
        return 0

    cdef int forget(self, object given) except -1:
        """The channel ends, or has neither consumers nor deliveries."""
        cdef Channel channel = <Channel> given
        self.channels.pop(channel.watch_number, None)
        channel.watch_number = 0
        return 0

    cdef int turn(self) except -1:
        """Look at the channels whose timer rings."""
        cdef Timer due
        cdef Channel channel
        if self.changed:
            self.changed = False
            for channel in list(self.channels.values()):
                channel.timeout_least_ms = 0  # until all of its deliveries were gone through
                self.look(channel)
        while self.timers.count and self.timers.heap[0].at_ms <= self.plane.now_ms:
            due = self.timers.pop()
            channel = self.channels.get(due.seq)
            if channel is not None and channel.ring_at_ms == due.at_ms:
                self.look(channel)
        return 0

    cdef int look(self, object given) except -1:
        """Deal with what is overdue on a channel, and set its timer again."""
        cdef Channel channel = <Channel> given
        cdef Plane plane = self.plane
        cdef Consumer consumer
        cdef Queue queue
        cdef UnackedDelivery *entry
        cdef uint64_t timeout_ms, earliest_ms = UINT64_MAX, least_ms = UINT64_MAX, looked = 0
        cdef size_t at = channel.unacked.start
        for consumer in channel.consumers:
            timeout_ms = timeout_of(plane, consumer.queue, consumer)
            if timeout_ms and not consumer.no_ack:
                least_ms = min(least_ms, timeout_ms)
        if least_ms != UINT64_MAX:
            earliest_ms = plane.now_ms + least_ms  # what is delivered from now on
        channel.unacked.walks += 1
        while at < channel.unacked.end:
            entry = &channel.unacked.entries[at]
            at += 1
            if entry.queue == NULL:
                continue
            # Deliveries are in the order of their age: those to come are due no earlier than this.
            if channel.timeout_least_ms and (
                    entry.since_ms + channel.timeout_least_ms >= earliest_ms):
                break
            looked += 1
            queue = <Queue> entry.queue
            consumer = <Consumer> entry.consumer if entry.consumer != NULL else None
            timeout_ms = timeout_of(plane, queue, consumer)
            if not timeout_ms:
                continue
            least_ms = min(least_ms, timeout_ms)
            if entry.since_ms + timeout_ms > plane.now_ms:
                earliest_ms = min(earliest_ms, entry.since_ms + timeout_ms)
            elif requeues_alone(queue, consumer):
                plane.timed_out += 1
                take_back(channel, at - 1)
            else:
                plane.timed_out += 1
                channel.unacked.walks -= 1
                self.forget(channel)
                channel.session.on_fault(channel.number, PreconditionFailed(
                    f"delivery acknowledgement on channel {channel.number} timed out. Timeout "
                    f"value used: {timeout_ms} ms. This timeout value can be configured, see "
                    "consumers doc guide to learn more"))
                return 0
        else:
            channel.timeout_least_ms = least_ms
        channel.unacked.walks -= 1
        channel.unacked.trim()
        if not channel.consumers and channel.unacked.start == channel.unacked.end:
            return self.forget(channel)
        channel.ring_at_ms = UINT64_MAX
        if earliest_ms != UINT64_MAX:
            self.set_alarm(channel, max(
                earliest_ms, plane.now_ms + max(LOOK_EVERY_MS, looked // LOOKS_PER_MS)))
        return 0

    cdef int set_alarm(self, object given, uint64_t at_ms) except -1:
        cdef Channel channel = <Channel> given
        if self.timers.count > STALE_MAX + 2 * <size_t> len(self.channels):
            self.prune()
        channel.ring_at_ms = at_ms
        return self.timers.push(at_ms, 0, channel.watch_number)

    cdef int prune(self) except -1:
        """Forget timers of channels that are gone, or have an earlier one."""
        cdef size_t at, kept = 0
        cdef Timer *heap = self.timers.heap
        cdef Channel channel
        for at in range(self.timers.count):
            channel = self.channels.get(heap[at].seq)
            if channel is not None and channel.ring_at_ms == heap[at].at_ms:
                heap[kept] = heap[at]
                kept += 1
        self.timers.count = kept
        self.timers.rebuild()
        return 0
