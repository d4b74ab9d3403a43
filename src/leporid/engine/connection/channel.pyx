"""A channel: publishing with confirms and transactions, deliveries and their settling.

Responsible for delivery tags, for credit (prefetch), for the order of confirms and for what a
closing channel gives back. It does not know how frames are cut from a stream of bytes, nor what
may be declared. Invariants: `unacked` is sorted by tag; a confirm leaves only after every publish
before it was confirmed too, and after the generation of each was synced.
"""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp
from cpython.bytes cimport PyBytes_AS_STRING

from leporid.engine.connection.judged_stream_consumer cimport stream_consumer
from leporid.engine.stream.choice cimport Choice
from leporid.engine.connection.consumer cimport Consumer
from leporid.engine.queue.delays cimport postponed
from leporid.engine.connection.confirms cimport Confirms, Pending
from leporid.engine.connection.credit cimport ChannelCredit, Credit
from leporid.engine.queue.unique_queue cimport without_duplicates
from leporid.engine.selectors.filter cimport Filter
from leporid.engine.connection.late_acks cimport LateAcks
from leporid.engine.connection.group_retries cimport GroupRetries
from leporid.engine.queue.index cimport DELIVERIES_MAX, Slot
from leporid.engine.connection.unacked cimport UnackedDeliveries
from leporid.engine.connection.outbox cimport Outbox
from leporid.engine.queue.queue cimport Queue
from leporid.engine.connection.stream_consumer cimport StreamConsumer
from leporid.engine.connection.sender cimport Sender, open_queues
from leporid.engine.connection.settling cimport drop_unsettled, give_back_unsettled, recover
from leporid.engine.routing.route_cache cimport Route, RouteCache, make_route
from leporid.engine.log.storing cimport store
from leporid.engine.stream.stream cimport Stream
from leporid.engine.connection.timeouts cimport timeout_of
from leporid.engine.connection.transaction cimport commit, rollback
from leporid.engine.wire.wire cimport (
    HAS_BCC, HAS_CC, HAS_DELAY, HAS_DELIVER_AT, TTL_INVALID, Props, parse_ttl, walk_properties,
)

from leporid.amqp.errors import (
    NotImplementedFault, PreconditionFailed, ResourceError, SyntaxFault,
)
from leporid.engine.wire.rewrites import copies_of, invalid_expiration, with_reply_to

cdef bytes REPLY_TO = b"amq.rabbitmq.reply-to"
cdef extern from *:
    """enum { MANDATORY_BIT = 1, IMMEDIATE_BIT = 2 };"""
    int MANDATORY_BIT
    int IMMEDIATE_BIT

cdef enum:
    # Kept in memory until commit, and then one segment of the log, whose places are 32-bit numbers.
    TX_BYTES_MAX = 512 * 1024 * 1024


