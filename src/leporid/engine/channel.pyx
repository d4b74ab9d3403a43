"""A channel: publishing with confirms and transactions, deliveries and their settling.

Responsible for delivery tags, for credit (prefetch), for the order of confirms and for what a
closing channel gives back. It does not know how frames are cut from a stream of bytes, nor what
may be declared. Invariants: `unacked` is sorted by tag; a confirm leaves only after every publish
before it was confirmed too, and after the generation of each was synced.
"""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcmp, memcpy, memmove, memset
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF

from leporid.engine.log cimport FLAG_IN_TX, KIND_COMMIT, KIND_PUBLISH, Log
from leporid.engine.outbox cimport OUTPUT_HIGH_BYTES, Outbox
from leporid.engine.plane cimport Plane
from leporid.engine.queue cimport REDELIVERED, UNACKED, Queue, Slot, Taker
from leporid.engine.source cimport Route, Source, make_route
from leporid.engine.wire cimport (
    TTL_INVALID, Props, Record, Target, parse_ttl, walk_properties,
)

from leporid.amqp.errors import (
    NotImplementedFault, PreconditionFailed, SyntaxFault,
)
from leporid.engine.rewrites import copies_of, invalid_expiration, with_reply_to

cdef bytes REPLY_TO = b"amq.rabbitmq.reply-to"
cdef extern from *:
    """
    enum { MANDATORY_BIT = 1, IMMEDIATE_BIT = 2 };
    #define NO_TTL UINT64_MAX
    """
    uint64_t NO_TTL
    int MANDATORY_BIT
    int IMMEDIATE_BIT


cdef class Consumer(Taker):
    """One consumer: takes entries from its queue while it has credit."""

    def __cinit__(self, Channel channel, Queue queue, str tag, bint no_ack, int priority,
                  uint32_t prefetch):
        raw = tag.encode()
        self.channel = channel
        self.queue = queue
        self.tag = tag
        self.no_ack = no_ack
        self.priority = priority
        self.prefetch = 0 if no_ack else prefetch
        self.active = True
        self.head = b"\x00\x3c\x00\x3c" + bytes((len(raw),)) + raw

    def __repr__(self):
        return f"<Consumer {self.tag!r} of {self.queue.name!r} unacked={self.unacked_count}>"

    cdef bint can_take(self):
        cdef Channel channel = self.channel
        cdef Outbox out = channel.out
        if out.out_end - out.out_start > OUTPUT_HIGH_BYTES:
            out.stalled.append(self)
            return False
        if not channel.flowing:
            return False
        if self.no_ack:
            return True
        if self.prefetch and self.unacked_count >= self.prefetch:
            return False
        return not channel.global_limit or channel.outstanding < channel.global_limit

    cdef int take(self, uint64_t seq, Slot *slot) except -1:
        cdef Channel channel = self.channel
        cdef Record *record = channel.plane.record(slot.position)
        channel.delivery_tag += 1
        slot.deliveries += 1
        channel.plane.delivered += 1
        if slot.flags & REDELIVERED:
            channel.plane.redelivered += 1
        channel.out.write_delivery(
            channel.number, <const uint8_t *> PyBytes_AS_STRING(self.head), len(self.head),
            channel.delivery_tag, slot.flags & REDELIVERED, record)
        if self.no_ack:
            self.queue.settle(seq, slot)
        else:
            self.unacked_count += 1
            channel.outstanding += 1
            channel.remember(channel.delivery_tag, seq, self.queue, self)
        return 0

    cdef int resume(self) except -1:
        if self.active and self.level is None:
            self.queue.enter_ring(self)
        return 0


