"""A channel: publishing with confirms, deliveries and settling them.

Responsible for delivery tags, for prefetch, for the order of confirms, for which deliveries an ack,
a nack or a recover settles, and for requeueing unacked deliveries when the channel closes. It must
not know how frames are cut from bytes, nor declarations, nor what a queue does with a requeued
message, nor what a commit is (`transaction`).

Invariants: a delivery that is taken out of `unacked` is settled, requeued, or kept for its commit,
once; a confirm leaves only after all publishes up to it were confirmed and their generations were
synced.
"""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.ref cimport Py_DECREF

from leporid.engine.bounds.accounts cimport Account
from leporid.engine.bounds.clock cimport spend
from leporid.engine.bounds.sharded_dict cimport ShardedDict
from leporid.engine.connection.confirms cimport Confirms, Pending
from leporid.engine.connection.connections cimport Connections
from leporid.engine.connection.consumer cimport Consumer
from leporid.engine.connection.credit cimport ChannelCredit, Credit
from leporid.engine.connection.group_retries cimport GroupRetries
from leporid.engine.connection.judged_stream_consumer cimport stream_consumer
from leporid.engine.connection.large_body cimport BODY_COPIED_MAX
from leporid.engine.connection.output cimport Output
from leporid.engine.connection.stream_consumer cimport StreamConsumer
from leporid.engine.connection.timeouts cimport timeout_of
from leporid.engine.connection.tracing cimport trace_delivered, trace_published
from leporid.engine.connection.transaction cimport Transaction
from leporid.engine.connection.unacked cimport LateAcks, UnackedDeliveries, UnackedDelivery
from leporid.engine.internal.delays cimport postponed
from leporid.engine.log.log cimport COPIED_AT_ONCE, RecordMemory
from leporid.engine.log.logs cimport segment_of
from leporid.engine.publishing.publishing cimport partial_appends
from leporid.engine.queue.index cimport DELIVERIES_MAX, UNACKED, Slot
from leporid.engine.queue.queue cimport Queue
from leporid.engine.routing.route cimport Route
from leporid.engine.routing.route_cache cimport LastRoute, found_resolution, resolution_of_keys
from leporid.engine.selecting.filtered_consumers cimport selection_of
from leporid.engine.selectors.filter cimport Filter
from leporid.engine.stream.choice cimport Choice
from leporid.engine.stream.stream cimport Stream
from leporid.engine.wire.codec cimport (
    HAS_BCC, HAS_CC, HAS_DELAY, HAS_DELIVER_AT, TTL_INVALID, Props, parse_ttl, walk_properties,
)
from leporid.engine.wire.record cimport (
    Message, Record, names_bytes, properties_bytes, routing_key, set_properties,
)

from collections import deque
from heapq import heappop, heappush

from leporid.amqp.errors import NotImplementedFault, PreconditionFailed, SyntaxFault
from leporid.engine.wire.headers import with_reply_to
from leporid.engine.wire.rewrites import copies_of, invalid_expiration

cdef bytes REPLY_TO = b"amq.rabbitmq.reply-to"
cdef extern from *:
    """enum { MANDATORY_BIT = 1, IMMEDIATE_BIT = 2 };"""
    int MANDATORY_BIT
    int IMMEDIATE_BIT

cdef enum:
    # A settle of more deliveries, in readings of the clock, is done in steps.
    SETTLED_AT_ONCE = 16


cdef inline void count_acked(Channel channel, Queue queue) noexcept:
    channel.acked += 1
    queue.counts.acked += 1
    queue.type_counts.acked += 1


cdef inline void count_published(Channel channel, Route route) noexcept:
    """Count a publish to its exchange."""
    channel.last.routes.published += 1
    channel.last.routes.totals.published += 1
    channel.last.routes.routed += route.targets
    channel.queues.routed += route.targets


cdef bint wants_direct_reply(const Props *props) noexcept:
    return props.reply_to_len == PyBytes_GET_SIZE(REPLY_TO) and not memcmp(
        props.reply_to, PyBytes_AS_STRING(REPLY_TO), props.reply_to_len)


cdef inline Route prepared_route(Channel channel, Route route, const Message *message,
                                 const Props *props):
    """What is left of the route of a message once all is done that may take long before it is
    published; None: it is to be handled once more."""
    if route.in_steps or channel.memory != NULL or (
            route.refusing and channel.queues.dead_lettering.refused):
        return prepared_in_steps(channel, route, message, props)
    return route