cdef class Channel(Sender):
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
        self.tx_letters = []
        self.unacked = UnackedDeliveries()
        self.late_acks = LateAcks()
        self.confirms = Confirms()

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
        if limit and self.global_credit is None:
            self.global_credit = ChannelCredit(self)
        if limit:
            self.global_credit.freed()
        elif self.global_credit is not None:
            self.global_credit.release()

    def consume(self, Queue queue not None, str tag, bint no_ack, int priority, uint32_t prefetch,
                timeout_ms=None, timeout_requeues=None, Filter filter=None):
        """Start a consumer; deliveries begin with the next `Plane.run`.

        It gets what its filter lets pass. Its timeout, and what becomes of what is overdue, are
        its queue's unless they are given.
        """
        cdef Consumer consumer = Consumer(self, queue, tag, no_ack, priority, prefetch)
        if timeout_ms is not None:
            consumer.timeout_ms = timeout_ms
        if timeout_requeues is not None:
            consumer.timeout_requeues = timeout_requeues
        consumer.filter = filter
        self.consumers.append(consumer)
        queue.attach(consumer)
        if not no_ack:
            self.plane.timeouts.watch(self, timeout_of(self.plane, queue, consumer))
        return consumer

    def credit(self, uint32_t limit):
        """Make credit that several consumers of streams have together."""
        return Credit(self, limit)

    def consume_stream(self, Stream stream not None, str tag, uint32_t prefetch, uint64_t offset,
                       Choice choice=None, Credit credit=None, str filter_class=None):
        """Start a consumer of a stream at an offset; it gets what it wants (None: everything).

        Its credit may be that of several. A class is asked about what it would get.
        """
        cdef StreamConsumer reader = stream_consumer(self, stream, tag, prefetch, filter_class)
        reader.choice = choice
        reader.credit = credit
        reader.start(offset)
        self.consumers.append(reader)
        stream.attach(reader)
        return reader

    def consume_retries(self, GroupRetries retries not None, str tag, Credit credit not None):
        """Start a consumer of what members of a group gave back, on the credit of one of them.

        It never times out, as consumers of streams do not.
        """
        cdef Consumer consumer = Consumer(self, retries, tag, False, 0, 0)
        consumer.timeout_ms = 0
        consumer.credit = credit
        self.consumers.append(consumer)
        retries.attach(consumer)
        return consumer

    def cancel(self, Consumer consumer not None):
        """End a consumer; what it has not settled stays with the channel."""
        if consumer.active:
            consumer.active = False
            consumer.queue.detach(consumer)
            self.consumers.remove(consumer)
            forget(self, consumer)

    def drop_unsettled(self, Consumer consumer not None):
        """What a consumer of a stream has not settled is nobody's; settling it is no fault."""
        drop_unsettled(self, consumer)

    def get(self, Queue queue not None, bint no_ack):
        """Write basic.get-ok and the next message; False when the queue is empty."""
        cdef uint64_t seq
        cdef Slot *slot
        self.plane.work()
        slot = queue.pop(&seq)
        if slot == NULL:
            return False
        self.delivery_tag += 1
        self.plane.got += 1
        if slot.deliveries:
            self.plane.redelivered += 1
        self.out.write_got(self.number, self.delivery_tag, slot.deliveries > 0,
                           <uint32_t> queue.ready_count, self.plane.record(slot.position),
                           queue.counted, slot.deliveries & DELIVERIES_MAX)
        if slot.deliveries & DELIVERIES_MAX < DELIVERIES_MAX:
            slot.deliveries += 1
        if no_ack:
            queue.settle(seq, slot)
        else:
            self.unacked_count += 1
            self.unacked.add(self.delivery_tag, seq, queue, None, self.plane.now_ms)
            self.plane.timeouts.watch(self, timeout_of(self.plane, queue, None))
        return True

    def set_flow(self, bint active):
        """channel.flow from the client: stop or go on delivering."""
        cdef Consumer consumer
        self.flowing = active
        if not active:
            return
        for consumer in self.consumers:
            consumer.resume()
            if consumer.credit is not None:
                consumer.credit.freed()
        if self.global_credit is not None:
            self.global_credit.freed()

    def recover(self):
        """basic.recover with requeue: everything unsettled goes back to its place."""
        recover(self)

    # ------------------------------------------------------------- publishing

    cdef RouteCache routes_of_exchange(self, str name):
        return self.session.route_cache(name)

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
        cdef Route route = None, later = None
        cdef uint64_t ttl_ms = 0
        cdef list keys = None  # of CC and BCC; few have them, so none is made for all
        # Each keeps the bytes alive that `properties` may point to from there on.
        cdef bytes intercepted, changed, copied
        if walk_properties(properties, properties_len, &props):
            raise SyntaxFault("malformed content header: properties or headers do not parse")
        if bits[0] & IMMEDIATE_BIT:
            raise NotImplementedFault("immediate=true")
        self.deepest = 0
        if self.plane.interceptor is not None:
            intercepted = self.plane.interceptor.intercept(properties, properties_len,
                                                           self.plane.wall_ms)
            properties = <const uint8_t *> PyBytes_AS_STRING(intercepted)
            properties_len = len(intercepted)
        self.find_routes(method)
        if props.marks & (HAS_DELAY | HAS_DELIVER_AT):
            later = postponed(self.routes, &props, self.plane.wall_ms)
        # What is to wait is routed when it is due: only then does an exchange remember it, or draw.
        if later is None:
            route = self.route_of(key, properties, properties_len)
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
        if props.marks & (HAS_CC | HAS_BCC):
            copied, keys = copies_of(properties[:properties_len])
            if keys and later is None:
                text = key[1:1 + key[0]].decode("utf-8", "surrogateescape")
                route = make_route(self.session.copies(
                    self.routes, self.routes.name, [text, *keys], copied))
                route.keys, route.with_bcc = [text, *keys], properties[:properties_len]
            if later is None:  # else BCC is needed once more
                properties = <const uint8_t *> PyBytes_AS_STRING(copied)
                properties_len = len(copied)
        if later is not None:
            self.routes.check(key + 1, key[0], keys or [])
            route = later
        if self.transactional:
            self.tx_bytes += names_len + properties_len + body_len
            if self.tx_bytes > TX_BYTES_MAX:
                raise ResourceError(f"a transaction may publish {TX_BYTES_MAX} bytes")
            self.tx_publishes.append((
                route, method[:names_len], properties[:properties_len], body[:body_len],
                bits[0] & MANDATORY_BIT))
            return 0
        return self.accept(route, method, names_len, properties, properties_len, body, body_len,
                           &props, bits[0] & MANDATORY_BIT, 0)

    cdef int accept(self, Route route, const uint8_t *names, size_t names_len,
                    const uint8_t *properties, size_t properties_len, const uint8_t *body,
                    size_t body_len, Props *props, bint mandatory, uint8_t flags) except -1:
        """A message whose route is known: into its queues, back, or refused."""
        cdef bint durable = (route.apart is not None
                             or props.delivery_mode == 2 and route.durable)
        cdef list refusing_queues = None
        if route.deduplicates:
            route = without_duplicates(route, props)
        if route.unroutable:
            self.plane.unroutable += not route.duplicate
            if mandatory and not route.duplicate:
                self.give_back(names, names_len, properties, properties_len, body, body_len)
        elif route.refusing:
            refusing_queues = []
            route = open_queues(route, body_len, refusing_queues)
            self.tx_refused = self.tx_refused or (flags and route.refused)
        if route.queues or route.apart is not None:
            self.deepest = store(
                self.plane, route, names, names_len, properties, properties_len, body,
                body_len, props, flags)
        if refusing_queues and flags:
            # Nothing is appended between the facts of a transaction.
            self.tx_letters.append((refusing_queues, names[:names_len], properties[:properties_len],
                                    body[:body_len]))
        elif refusing_queues:
            self.plane.dead_lettering.dead_letter_refused(refusing_queues, names[:names_len],
                                            properties[:properties_len], body[:body_len])
        if not self.confirming:
            return 0
        if self.confirms.add(self.plane.generation if durable else 0, route.refused) and durable:
            self.plane.awaited = True
        if not self.unconfirmed:
            self.unconfirmed = True
            self.plane.confirming.append(self)
        return 0

    cdef int give_back(self, const uint8_t *names, size_t names_len, const uint8_t *properties,
                       size_t properties_len, const uint8_t *body, size_t body_len) except -1:
        """basic.return: mandatory, and no queue was found (AMQP 0-9-1 1.8.3.11)."""
        cdef bytes head = b"\x00\x3c\x00\x32\x01\x38\x08NO_ROUTE" + names[:names_len]
        self.plane.returned += 1
        self.out.write_method(self.number, <const uint8_t *> PyBytes_AS_STRING(head), len(head))
        return self.out.write_content(self.number, properties, properties_len, body, body_len)

    cdef bint confirm(self) except -1:
        """Tell the publisher what is synced; returns whether something is left."""
        cdef Pending found
        while self.confirms.next(self.plane.synced, &found):
            if self.closing or self.closed:
                continue
            self.plane.confirmed += found.upto - self.confirms.settled
            if found.refused:
                self.out.write_settled(self.number, 120, found.upto, False)
            else:
                self.out.write_settled(self.number, 80, found.upto,
                                       found.upto > self.confirms.settled + 1)
            self.confirms.settled = found.upto
        self.unconfirmed = self.confirms.start < self.confirms.end and not self.closed
        return self.unconfirmed

    # ------------------------------------------------------------- transactions

    def select_tx(self):
        """tx.select: publishes and settles wait for commit."""
        self.transactional = True

    def commit(self):
        """tx.commit: all of the transaction that no queue refuses, or after a crash none.

        Returns the generation to wait for; 0 for none. `tx_refused` tells whether a queue refused
        something.
        """
        return commit(self)

    def rollback(self):
        """tx.rollback: publishes are forgotten; what was settled is unsettled again."""
        rollback(self)

    # ------------------------------------------------------------- closing

    cdef int forget_consumers(self) except -1:
        cdef Consumer consumer
        for consumer in self.consumers:
            consumer.active = False
            consumer.queue.detach(consumer)
            forget(self, consumer)
        self.consumers = []
        return 0

    cdef int shut(self) except -1:
        """Give everything back: consumers end, what is unsettled is requeued."""
        if self.closed:
            return 0
        self.plane.timeouts.forget(self)
        self.forget_consumers()
        self.rollback()
        self.transactional = False
        give_back_unsettled(self, SETTLE_FAIL)
        self.assembly = None
        self.closed = True
        self.routes = None
        self.route = None
        return 0


cdef int forget(Channel channel, Consumer consumer) except -1:
    """A consumer that has ended waits for nothing any more."""
    channel.out.stalled.pop(consumer, None)
    if consumer.credit is not None:
        consumer.credit.forget(consumer)
    if channel.global_credit is not None:
        channel.global_credit.forget(consumer)
    return 0