cdef class Channel:
    """One channel of a connection; made by `Connection.open_channel`."""

    def __cinit__(self, Outbox out, uint16_t number, session):
        self.out = out
        self.plane = out.plane
        self.number = number
        self.session = session
        self.flowing = True
        self.consumers = []
        self.tx_publishes = []
        self.tx_settles = []

    def __dealloc__(self):
        cdef size_t i
        for i in range(self.unacked_start, self.unacked_end):
            if self.unacked[i].queue != NULL:
                Py_DECREF(<object> self.unacked[i].queue)
                if self.unacked[i].consumer != NULL:
                    Py_DECREF(<object> self.unacked[i].consumer)
        free(self.unacked)
        free(self.pending)

    def __repr__(self):
        return (f"<Channel {self.number} consumers={len(self.consumers)} "
                f"unacked={self.unacked_count}>")

    # ------------------------------------------------------------- consuming

    @property
    def prefetch_global(self):
        """Unsettled deliveries that all consumers of the channel may have together; 0: no limit."""
        return self.global_limit

    @prefetch_global.setter
    def prefetch_global(self, uint32_t limit):
        self.global_limit = limit
        self.wake_consumers()

    def consume(self, Queue queue not None, str tag, bint no_ack, int priority, uint32_t prefetch):
        """Start a consumer; deliveries begin with the next `Plane.run`."""
        cdef Consumer consumer = Consumer(self, queue, tag, no_ack, priority, prefetch)
        self.consumers.append(consumer)
        queue.attach(consumer)
        return consumer

    def cancel(self, Consumer consumer not None):
        """End a consumer; what it has not settled stays with the channel."""
        if consumer.active:
            consumer.active = False
            consumer.queue.detach(consumer)
            self.consumers.remove(consumer)

    def get(self, Queue queue not None, bint no_ack):
        """Write basic.get-ok and the next message; False when the queue is empty."""
        cdef uint64_t seq
        cdef Slot *slot
        self.plane.expire()
        slot = queue.pop(&seq)
        if slot == NULL:
            return False
        self.delivery_tag += 1
        slot.deliveries += 1
        self.plane.got += 1
        self.out.write_got(self.number, self.delivery_tag, slot.flags & REDELIVERED,
                           <uint32_t> queue.ready_count, self.plane.record(slot.position))
        if no_ack:
            queue.settle(seq, slot)
        else:
            self.remember(self.delivery_tag, seq, queue, None)
        return True

    def set_flow(self, bint active):
        """channel.flow from the client: stop or go on delivering."""
        self.flowing = active
        if active:
            self.wake_consumers()

    cdef int wake_consumers(self) except -1:
        cdef Consumer consumer
        for consumer in self.consumers:
            consumer.resume()
        return 0

    cdef int remember(self, uint64_t tag, uint64_t seq, Queue queue, Consumer consumer) except -1:
        cdef Unacked *entry
        cdef size_t kept, at, count = self.unacked_end - self.unacked_start
        cdef void *grown
        if self.unacked_end == self.unacked_capacity:
            if self.unacked_holes * 2 > count:
                kept = 0
                for at in range(self.unacked_start, self.unacked_end):
                    if self.unacked[at].queue != NULL:
                        self.unacked[kept] = self.unacked[at]
                        kept += 1
                self.unacked_start, self.unacked_end, self.unacked_holes = 0, kept, 0
            elif self.unacked_start * 2 > self.unacked_capacity:
                memmove(self.unacked, self.unacked + self.unacked_start, count * sizeof(Unacked))
                self.unacked_start, self.unacked_end = 0, count
            else:
                self.unacked_capacity = max(16, self.unacked_capacity * 2)
                grown = realloc(self.unacked, self.unacked_capacity * sizeof(Unacked))
                if grown == NULL:
                    raise MemoryError("no memory for unsettled deliveries")
                self.unacked = <Unacked *> grown
        entry = &self.unacked[self.unacked_end]
        self.unacked_end += 1
        entry.tag, entry.seq = tag, seq
        Py_INCREF(queue)
        entry.queue = <PyObject *> queue
        entry.consumer = NULL
        if consumer is not None:
            Py_INCREF(consumer)
            entry.consumer = <PyObject *> consumer
        self.unacked_count += 1
        return 0

    cdef ssize_t index_of(self, uint64_t tag):
        """Where an unsettled delivery stands; -1 when there is none of that tag."""
        cdef size_t low = self.unacked_start, high = self.unacked_end, middle
        if low == high or tag < self.unacked[low].tag:
            return -1
        if tag - self.unacked[low].tag < high - low:
            middle = low + <size_t> (tag - self.unacked[low].tag)
            if self.unacked[middle].tag == tag:
                return <ssize_t> middle if self.unacked[middle].queue != NULL else -1
        while low < high:
            middle = (low + high) // 2
            if self.unacked[middle].tag < tag:
                low = middle + 1
            else:
                high = middle
        if low < self.unacked_end and self.unacked[low].tag == tag:
            return <ssize_t> low if self.unacked[low].queue != NULL else -1
        return -1

    cdef int settle(self, uint64_t tag, bint multiple, int how) except -1:
        """basic.ack, basic.reject, basic.nack (AMQP 0-9-1 1.8.3.13; RabbitMQ's basic.nack)."""
        cdef ssize_t upto
        cdef size_t at
        if multiple and tag == 0:
            upto = <ssize_t> self.unacked_end - 1
        else:
            upto = self.index_of(tag)
            if upto < 0:
                raise PreconditionFailed(f"unknown delivery tag {tag}")
        if not multiple:
            self.settle_at(upto, how)
        else:
            at = self.unacked_start
            while <ssize_t> at <= upto:
                if self.unacked[at].queue != NULL:
                    self.settle_at(at, how)
                at += 1
        return self.trim()

    cdef int trim(self) except -1:
        while (self.unacked_start < self.unacked_end
                and self.unacked[self.unacked_start].queue == NULL):
            self.unacked_start += 1
            self.unacked_holes -= 1
        if self.unacked_start == self.unacked_end:
            self.unacked_start = self.unacked_end = 0
        return 0

    cdef int settle_at(self, size_t index, int how) except -1:
        cdef Unacked *entry = &self.unacked[index]
        cdef Queue queue = <Queue> entry.queue
        cdef Consumer consumer = None
        Py_DECREF(queue)
        entry.queue = NULL
        if entry.consumer != NULL:
            consumer = <Consumer> entry.consumer
            Py_DECREF(consumer)
            entry.consumer = NULL
        self.unacked_holes += 1
        if self.transactional:
            self.tx_settles.append((entry.tag, queue, entry.seq, consumer, how))
            return 0
        return self.settle_entry(queue, entry.seq, consumer, how)

    cdef int settle_entry(self, Queue queue, uint64_t seq, Consumer consumer, int how) except -1:
        cdef Slot *slot
        cdef bint was_full
        self.unacked_count -= 1
        if not queue.retired:
            slot = queue.slot_of(seq)
            if slot != NULL and slot.state == UNACKED:
                if how == SETTLE_REQUEUE:
                    queue.requeue(seq, slot)
                else:
                    self.plane.acked += 1
                    queue.settle(seq, slot)
        if consumer is not None:
            consumer.unacked_count -= 1
            was_full = self.global_limit and self.outstanding >= self.global_limit
            self.outstanding -= 1
            if was_full:
                self.wake_consumers()
            elif consumer.level is None and consumer.active:
                queue.enter_ring(consumer)
        return 0

    def recover(self):
        """basic.recover with requeue: everything unsettled goes back to its place."""
        cdef size_t at
        for at in range(self.unacked_start, self.unacked_end):
            if self.unacked[at].queue != NULL:
                entry = &self.unacked[at]
                queue = <Queue> entry.queue
                consumer = <Consumer> entry.consumer if entry.consumer != NULL else None
                Py_DECREF(queue)
                if consumer is not None:
                    Py_DECREF(consumer)
                entry.queue = entry.consumer = NULL
                self.settle_entry(queue, entry.seq, consumer, SETTLE_REQUEUE)
        self.unacked_start = self.unacked_end = self.unacked_holes = 0

    # ------------------------------------------------------------- publishing

    def select_confirm(self):
        """confirm.select: publishes from now on are numbered from 1."""
        self.confirming = True

    cdef int publish(self, const uint8_t *method, size_t method_len, const uint8_t *properties,
                     size_t properties_len, const uint8_t *body, size_t body_len,
                     bytes user_id) except -1:
        """One basic.publish, complete.

        `method` is its payload from the exchange's length on: exchange, routing key, bits.
        Checks come in RabbitMQ's order: exchange, permission, properties, routing.
        """
        cdef const uint8_t *key = method + 1 + method[0]
        cdef const uint8_t *bits = key + 1 + key[0]
        cdef size_t names_len = bits - method
        cdef Props props
        cdef Route route
        cdef uint64_t ttl_ms = NO_TTL
        cdef bytes changed
        if walk_properties(properties, properties_len, &props):
            raise SyntaxFault("malformed content header: properties or headers do not parse")
        if bits[0] & IMMEDIATE_BIT:
            raise NotImplementedFault("immediate=true")
        self.deepest = 0
        route = self.route_of(method, key, properties, properties_len)
        if props.user_id != NULL and user_id and (
                props.user_id_len != len(user_id)
                or memcmp(props.user_id, PyBytes_AS_STRING(user_id), props.user_id_len)):
            claimed = props.user_id[:props.user_id_len].decode("utf-8", "replace")
            raise PreconditionFailed(
                f"user_id property set to '{claimed}' but authenticated user was "
                f"'{user_id.decode('utf-8', 'replace')}'")
        if props.reply_to != NULL and props.reply_to_len == len(REPLY_TO) and not memcmp(
                props.reply_to, PyBytes_AS_STRING(REPLY_TO), props.reply_to_len):
            changed = with_reply_to(properties[:properties_len],
                                    self.session.reply_address(self.number))
            properties, properties_len = <const uint8_t *> PyBytes_AS_STRING(changed), len(changed)
        if parse_ttl(&props, &ttl_ms) == TTL_INVALID:
            raise invalid_expiration(props.expiration[:props.expiration_len])
        if props.copies:
            changed, keys = copies_of(properties[:properties_len])
            properties, properties_len = <const uint8_t *> PyBytes_AS_STRING(changed), len(changed)
            if keys:
                text = key[1:1 + key[0]].decode("utf-8", "surrogateescape")
                route = make_route(self.session.copies(
                    self.source, self.source.name, [text, *keys], changed))
        if self.confirming:
            self.publish_seq += 1
        if self.transactional:
            self.tx_publishes.append((
                route, method[:names_len], properties[:properties_len], body[:body_len],
                props.delivery_mode == 2, bits[0] & MANDATORY_BIT, ttl_ms))
            return 0
        if not route.queues:
            self.plane.unroutable += 1
            if bits[0] & MANDATORY_BIT:
                self.give_back(method, names_len, properties, properties_len, body, body_len)
            if self.confirming:
                self.note_confirm(0)
            return 0
        self.store(route, method, names_len, properties, properties_len, body, body_len,
                   props.delivery_mode == 2, 0, ttl_ms)
        if self.confirming:
            self.note_confirm(
                self.plane.generation if props.delivery_mode == 2 and route.durable else 0)
        return 0

    cdef Route route_of(self, const uint8_t *exchange, const uint8_t *key,
                        const uint8_t *properties, size_t properties_len):
        cdef Source source = self.source
        cdef Route route = self.route
        if (source is None or source.retired or len(source.raw_name) != exchange[0]
                or memcmp(PyBytes_AS_STRING(source.raw_name), exchange + 1, exchange[0])):
            try:
                name = exchange[1:1 + exchange[0]].decode()
            except UnicodeDecodeError:
                raise SyntaxFault("the exchange's name is not valid UTF-8") from None
            self.source = source = self.session.source(name)
            self.route = route = None
        if (route is not None and self.route_epoch == source.epoch
                and len(route.key) == key[0]
                and not memcmp(PyBytes_AS_STRING(route.key), key + 1, key[0])):
            return route
        route = source.lookup(key + 1, key[0], properties, properties_len)
        if source.cacheable:
            self.route = route
            self.route_epoch = source.epoch
        return route

    cdef int store(self, Route route, const uint8_t *names, size_t names_len,
                   const uint8_t *properties, size_t properties_len, const uint8_t *body,
                   size_t body_len, bint persistent, uint8_t flags, uint64_t ttl_ms) except -1:
        """Append one record and one entry in each queue of the route."""
        cdef Plane plane = self.plane
        cdef Log log = plane.durable if persistent and route.durable else plane.transient
        cdef size_t targets = len(route.queues), at
        cdef size_t size = (sizeof(Record) + targets * sizeof(Target) + names_len
                            + properties_len + body_len + 7) & ~<size_t> 7
        cdef Record *record = log.begin(size)
        cdef Target *target = <Target *> (<uint8_t *> record + sizeof(Record))
        cdef uint8_t *p = <uint8_t *> (target + targets)
        cdef Queue queue
        cdef uint64_t position
        memset(<uint8_t *> record + size - 8, 0, 8)
        record.size = <uint32_t> size
        record.kind = KIND_PUBLISH
        record.flags = flags
        record.targets = <uint16_t> targets
        record.properties_len = <uint32_t> properties_len
        record.timestamp_ms = plane.wall_ms
        record.body_len = <uint32_t> body_len
        record.names_len = <uint16_t> names_len
        record.reserved = 0
        for at in range(targets):
            queue = <Queue> route.queues[at]
            target[at].queue = queue.id
            target[at].seq = queue.next_seq
        memcpy(p, names, names_len)
        p += names_len
        memcpy(p, properties, properties_len)
        memcpy(p + properties_len, body, body_len)
        position = log.finish(record)
        log.hold(position, <uint32_t> targets)
        if log.durable:
            plane.dirty = True
        plane.published += 1
        for at in range(targets):
            queue = <Queue> route.queues[at]
            queue.push(position, <uint32_t> body_len)
            if ttl_ms != NO_TTL:
                queue.set_ttl(queue.next_seq - 1, ttl_ms)
            if queue.ready_count > self.deepest and queue.consumer_count:
                self.deepest = queue.ready_count
        return 0

    cdef int give_back(self, const uint8_t *names, size_t names_len, const uint8_t *properties,
                       size_t properties_len, const uint8_t *body, size_t body_len) except -1:
        """basic.return: mandatory, and no queue was found (AMQP 0-9-1 1.8.3.11)."""
        cdef bytes head = b"\x00\x3c\x00\x32\x01\x38\x08NO_ROUTE" + names[:names_len]
        self.plane.returned += 1
        self.out.write_method(self.number, <const uint8_t *> PyBytes_AS_STRING(head), len(head))
        return self.out.write_content(self.number, properties, properties_len, body, body_len)

    cdef int note_confirm(self, uint64_t generation) except -1:
        """The newest publish is confirmed once that generation is synced; 0: at once."""
        cdef Pending *last
        cdef void *grown
        if self.pending_end > self.pending_start:
            last = &self.pending[self.pending_end - 1]
            if generation <= last.generation:
                last.upto = self.publish_seq
                return 0
        if self.pending_start == self.pending_end:
            self.pending_start = self.pending_end = 0
        if self.pending_end == self.pending_capacity:
            if self.pending_start:
                memmove(self.pending, self.pending + self.pending_start,
                        (self.pending_end - self.pending_start) * sizeof(Pending))
                self.pending_end -= self.pending_start
                self.pending_start = 0
            else:
                self.pending_capacity = max(4, self.pending_capacity * 2)
                grown = realloc(self.pending, self.pending_capacity * sizeof(Pending))
                if grown == NULL:
                    raise MemoryError("no memory for unconfirmed publishes")
                self.pending = <Pending *> grown
        last = &self.pending[self.pending_end]
        self.pending_end += 1
        last.upto, last.generation = self.publish_seq, generation
        if generation:
            self.plane.awaited = True
        if not self.unconfirmed:
            self.unconfirmed = True
            self.plane.confirming.append(self)
        return 0

    cdef bint confirm(self) except -1:
        """Confirm what is synced, as one multiple ack; returns whether something is left."""
        cdef uint64_t upto = 0
        while (self.pending_start < self.pending_end
                and self.pending[self.pending_start].generation <= self.plane.synced):
            upto = self.pending[self.pending_start].upto
            self.pending_start += 1
        if upto and not self.closing and not self.closed:
            self.out.write_settled(self.number, upto, upto > self.confirmed_seq + 1)
            self.plane.confirmed += upto - self.confirmed_seq
            self.confirmed_seq = upto
        self.unconfirmed = self.pending_start < self.pending_end and not self.closed
        return self.unconfirmed

    # ------------------------------------------------------------- transactions

    def select_tx(self):
        """tx.select: publishes and settles wait for commit."""
        self.transactional = True

    def commit(self):
        """tx.commit: all publishes and settles of the transaction, or after a crash none.

        The facts of one transaction lie next to each other in one segment and count only when the
        COMMIT fact after them is there. Returns the generation to wait for, 0 for none.
        """
        cdef Plane plane = self.plane
        cdef Log log = plane.durable
        cdef Route route
        cdef Record *record
        cdef size_t size = 0
        cdef uint8_t flags = 0
        cdef bytes names, properties, body
        cdef bint durable = False
        publishes, self.tx_publishes = self.tx_publishes, []
        settles, self.tx_settles = self.tx_settles, []
        plane.flush_settles(0)
        for route, names, properties, body, persistent, _, _ in publishes:
            if persistent and route.durable:
                durable = True
                size += sizeof(Record) + 8 + len(names) + len(properties) + len(body)
                size += len(route.queues) * sizeof(Target)
        for settle in settles:
            durable = durable or (<Queue> settle[1]).durable
            size += 2 * sizeof(Record) + 32
        if durable:
            size += sizeof(Record)
            log.begin((size + 7) & ~<size_t> 7)  # so that what follows does not cross a segment
            flags = FLAG_IN_TX
        for route, names, properties, body, persistent, mandatory, ttl_ms in publishes:
            if route.queues:
                self.store(route, <const uint8_t *> PyBytes_AS_STRING(names), len(names),
                           <const uint8_t *> PyBytes_AS_STRING(properties), len(properties),
                           <const uint8_t *> PyBytes_AS_STRING(body), len(body), persistent, flags,
                           ttl_ms)
            elif mandatory:
                self.give_back(<const uint8_t *> PyBytes_AS_STRING(names), len(names),
                               <const uint8_t *> PyBytes_AS_STRING(properties), len(properties),
                               <const uint8_t *> PyBytes_AS_STRING(body), len(body))
        for _, queue, seq, consumer, how in settles:
            self.settle_entry(queue, seq, consumer, how)
        if not durable:
            return 0
        plane.flush_settles(FLAG_IN_TX)
        record = log.begin(sizeof(Record))
        memset(record, 0, sizeof(Record))
        record.size = sizeof(Record)
        record.kind = KIND_COMMIT
        log.finish(record)
        plane.dirty = True
        return plane.generation

    def rollback(self):
        """tx.rollback: publishes are forgotten; what was settled is unsettled again."""
        cdef Queue queue
        cdef Consumer consumer
        cdef uint64_t tag, seq
        self.tx_publishes = []
        settles, self.tx_settles = self.tx_settles, []
        if not settles:
            return
        entries = [(tag, queue, seq, consumer) for tag, queue, seq, consumer, _ in settles]
        cdef size_t at
        for at in range(self.unacked_start, self.unacked_end):
            if self.unacked[at].queue != NULL:
                entries.append((
                    self.unacked[at].tag, <Queue> self.unacked[at].queue, self.unacked[at].seq,
                    <Consumer> self.unacked[at].consumer if self.unacked[at].consumer != NULL
                    else None))
                Py_DECREF(<object> self.unacked[at].queue)
                if self.unacked[at].consumer != NULL:
                    Py_DECREF(<object> self.unacked[at].consumer)
        self.unacked_start = self.unacked_end = self.unacked_holes = 0
        entries.sort(key=first_of)
        self.unacked_count = 0
        for tag, queue, seq, consumer in entries:
            self.remember(tag, seq, queue, consumer)

    # ------------------------------------------------------------- closing

    cdef int forget_consumers(self) except -1:
        cdef Consumer consumer
        for consumer in self.consumers:
            consumer.active = False
            consumer.queue.detach(consumer)
        self.consumers = []
        return 0

    cdef int shut(self) except -1:
        """Give everything back: consumers end, what is unsettled is requeued."""
        if self.closed:
            return 0
        self.forget_consumers()
        self.rollback()
        self.transactional = False
        self.recover()
        self.expecting = 0
        self.assembling_body = None
        self.closed = True
        self.source = None
        self.route = None
        return 0


def first_of(entry):
    return entry[0]
