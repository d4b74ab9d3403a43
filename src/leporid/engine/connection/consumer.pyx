"""A consumer: takes entries from its queue while it has credit.

Responsible for its credit, and for a delivery: its frames and its entry in the channel's `unacked`.
It must not choose messages; the queue does. Invariant: `unacked_count` is the number of its
deliveries in the channel's `unacked`, and of those kept for a commit.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from cpython.bytes cimport PyBytes_AS_STRING

from leporid.engine.connection.channel cimport Channel
from leporid.engine.connection.large_body cimport BODY_COPIED_MAX
from leporid.engine.connection.output cimport OUTPUT_HIGH_BYTES, is_above
from leporid.engine.connection.tracing cimport trace_delivered
from leporid.engine.log.logs cimport record_at, segment_of
from leporid.engine.queue.index cimport DELIVERIES_MAX, Slot
from leporid.engine.queue.queue cimport Queue
from leporid.engine.queue.takers cimport Taker
from leporid.engine.wire.record cimport NO_LIMIT, Record

cdef str REPLY_QUEUE = "amq.rabbitmq.reply-to."


cdef bint has_room(Consumer consumer) except -1:
    """Whether its channel is open, and its connection and its own prefetch let it take."""
    if consumer.channel.closed or consumer.channel.out.muted:
        return False
    if is_above(consumer.channel.out, OUTPUT_HIGH_BYTES):
        consumer.channel.out.stalled[consumer] = None
        return False
    return not consumer.prefetch or consumer.unacked_count < consumer.prefetch


cdef class Consumer(Taker):
    """One consumer; made by `Channel.consume`."""

    def __cinit__(self, Channel channel, Queue queue, str tag, bint no_ack, int priority,
                  uint32_t prefetch):
        raw = tag.encode()
        self.channel = channel
        self.queue = queue
        self.tag = tag
        self.no_ack = no_ack
        self.priority = priority
        self.prefetch = 0 if no_ack else prefetch
        if no_ack:
            self.delivered = &queue.counts.delivered_no_ack
            self.type_delivered = &queue.type_counts.delivered_no_ack
        else:
            self.delivered = &queue.counts.delivered
            self.type_delivered = &queue.type_counts.delivered
        self.active = True
        self.timeout_ms = NO_LIMIT
        self.timeout_requeues = -1
        self.replies = queue.name.startswith(REPLY_QUEUE)
        self.head = b"\x00\x3c\x00\x3c" + bytes((len(raw),)) + raw

    def __repr__(self):
        return f"<Consumer {self.tag!r} of {self.queue.name!r} unacked={self.unacked_count}>"

    @property
    def judging(self):
        """Messages that wait for its filter class, as far as it has searched."""
        return 0

    cdef bint can_take(self) except -1:
        if not has_room(self):
            return False
        if self.credit is not None:
            return self.has_credit()
        return not self.channel.global_limit or has_channel_credit(self)

    cdef bint has_credit(self) except -1:
        """Whether the limits that it shares let it take; if not, it waits for the one that does
        not."""
        if self.credit is not None and not self.credit.grants(self.queue, self.priority):
            self.credit.wait(self)
            return False
        return has_channel_credit(self)

    cdef int take(self, uint64_t seq, Slot *slot) except -1:
        cdef Channel channel = self.channel
        cdef Record *record = record_at(channel.logs, slot.position)
        cdef uint64_t tag = channel.delivery_tag + 1
        if not self.replies:
            channel.delivery_tag = tag
        self.delivered[0] += 1
        self.type_delivered[0] += 1
        if slot.deliveries:
            self.queue.counts.redelivered += 1
            self.queue.type_counts.redelivered += 1
        if record.body_len > BODY_COPIED_MAX:
            channel.out.source = segment_of(channel.logs, slot.position)
        # As in RabbitMQ, the first delivery has no x-delivery-count; basic.get has 0.
        if self.queue.counted and slot.deliveries & DELIVERIES_MAX:
            channel.out.write_counted(
                channel.number, <const uint8_t *> PyBytes_AS_STRING(self.head), len(self.head),
                tag, slot.deliveries > 0, record, slot.deliveries & DELIVERIES_MAX)
        else:
            channel.out.write_delivery(
                channel.number, <const uint8_t *> PyBytes_AS_STRING(self.head), len(self.head),
                tag, slot.deliveries > 0, record)
        if channel.trace is not None:
            trace_delivered(channel.trace, self.queue, record, slot.deliveries > 0)
        if slot.deliveries & DELIVERIES_MAX < DELIVERIES_MAX:
            slot.deliveries += 1
        if self.no_ack:
            self.queue.settle(seq, slot)
        else:
            self.unacked_count += 1
            if self.credit is not None:
                self.credit.take_one()
            channel.outstanding += 1
            channel.unacked_count += 1
            channel.unacked.add(tag, seq, self.queue, self, channel.logs.clock.now_ms)
        return 0

    cdef int resume(self) except -1:
        if self.active and self.level is None:
            self.queue.resume(self)
        elif self.group is not None:
            self.group.resume()
        return 0

    cdef int offered(self) except -1:
        self.home.enter(self)
        return self.queue.deliver_offered()


cdef bint has_channel_credit(Consumer consumer) except -1:
    """Whether the channel's limit lets a consumer take; if not, it waits for credit.

    As in RabbitMQ, deliveries to consumers without acknowledgements do not count against the limit,
    but such consumers get none while it is reached.
    """
    cdef Channel channel = consumer.channel
    if not channel.global_limit or consumer.replies:
        return True
    if channel.global_credit.grants(consumer.queue, consumer.priority):
        return True
    channel.global_credit.wait(consumer)
    return False