cdef Route prepared_in_steps(Channel channel, Route route, const Message *message,
                             const Props *props):
    if route.in_steps:
        route = channel.appended(route, message, props)
        if route is None:
            return None
    if channel.memory != NULL and not channel.is_prepared(route, message):
        return None
    if route.refusing and channel.queues.dead_lettering.refused:
        return None         # dead letters of messages that were refused before are made first
    if channel.appends is not None:
        channel.deepest = channel.appends.deepest
        if channel.queues.dead_lettering.crowded:
            channel.note_crowd(channel.appends.route)
        channel.appends = None
    return route


cdef class Channel:
    """One channel of a connection; made by `Connection.open_channel`."""

    def __cinit__(self, Connections connections not None, Output out not None, uint16_t number,
                  session, Account account not None):
        self.out = out
        self.connections = connections
        self.publishing = connections.publishing
        self.queues = connections.queues
        self.logs = connections.logs
        self.last = LastRoute()
        self.number = number
        self.session = session
        self.account = account
        self.consumers = ShardedDict()
        self.unacked = UnackedDeliveries()
        self.late_acks = LateAcks()
        self.confirms = Confirms()

    def __repr__(self):
        return f"<Channel {self.number} consumers={len(self.consumers)} at={self.delivery_tag}>"

    @property
    def uncommitted(self):
        """How many publishes, and how many settles, the transaction at hand has."""
        cdef Transaction transaction = self.transaction
        if transaction is None:
            return 0, 0
        return len(transaction.publishes), len(transaction.settles)

    @property
    def tx_refused(self):
        """Whether a full queue refused a message of the last transaction."""
        return self.transaction is not None and self.transaction.refused

    # ------------------------------------------------------------- consuming

    @property
    def prefetch_global(self):
        """The limit of unsettled deliveries of all consumers of the channel; 0: none."""
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
        """Start a consumer; deliveries begin with the next `Engine.run`.

        It gets the messages that pass its filter. Its timeout, and what happens to an overdue
        delivery, are its queue's unless they are given.
        """
        cdef Consumer consumer = Consumer(self, queue, tag, no_ack, priority, prefetch)
        if timeout_ms is not None:
            consumer.timeout_ms = timeout_ms
        if timeout_requeues is not None:
            consumer.timeout_requeues = timeout_requeues
        if filter is not None:
            consumer.filter = filter
            selection_of(queue, self.connections.searches)
        self.consumers[consumer] = None
        queue.attach(consumer)
        if not no_ack:
            self.connections.timeouts.watch(
                self, timeout_of(self.connections, queue, consumer))
        return consumer

    def credit(self, uint32_t limit):
        """Make a limit of unsettled deliveries that several consumers of streams share."""
        return Credit(self, limit)

    def consume_stream(self, Stream stream not None, str tag, uint32_t prefetch, uint64_t offset,
                       Choice choice=None, Credit credit=None, str filter_class=None):
        """Start a consumer of a stream at an offset.

        Args:
            stream: the stream.
            tag: the consumer tag.
            prefetch: its limit of unsettled deliveries; 0: none.
            offset: the first one that it may get.
            choice: the messages that it gets; None: all.
            credit: a limit that it shares with others; None: none.
            filter_class: is asked about each message that it would get; None: none.
        """
        cdef StreamConsumer reader = stream_consumer(self, stream, tag, prefetch, filter_class)
        reader.choice = choice
        reader.credit = credit
        reader.start(offset)
        self.consumers[reader] = None
        stream.attach(reader)
        return reader

    def consume_retries(self, GroupRetries retries not None, str tag, Credit credit not None):
        """Start a consumer of a group's retries, on the credit of one member.

        Its deliveries have no timeout, like those of consumers of streams.
        """
        cdef Consumer consumer = Consumer(self, retries, tag, False, 0, 0)
        consumer.timeout_ms = 0
        consumer.credit = credit
        self.consumers[consumer] = None
        retries.attach(consumer)
        return consumer

    def cancel(self, Consumer consumer not None):
        """End a consumer; its unsettled deliveries stay with the channel."""
        if consumer in self.consumers:
            del self.consumers[consumer]
            end_consumer(self, consumer)

    def get(self, Queue queue not None, bint no_ack):
        """Write basic.get-ok and the next message; returns False without one."""
        cdef uint64_t seq
        cdef Slot *slot
        cdef Record *record
        self.queues.work()
        slot = <Slot *> NULL if queue.paused else queue.pop(&seq)
        if slot == NULL:
            queue.counts.get_empty += 1
            queue.type_counts.get_empty += 1
            return False
        record = self.logs.record(slot.position)
        if record.body_len > BODY_COPIED_MAX:
            self.out.source = segment_of(self.logs, slot.position)
        self.delivery_tag += 1
        if slot.deliveries:
            queue.counts.redelivered += 1
            queue.type_counts.redelivered += 1
        self.out.write_got(self.number, self.delivery_tag, slot.deliveries > 0,
                           <uint32_t> queue.ready_count, record, queue.counted,
                           slot.deliveries & DELIVERIES_MAX)
        if self.trace is not None:
            trace_delivered(self.trace, queue, record, slot.deliveries > 0)
        if slot.deliveries & DELIVERIES_MAX < DELIVERIES_MAX:
            slot.deliveries += 1
        if no_ack:
            queue.counts.got_no_ack += 1
            queue.type_counts.got_no_ack += 1
            queue.settle(seq, slot)
        else:
            queue.counts.got += 1
            queue.type_counts.got += 1
            self.unacked_count += 1
            self.unacked.add(self.delivery_tag, seq, queue, None, self.logs.clock.now_ms)
            self.connections.timeouts.watch(
                self, timeout_of(self.connections, queue, None))
        return True

    # ------------------------------------------------------------- settling

    cdef int settle(self, uint64_t tag, bint multiple, int how) except -1:
        """Settle by basic.ack, basic.reject or basic.nack (an extension of RabbitMQ).

        Returns IN_STEPS, and has settled none, if there may be many: `settling` does.
        """
        cdef ssize_t upto
        cdef size_t at
        if multiple and tag == 0:
            upto = <ssize_t> self.unacked.end - 1
        else:
            upto = self.unacked.find(tag)
            if upto < 0:
                if not self.late_acks.has(tag):
                    raise PreconditionFailed(f"unknown delivery tag {tag}")
                if not multiple:
                    return 0
                upto = self.unacked.upto(tag)
        if multiple and upto < <ssize_t> self.unacked.start:
            return 0
        if multiple and not self.transactional and (
                how >= SETTLE_REQUEUE or self.unacked.between(self.unacked.start, upto)
                >= SETTLED_AT_ONCE * self.logs.clock.units_a_reading):
            self.settling_upto, self.settling_how = self.unacked.entries[upto].tag, how
            return IN_STEPS
        if self.transactional:
            self.transaction.charge_settles(
                self, self.unacked.between(self.unacked.start, upto) + 1 if multiple else 1)
        if how >= SETTLE_REQUEUE:
            self.keep_rejected(self.unacked.start if multiple else upto, upto)
        if multiple:
            at = self.unacked.start
            self.logs.clock.units += <uint32_t> self.unacked.between(at, upto)
            self.unacked.walks += 1
            while <ssize_t> at <= upto:
                if self.unacked.entries[at].queue != NULL:
                    self.settle_at(at, how)
                at = self.unacked.after(at)
            self.unacked.walks -= 1
        else:
            self.settle_at(upto, how)
        self.unacked.trim()
        return 0

    def settling(self):
        """The steps of a settle that was IN_STEPS; no other settle of the channel begins before
        their end.

        If the channel closes meanwhile, `end` settles the rest in the same way.
        """
        return self.requeuing() if self.settling_how >= SETTLE_REQUEUE else self.settling_all()

    def settling_all(self):
        """Settle all deliveries up to `settling_upto`, in steps."""
        while self.settle_some():
            yield
        if not self.ending:
            self.settling_upto = 0

    cdef bint settle_some(self) except -1:
        """Settle deliveries until the slice is over; returns whether there are more."""
        cdef size_t at = self.unacked.start
        cdef bint over = False
        if self.ending:
            return False
        self.unacked.walks += 1
        while not over and at < self.unacked.end and (
                self.unacked.entries[at].tag <= self.settling_upto):
            if self.unacked.entries[at].queue != NULL:
                self.settle_at(at, self.settling_how)
            at = self.unacked.after(at)
            over = spend(self.logs.clock, 1)
        self.unacked.walks -= 1
        return self.trim_unacked() or over

    cdef bint trim_unacked(self) except -1:
        """Remove all holes before the oldest unsettled delivery, until the slice is over; returns
        whether some are left. A loop that begins there would go through them again."""
        while self.unacked.trim():
            if spend(self.logs.clock, self.logs.clock.units_a_reading):
                return True
        return False

    cdef int how_of(self, size_t at, int how) noexcept:
        """How to settle the delivery at an index of `unacked`, unless the client has said that."""
        return self.settling_how if self.unacked.entries[at].tag <= self.settling_upto else how

    cdef int take_back(self, size_t at) except -1:
        """Requeue one overdue delivery; settling it later once is no fault."""
        cdef bint transactional = self.transactional
        self.late_acks.add(self.unacked.entries[at].tag)
        self.transactional = False
        self.settle_at(at, SETTLE_REQUEUE)
        self.transactional = transactional
        return 0

    def recovering(self):
        """basic.recover with requeue: requeue every unsettled delivery in its place, in steps."""
        cdef uint64_t seen = 0, upto = 0
        if self.unacked.start < self.unacked.end:
            upto = self.unacked.entries[self.unacked.end - 1].tag
        while seen < upto:
            seen = self.refuse_streams(seen, upto)
            if seen < upto:
                yield
        self.settling_upto, self.settling_how = upto, SETTLE_REQUEUE
        yield from self.requeuing()

    def requeuing(self):
        """Requeue all deliveries up to `settling_upto`, at once even in a transaction, in steps.

        Queue by queue and consumer by consumer, in the order of their names and tags as in
        RabbitMQ. Each one's messages are delivered again before the next one's are requeued: a
        queue may have room for either, and not for both.
        """
        cdef Queue queue
        cdef int how = self.settling_how
        cdef dict by_consumer = {}
        cdef list order = []
        while self.collect_some(by_consumer, order):
            yield
        if not self.ending:
            self.settling_upto = 0
        del by_consumer
        defect = None
        while order:
            *_, queue, consumer, numbers = heappop(order)
            try:
                self.queues.offer()
                queue.deliver()  # the messages of the consumer before
            except Exception as error:
                defect = defect or error
            while numbers:
                # Nobody else knows of those that are left: a defect of one must not keep them.
                over = True
                try:
                    over = self.requeue_some(queue, consumer, numbers, how)
                except Exception as error:
                    defect = defect or error
                if over:
                    yield
        if defect is not None:
            raise defect

    cdef bint collect_some(self, dict by_consumer, list order) except -1:
        """Take deliveries up to `settling_upto` out of `unacked`, until the slice is over; returns
        whether there are more.

        Their numbers are put in order by queue and consumer, each pair with an item of the heap
        `order`.
        """
        cdef size_t at = self.unacked.start
        cdef UnackedDelivery taken
        cdef bint over = False
        if self.ending:
            return False
        self.unacked.walks += 1
        while not over and at < self.unacked.end and (
                self.unacked.entries[at].tag <= self.settling_upto):
            if self.unacked.entries[at].queue != NULL:
                self.keep_rejected(at, at)
                if type(<object> self.unacked.entries[at].queue) is Stream:
                    # At once: between two steps, nothing that is unsettled may look settled to
                    # who stores offsets; and there is no place in a queue that it goes back to.
                    self.settle_at(at, self.settling_how)
                    at = self.unacked.after(at)
                    over = spend(self.logs.clock, 1)
                    continue
                taken = self.unacked.take(at)
                queue = <object> taken.queue
                consumer = <object> taken.consumer if taken.consumer != NULL else None
                numbers = by_consumer.get((queue, consumer))
                if numbers is None:
                    numbers = by_consumer[queue, consumer] = deque()
                    heappush(order, (
                        *name_and_tag(queue, consumer), len(order), queue, consumer, numbers))
                numbers.append(taken.seq)
                Py_DECREF(queue)
                if consumer is not None:
                    Py_DECREF(consumer)
            at = self.unacked.after(at)
            over = spend(self.logs.clock, 1)
        self.unacked.walks -= 1
        return self.trim_unacked() or over

    cdef bint requeue_some(self, Queue queue, Consumer consumer, numbers, int how) except -1:
        """Requeue deliveries that `collect_some` took, until the slice is over; returns whether it
        is. If that fails for one, it is ready again at least."""
        cdef Slot *slot
        cdef uint64_t seq
        while numbers:
            seq = numbers.popleft()
            try:
                self.settle_entry(queue, seq, consumer, how)
            except Exception:
                slot = queue.slot_of(seq)
                if not queue.retired and slot != NULL and slot.state == UNACKED:
                    queue.put_back(seq, slot)
                raise
            if spend(self.logs.clock, 1):
                return True
        return False

    def drop_unsettled(self, Consumer consumer not None):
        """Forget the unsettled deliveries of a stream consumer; settling them later is no fault."""
        cdef size_t at
        cdef bint transactional = self.transactional
        (<StreamConsumer?> consumer).retries = None     # they are not retried
        self.transactional = False
        self.unacked.walks += 1
        at = self.unacked.start
        while at < self.unacked.end:
            if self.unacked.entries[at].consumer == <void *> consumer:
                self.late_acks.add(self.unacked.entries[at].tag)
                self.settle_at(at, self.how_of(at, SETTLE_REQUEUE))
            at = self.unacked.after(at)
        self.unacked.walks -= 1
        self.unacked.trim()
        self.transactional = transactional
        if self.transaction is None:
            return
        settles, self.transaction.settles = self.transaction.settles, []
        for kept in settles:
            if kept[3] is consumer:
                self.settle_entry(kept[1], kept[2], consumer, SETTLE_REQUEUE)
            else:
                self.transaction.settles.append(kept)

    cdef uint64_t refuse_streams(self, uint64_t after, uint64_t upto) except? 0:
        """Raise a fault if a delivery with a tag in this range is a stream's, which has no
        redelivery; returns which tag it has come to when the slice is over."""
        cdef size_t at = self.unacked.above(after)
        cdef Queue queue
        while at < self.unacked.end and self.unacked.entries[at].tag <= upto:
            if self.unacked.entries[at].queue != NULL:
                queue = <Queue> self.unacked.entries[at].queue
                if type(queue) is Stream:
                    raise NotImplementedFault("basic.recover not supported by stream queues "
                                              f"{(<Stream> queue).title}")
            if spend(self.logs.clock, 1):
                return self.unacked.entries[at].tag
            at = self.unacked.after(at)
        return upto

    cdef int keep_rejected(self, size_t first, size_t last) except -1:
        """Note the rejected offsets of streams for the next consumer that reads in that name.

        At once even in a transaction: after a rollback a message is read twice at worst.
        """
        cdef size_t at = first
        cdef UnackedDelivery *entry
        cdef StreamConsumer reader
        while at <= last:
            entry = &self.unacked.entries[at]
            at = self.unacked.after(at)
            if entry.queue == NULL or entry.consumer == NULL:
                continue
            if type(<object> entry.queue) is Stream:
                reader = <StreamConsumer> entry.consumer
                if reader.retries is None:
                    reader.leave_to_next(entry.seq)
        return 0

    cdef int settle_at(self, size_t at, int how) except -1:
        """Settle the delivery at an index of `unacked`; in a transaction, at its commit."""
        cdef UnackedDelivery taken = self.unacked.take(at)
        cdef Queue queue = <Queue> taken.queue
        cdef Consumer consumer = None
        Py_DECREF(queue)
        if taken.consumer != NULL:
            consumer = <Consumer> taken.consumer
            Py_DECREF(consumer)
        if self.transactional:
            self.transaction.settles.append(
                (taken.tag, queue, taken.seq, consumer, taken.since_ms, how))
            return 0
        return self.settle_entry(queue, taken.seq, consumer, how)

    cdef int settle_entry(self, Queue queue, uint64_t seq, Consumer taker,
                          int how) except -1:
        """Settle a delivery that was taken out of `unacked`, and free its credit."""
        cdef Slot *slot
        self.unacked_count -= 1
        if taker is not None:
            taker.unacked_count -= 1
            if taker.credit is not None:
                taker.credit.give_one()
            self.outstanding -= 1
            if self.global_limit:
                self.global_credit.freed()
            if taker.level is None and taker.active:
                taker.resume()
        if queue.retired:
            return 0
        slot = queue.slot_of(seq)
        if slot == NULL or slot.state != UNACKED:
            if type(queue) is Stream:
                if how == SETTLE_ACK:
                    count_acked(self, queue)
                elif taker is not None and (<StreamConsumer> taker).retries is not None:
                    return (<StreamConsumer> taker).retries.take_back(taker, seq, how)
            return 0
        if how >= SETTLE_REQUEUE:
            return queue.requeue(seq, slot, how == SETTLE_FAIL)
        if how == SETTLE_DROP:
            return queue.drop(seq, slot, "rejected")
        count_acked(self, queue)
        return queue.settle(seq, slot)

    # ------------------------------------------------------------- publishing

    def forget_exchange(self):
        """Ask the session again at the next publish: the user's permissions have changed."""
        self.last.routes = self.last.route = self.check_key = None
        self.forget_resolution()

    cdef int forget_resolution(self) except -1:
        """Find the route of the message at hand anew, unless some of its streams have it."""
        if self.appends is None:
            self.resolution = None
        return 0

    def select_confirm(self):
        """confirm.select: from now on publishes are numbered, from 1, and confirmed."""
        self.confirming = True

    cdef int publish(self, const uint8_t *method, size_t method_len, const uint8_t *properties,
                     size_t properties_len, const uint8_t *body, size_t body_len,
                     bytes user_id) except -1:
        """One basic.publish, complete; returns UNROUTED if it takes longer than the slice, or the
        user's right is not known yet.

        Then it is to be called with the same message later, before anything else of the channel.
        `method` is its payload from the exchange's length on. Checks are in RabbitMQ's order.
        """
        cdef const uint8_t *key = method + 1 + method[0]
        cdef const uint8_t *bits = key + 1 + key[0]
        cdef Message message
        cdef Props props
        cdef uint64_t ttl_ms = 0
        cdef Route route = None, later = None, rest
        cdef list keys = None  # routing keys with those of CC and BCC; None: neither is there
        cdef bytes changed, copied, before  # each keeps alive what the message points to then
        if walk_properties(properties, properties_len, &props):
            raise SyntaxFault("malformed content header: properties or headers do not parse")
        if bits[0] & IMMEDIATE_BIT:
            raise NotImplementedFault("immediate=true")
        message.names, message.names_len = method, bits - method
        message.properties, message.properties_len = properties, properties_len
        message.body, message.body_len, message.memory = body, body_len, self.memory
        self.deepest = 0
        if self.publishing.interceptor is not None:
            self.intercept(&message)
        if not self.last.is_to(&message) and self.find_routes(&message) or (
                self.check_key is not None and self.check_key(routing_key(&message))):
            return UNROUTED
        if props.marks & (HAS_DELAY | HAS_DELIVER_AT):
            later = postponed(self.last.routes, &props, self.logs.clock.wall_ms)
        # A delayed message is routed when it is due: only then may an exchange remember or draw.
        if later is None and not props.marks & (HAS_CC | HAS_BCC):
            route = <Route> (self.last.route_of(&message) if self.resolution is None
                             else self.resumed_route(&message))  # both return one: no test
            if route is None:
                return self.await_route()
        if props.user_id != NULL and user_id:
            check_user_id(&props, user_id)
        if props.reply_to != NULL and wants_direct_reply(&props):
            changed = with_reply_to(properties_bytes(&message),
                                    self.session.reply_address(self.number))
            set_properties(&message, changed)
        if parse_ttl(&props, &ttl_ms) == TTL_INVALID:
            raise invalid_expiration(props.expiration[:props.expiration_len])
        if props.marks & (HAS_CC | HAS_BCC):
            before = properties_bytes(&message)
            copied, keys = self.copies(before)
            if copied is None:
                return UNROUTED
            if later is None:  # a delayed message needs BCC when it is due
                route = self.copies_route(&message, keys, copied)
                if route is None:
                    return self.await_route()
                if keys:
                    route.with_bcc = before
                set_properties(&message, copied)
        if later is not None:
            self.last.routes.check(key + 1, key[0], keys or [])
            route = later
        rest = route if self.transactional else prepared_route(self, route, &message, &props)
        if rest is None:
            return self.keep_route(route)
        count_published(self, route)
        if self.trace is not None:
            trace_published(self.trace, self.logs.clock, route, &message, keys)
        if self.transactional:
            return self.transaction.keep(self, route, &message, bits[0] & MANDATORY_BIT)
        return self.accept(rest, &message, &props, bits[0] & MANDATORY_BIT, 0)

    cdef Route appended(self, Route route, const Message *message, const Props *props):
        """What is left of the route of a message once its streams have it, if they are many, and
        many of its queues; None: the slice was over before."""
        if self.appends is None:
            self.appends = partial_appends(route, message, self.logs.clock, True)
            if self.appends is None:
                return route
        if not self.appends.go_on(self.publishing, message, props):
            return None
        return self.appends.rest()

    cdef bint is_prepared(self, Route route, const Message *message) except -1:
        """Whether storing a large message takes no longer than a slice; works on it if it does.

        Its body is copied for all logs but the first.
        """
        cdef size_t records = len(route.own_records or ()) + (1 if route.queues else 0)
        if message.body_len <= COPIED_AT_ONCE:
            return True
        return (<RecordMemory> message.memory).prepare(
            records, message.names_len + message.properties_len, self.logs.clock)

    cdef int keep_route(self, Route route) except -1:
        """A message is to be handled once more, with the route that was found: it may be in some of
        its streams and queues already."""
        if self.appends is not None:
            self.resolution = found_resolution(self.last.routes, self.appends.route)
        return UNROUTED

    cdef tuple copies(self, bytes raw):
        """The properties without BCC, and the keys of CC and BCC; raises a fault for one of these
        that must not be used. Of Nones: that is not known yet."""
        cdef bint pending = False
        copied, keys = copies_of(raw)
        if self.check_key is not None:
            for each in keys:
                if self.check_key(each):
                    pending = True      # the others are asked about at the same time
        return (None, None) if pending else (copied, keys)

    cdef int intercept(self, Message *message) except -1:
        """Add what the configuration says to a message's properties, once."""
        if self.resolution is None:
            self.intercepted = self.publishing.interceptor.intercept(
                message.properties, message.properties_len, self.logs.clock.wall_ms)
        set_properties(message, self.intercepted)
        return 0

    cdef int await_route(self) except -1:
        """The slice was over before the route of a message was found: keep what is left to do."""
        if self.resolution is None:
            self.resolution = self.last.routes.take_unfinished()
        return UNROUTED

    cdef Route resumed_route(self, const Message *message):
        """The route of a message that was UNROUTED; None: it still is."""
        cdef Route route = self.resolution.go_on(message)
        if route is not None:
            self.resolution = None
            if self.appends is None:
                self.last.keep(route)
        return route

    cdef Route copies_route(self, const Message *message, list keys, bytes properties):
        """The route of a message to its routing key and the keys of its CC and BCC; None as above.
        """
        if self.resolution is None and not keys:
            return self.last.route_of(message)
        if self.resolution is None:
            keys = [routing_key(message), *keys]
            self.resolution = resolution_of_keys(self.last.routes, keys, self.session.copies(
                self.last.routes, self.last.routes.name, keys, properties))
        return self.resumed_route(message)

    cdef int check_exchange(self, const uint8_t *names) except -1:
        """Raise a fault unless there is an exchange that messages with these names may go to;
        returns UNROUTED if the user's right is not known yet."""
        cdef Message message
        message.names = names
        return 0 if self.last.is_to(&message) else self.find_routes(&message)

    cdef int find_routes(self, const Message *message) except -1:
        """Find the route cache of a message's exchange, which is not that of the last message.

        Returns UNROUTED if the session does not know the user's right yet. It has begun to work
        then (`Connection.begin_work`), and ends that when it knows.
        """
        try:
            name = message.names[1:1 + message.names[0]].decode()
        except UnicodeDecodeError:
            raise SyntaxFault("the exchange's name is not valid UTF-8") from None
        self.last.routes = self.session.route_cache(name)
        self.last.route = None
        self.forget_resolution()
        if self.last.routes is None:
            return UNROUTED
        if not self.publishes:
            self.publishes = True
            self.connections.publishers += 1
        self.check_key = self.session.check_of_keys(name)
        return 0

    cdef int accept(self, Route route, const Message *message, const Props *props, bint mandatory,
                    uint8_t flags) except -1:
        """Publish a message along its route, return it if it is unroutable, note its confirm.

        A commit has `flags`.
        """
        cdef bint durable = (route.own_records is not None
                             or props.delivery_mode == 2 and route.durable)
        self.published += 1
        route = self.publishing.publish(route, message, props, flags, None, 0,
                                        self.transaction.letters if flags else None)
        if self.publishing.deepest > self.deepest:
            self.deepest = self.publishing.deepest
        if self.queues.dead_lettering.crowded:
            self.note_crowd(route)
        if route.refused:
            if flags:
                self.transaction.refused = True
        elif mandatory and route.unroutable:
            if route.duplicate:
                self.duplicates += 1
            else:
                self.return_message(message)
        if not self.confirming:
            return 0
        if self.confirms.add(self.logs.generation if durable else 0, route.refused) and durable:
            self.logs.awaited = True
        if not self.unconfirmed:
            self.unconfirmed = True
            self.connections.confirming.append(self)
        return 0

    cdef int note_crowd(self, Route route) except -1:
        """A message was published while queues may not drop all that is over their limits."""
        cdef Queue queue
        for queue in route.queues:
            if queue.is_crowded():
                self.crowd = queue
                break
        return 0

    cdef bint awaits_crowd(self) except -1:
        """Whether its next publish is to wait for dead letters that the queue of its last one owes.

        Asked of the queue each time: nobody has to say that it is over.
        """
        if self.crowd is not None and not (
                self.queues.dead_lettering.waiting and not self.queues.dead_lettering.held
                and self.crowd.is_crowded()):
            self.crowd = None
        return self.crowd is not None

    cdef int return_message(self, const Message *message) except -1:
        """Send basic.return: mandatory, but routed to no queue (AMQP 0-9-1 1.8.3.11)."""
        cdef bytes head = b"\x00\x3c\x00\x32\x01\x38\x08NO_ROUTE" + names_bytes(message)
        self.queues.returned += 1
        self.out.write_method(self.number, <const uint8_t *> PyBytes_AS_STRING(head), len(head))
        if message.body_len > BODY_COPIED_MAX:
            self.out.source = self.body
        return self.out.write_content(self.number, message.properties, message.properties_len,
                                      message.body, message.body_len)

    cdef bint confirm(self) except -1:
        """Confirm what is synced to the publisher; returns whether publishes are left."""
        cdef Pending found
        self.queues.received_confirm += self.confirms.published - self.counted
        self.counted = self.confirms.published
        while self.confirms.next(self.logs.synced, &found):
            if self.closing or self.closed or self.out.muted:
                continue
            if found.refused:
                self.queues.nacked += 1
                self.out.write_settled(self.number, 120, found.upto, False)
            else:
                self.queues.confirmed += found.upto - self.confirms.settled
                self.out.write_settled(self.number, 80, found.upto,
                                       found.upto > self.confirms.settled + 1)
            self.confirms.settled = found.upto
        self.unconfirmed = self.confirms.start < self.confirms.end and not (
            self.closed or self.out.muted)
        return self.unconfirmed

    # ------------------------------------------------------------- transactions

    def select_tx(self):
        """tx.select: from now on publishes and settles wait for a commit."""
        if self.transaction is None:
            self.transaction = Transaction(self.logs)
        self.transactional = True

    def append_to_streams(self):
        """Do what a commit would do first, until the slice is over: append messages to the streams
        that they go to; returns whether there is more."""
        return self.transaction.append_some(self)

    def commit(self):
        """tx.commit: apply the transaction; returns the generation to wait for, 0: none."""
        return self.transaction.commit(self)

    def rollback(self):
        """tx.rollback: forget publishes; deliveries that were settled are unsettled again."""
        self.transaction.roll_back(self)

    # ------------------------------------------------------------- closing

    def mute(self):
        """Close: from now on nothing is delivered here, and nothing confirmed."""
        if self.closed:
            return
        self.closed = True
        self.connections.publishers -= self.publishes
        self.connections.timeouts.forget(self)
        self.assembly = self.resolution = self.appends = None
        self.last = None
        if self.transaction is not None:
            self.transaction.forget_publishes(self)

    def end(self):
        """Close, in steps: end the consumers and requeue every unsettled delivery."""
        cdef size_t at
        self.mute()
        if self.ending:
            return
        self.ending = True
        while len(self.consumers):
            end_consumer(self, self.consumers.popitem()[0])
            yield
        self.transactional = False
        if self.transaction is not None:
            settles, self.transaction.settles = self.transaction.settles, []
            for _, queue, seq, consumer, _, _ in settles:
                self.settle_entry(queue, seq, consumer, SETTLE_FAIL)
                if spend(self.logs.clock, 1):
                    yield
        self.unacked.walks += 1
        at = self.unacked.start
        while at < self.unacked.end:
            if self.unacked.entries[at].queue != NULL:
                self.settle_at(at, self.how_of(at, SETTLE_FAIL))
            at = self.unacked.after(at)
            if spend(self.logs.clock, 1):
                yield
        self.unacked.walks -= 1
        self.unacked.trim()


cdef int check_user_id(const Props *props, bytes user_id) except -1:
    """Raise a fault if the property user_id is not the connection's user (RabbitMQ, validated
    user-id)."""
    if props.user_id_len == len(user_id) and not memcmp(
            props.user_id, PyBytes_AS_STRING(user_id), props.user_id_len):
        return 0
    claimed = props.user_id[:props.user_id_len].decode("utf-8", "replace")
    raise PreconditionFailed(
        f"user_id property set to '{claimed}' but authenticated user was "
        f"'{user_id.decode('utf-8', 'replace')}'")


cdef int end_consumer(Channel channel, Consumer consumer) except -1:
    """Take a consumer off its queue, and out of all lists of waiting consumers."""
    consumer.active = False
    consumer.queue.detach(consumer)
    channel.out.stalled.pop(consumer, None)
    if consumer.credit is not None:
        consumer.credit.forget(consumer)
    if channel.global_credit is not None:
        channel.global_credit.forget(consumer)
    return 0


cdef tuple name_and_tag(Queue queue, Consumer consumer):
    """A key that sorts as RabbitMQ does: deliveries by basic.get before those to consumers."""
    return queue.name, consumer is not None, "" if consumer is None else consumer.tag
