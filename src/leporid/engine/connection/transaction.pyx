"""A transaction: the publishes and settles of a channel that wait for its commit.

Responsible for what tx.commit and tx.rollback do, and for what is kept until then. It must not know
how a message is routed and published, nor how a delivery is settled: that is the channel's.

Invariants: between the first fact of a transaction and its COMMIT no other record is appended;
nothing here refers to the channel, which would be a cycle.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from cpython.bytes cimport PyBytes_AS_STRING

from leporid.engine.bounds.accounts cimport Account
from leporid.engine.connection.channel cimport (
    SETTLE_ACK, SETTLE_DROP, SETTLE_REQUEUE, Channel,
)
from leporid.engine.log.facts cimport append_commit, flush_settles
from leporid.engine.log.log cimport COMMIT_PUBLISHES, FLAG_IN_TX, Log
from leporid.engine.log.logs cimport Logs
from leporid.engine.queue.dead_lettering cimport DeadLettering
from leporid.engine.queue.exchange_cache cimport ExchangeCache
from leporid.engine.queue.queue cimport Queue
from leporid.engine.routing.route cimport (
    QUEUES_AN_ENTRY, Route, all_queues, make_route, publish_entries, reserve, without_duplicates,
)
from leporid.engine.routing.route_cache cimport resolved_now
from leporid.engine.stream.stream cimport Stream
from leporid.engine.wire.codec cimport Props, walk_properties
from leporid.engine.wire.record cimport (
    Message, Record, Target, body_bytes, message_of, names_bytes, properties_bytes,
)

from operator import itemgetter

from leporid.amqp.errors import Fault, PreconditionFailed, ResourceError

cdef enum:
    # Kept in memory until the commit, and then one segment of the log, whose offsets have 32 bits.
    BYTES_MAX = 512 * 1024 * 1024
    # What a publish or a settle takes beside the bytes of the message.
    ENTRY_BYTES = 400


cdef class Transaction:
    """What a channel has published and settled since the last commit or rollback."""

    def __cinit__(self):
        self.publishes = []
        self.settles = []
        self.letters = []

    def __repr__(self):
        return f"<Transaction publishes={len(self.publishes)} settles={len(self.settles)}>"

    cdef int keep(self, Channel channel, Route route, const Message *message,
                  bint mandatory) except -1:
        """Publish a message at the commit."""
        self.charge(channel, publish_entries(route), ENTRY_BYTES + message.names_len
                    + message.properties_len + message.body_len)
        self.publishes.append((route, names_bytes(message), properties_bytes(message),
                               body_bytes(message), mandatory))
        return 0

    cdef int charge_settles(self, Channel channel, size_t count) except -1:
        """Count settles before they are kept."""
        return self.charge(channel, count, count * ENTRY_BYTES)

    cdef int charge(self, Channel channel, size_t entries, uint64_t size) except -1:
        """Count what is kept until the end, and what the commit costs."""
        cdef Account refusing
        cdef uint64_t most = channel.connections.transaction_entries_max
        if self.entries + entries > most:
            raise PreconditionFailed(
                f"a transaction may have {most} publishes and settles; a publish to several "
                f"queues counts once more for each {QUEUES_AN_ENTRY} of them "
                "(limits.transaction_entries_max); commit more often")
        if self.bytes + size > BYTES_MAX:
            raise ResourceError(f"a transaction may keep {BYTES_MAX} bytes")
        refusing = channel.account.over(size)
        if refusing is not None:
            raise ResourceError(f"transaction: {refusing.text(size)}")
        channel.account.add(size)
        self.entries += entries
        self.bytes += size
        return 0

    cdef int forget_publishes(self, Channel channel) except -1:
        """They were committed, or will not be; what is kept for settles is not charged any more."""
        channel.account.release(self.bytes)
        self.publishes, self.entries, self.bytes = [], 0, 0
        return 0

    cdef uint64_t commit(self, Channel channel) except? 0:
        """Apply it; after a crash all of it is there, or nothing.

        The facts of a transaction are adjacent in one segment and count only if the COMMIT after
        them is there, so no other record is appended between them. A full queue refuses a message,
        as in RabbitMQ, which sets `refused`. Returns the generation to wait for; 0: none.
        """
        cdef Logs logs = channel.logs
        cdef DeadLettering dead_lettering = channel.queues.dead_lettering
        cdef ExchangeCache cache
        cdef Message message
        cdef list reserving = []
        cdef uint64_t settles = logs.settles
        cdef bint durable
        self.refused = False
        # Deliveries may cause dead letters, whose facts must not come between those of the
        # transaction; a full queue would deliver before it refuses.
        channel.queues.offer()
        publishes = self.routed_publishes(channel, reserving)
        acks, others = [], []
        for settle in self.settles:
            (acks if is_fact(settle) else others).append(settle)
        self.forget_publishes(channel)
        self.settles = []
        try:
            durable = append_all(channel, publishes, acks)
        finally:
            # A message that no queue took in the end may be published again.
            for cache in reserving:
                cache.reserved.clear()
            letters, self.letters = self.letters, []
        for refusing, names, properties, body in letters:
            message = message_of(names, properties, body)
            dead_lettering.dead_letter_refused(refusing, &message)
        for _, queue, seq, consumer, _, how in others:
            # tx.commit-ok promises the dead letters, so none may wait for a later turn.
            dead_lettering.make_all_refused()
            dead_lettering.count = 0
            channel.settle_entry(queue, seq, consumer, how)
        dead_lettering.make_all_refused()
        if self.refused:
            # The channel will be closed: as in RabbitMQ, its requeued messages are delivered first.
            channel.queues.work()
        if durable or letters:
            logs.dirty = True
            return max(logs.generation, logs.settles_generation)
        return logs.settles_generation if logs.settles != settles else 0

    cdef list routed_publishes(self, Channel channel, list reserving):
        """The publishes of a commit, with their routes updated."""
        cdef Queue queue
        cdef Route route, given, before = None, after = None
        cdef Props props
        cdef bytes names, properties, body, with_bcc
        publishes = []
        for given, names, properties, body, mandatory in self.publishes:
            if given is before:
                publishes.append((after, names, properties, body, mandatory))
                continue
            route, with_bcc = given, given.with_bcc
            if route.caching:
                walk_properties(<const uint8_t *> PyBytes_AS_STRING(properties), len(properties),
                                &props)
                route = without_duplicates(routed_anew(channel, route, names, properties), &props)
            else:
                route = make_route([queue for queue in all_queues(route)
                                    if not queue.retired])
            route.with_bcc = with_bcc
            if route.refusing:
                for queue in route.queues:
                    # Deliveries to consumers without acks are settled now, before the size of the
                    # transaction is computed.
                    queue.deliver()
            if route.caching:
                reserve(route, properties, reserving)
            after, before = route, None if given.caching else given     # most have the same
            publishes.append((route, names, properties, body, mandatory))
        return publishes

    cdef int roll_back(self, Channel channel) except -1:
        """Forget publishes; deliveries that were settled are unsettled again."""
        self.forget_publishes(channel)
        settles, self.settles = self.settles, []
        settles.sort(key=itemgetter(0))
        channel.unacked.put_back([settle[:5] for settle in settles])
        return 0


cdef bint append_all(Channel channel, list publishes, list acks) except -1:
    """Append the facts of a transaction and its COMMIT; returns whether it is durable."""
    cdef Log log = channel.logs.durable
    cdef Route route
    cdef Message message
    cdef Props props
    cdef size_t size = 2 * sizeof(Record)
    cdef bytes names, properties, body
    cdef Queue queue
    cdef uint64_t before
    cdef bint durable = False
    for route, names, properties, body, _ in publishes:
        # For a duplicate, the commit promises that its original is on disk.
        durable = durable or route.durable or route.duplicate or route.own_records is not None
        # One record for the queues, and one for each that keeps its own.
        size += (1 + len(route.own_records or ())) * (
            sizeof(Record) + sizeof(Target) + 8 + len(names) + len(body)
            + len(route.with_bcc or properties))
        size += len(route.queues) * sizeof(Target)
        if route.caching or route.refusing:
            # For entries that caches drop for this one; and for messages that a full queue
            # delivers first, which are settled at once for consumers without acks.
            size += len(route.queues) * (2 * sizeof(Record) + 32)
    for _, queue, _, _, _, _ in acks:
        durable = durable or queue.durable
        size += 2 * sizeof(Record) + 32
    if durable:
        flush_settles(channel.logs, 0)
        log.begin((size + 7) & ~<size_t> 7)  # so that all facts are in one segment
    before = log.appended
    for route, names, properties, body, mandatory in publishes:
        message = message_of(names, properties, body)
        walk_properties(message.properties, message.properties_len, &props)
        channel.body = body
        try:
            channel.accept(route, &message, &props, mandatory, FLAG_IN_TX)
        finally:
            channel.body = None
    for _, queue, seq, consumer, _, _ in acks:
        channel.settle_entry(queue, seq, consumer, SETTLE_ACK)
    if durable:
        flush_settles(channel.logs, FLAG_IN_TX)
        append_commit(channel.logs, <uint32_t> (log.appended - before), COMMIT_PUBLISHES)
    return durable


cdef Route routed_anew(Channel channel, Route route, bytes names, bytes properties):
    """Route a message of a transaction again, by the deduplication caches at its commit."""
    cdef Py_ssize_t split = 1 + <unsigned char> names[0]
    cdef list keys = route.keys
    exchange = names[1:split].decode()
    if keys is None:
        keys = [names[split + 1:].decode("utf-8", "surrogateescape")]
    try:
        return make_route(resolved_now(
            channel.session.copies(None, exchange, keys, properties)))
    except Fault:
        # The exchange was deleted: the message goes where it was routed when it came.
        return make_route([queue for queue in all_queues(route)
                           if not (<Queue> queue).retired])


cdef bint is_fact(tuple settle):
    """Whether a settle is one fact of the log: it neither requeues nor dead-letters.

    The others come after COMMIT, as they may append facts of their own: a crash may duplicate a
    dead letter, but loses none. They come after the publishes, as in RabbitMQ: requeued messages
    may fill a queue.
    """
    cdef Queue queue = settle[1]
    cdef int how = settle[5]
    return how < SETTLE_REQUEUE and not (how == SETTLE_DROP and (
        queue.dead_letters is not None or type(queue) is Stream))
