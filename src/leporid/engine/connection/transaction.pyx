"""A transaction: the publishes and settles of a channel that wait for its commit.

Responsible for what tx.commit and tx.rollback do, and for what is kept until then. It must not know
how a message is routed and published, nor how a delivery is settled: that is the channel's.

Invariants: between the first fact of a transaction and its COMMIT no other record is appended, and
a commit copies few bytes, however many the transaction has (`log/staging.pyx`); nothing here refers
to the channel, which would be a cycle.
"""

from libc.stdint cimport uint32_t, uint64_t

from leporid.engine.bounds.accounts cimport Account
from leporid.engine.bounds.clock cimport spend
from leporid.engine.connection.channel cimport (
    SETTLE_ACK, SETTLE_DROP, SETTLE_REQUEUE, Channel,
)
from leporid.engine.log.facts cimport append_commit, flush_settles
from leporid.engine.log.log cimport COMMIT_PUBLISHES, FLAG_IN_TX, Log
from leporid.engine.log.logs cimport Logs
from leporid.engine.log.staging cimport StagedRecords, staged_records
from leporid.engine.publishing.publishing cimport PartialAppends
from leporid.engine.queue.dead_lettering cimport DeadLettering
from leporid.engine.queue.exchange_cache cimport ExchangeCache
from leporid.engine.queue.queue cimport Queue
from leporid.engine.routing.route cimport (
    QUEUES_AN_ENTRY, Route, all_queues, make_route, publish_entries, reserve,
    stored_in_streams, without_duplicates,
)
from leporid.engine.routing.route_cache cimport resolved_now
from leporid.engine.stream.stream cimport Stream
from leporid.engine.wire.codec cimport walk_properties
from leporid.engine.wire.record cimport (
    Message, Record, Target, body_bytes, message_in, message_of, names_bytes, properties_bytes,
)

from operator import itemgetter

from leporid.amqp.errors import Fault, PreconditionFailed, ResourceError

cdef enum:
    # Kept in memory until the commit, and then one segment of the log, whose offsets have 32 bits.
    BYTES_MAX = 512 * 1024 * 1024
    # What a publish or a settle takes beside the bytes of the message.
    ENTRY_BYTES = 400
    # Messages are staged when there are more bytes of them than this part of a durable segment: a
    # commit copies less in a millisecond or two, and each commit of more has a file of its own.
    STAGED_PART = 8


cdef class Publish:
    """A message that waits for the commit."""

    cdef int read(self) except -1:
        """Have pointers into bytes, or to what is staged."""
        if self.staged is None:
            self.message = message_of(self.names, self.properties, self.body)
        else:
            self.message = message_in(self.staged.record_at(self.at))
        walk_properties(self.message.properties, self.message.properties_len, &self.props)
        return 0

    cdef bint stage(self, StagedRecords staged) except -1:
        """Lay the message out where it is going to be; returns whether there was room."""
        self.at = staged.stage(&self.message, len(self.route.queues))
        if not self.at:
            return False
        self.staged = staged
        self.names = self.properties = self.body = None
        self.read()
        return True

    cdef size_t copied_bytes(self) noexcept:
        """What a commit appends for it in the durable log, and does not find there."""
        cdef Route route = self.route
        cdef size_t copies = len(route.own_records) if route.own_records is not None else 0
        cdef size_t content = (self.message.names_len + self.message.body_len + max(
            self.message.properties_len, len(route.with_bcc) if route.with_bcc is not None else 0))
        cdef size_t queues = len(route.queues)
        if self.staged is None or copies or not self.staged.has_places(self.at, queues) or (
                route.durable and not self.staged.log.durable):
            copies += 1
        return copies * (sizeof(Record) + sizeof(Target) + 8 + content) + (
            queues * sizeof(Target) if copies else 0)


cdef class Waiting:
    """What the messages of a transaction take that are going to one log."""


cdef class Transaction:
    """What a channel has published and settled since the last commit or rollback."""

    def __cinit__(self, Logs logs not None):
        self.durable, self.transient = Waiting(), Waiting()
        self.durable.log, self.transient.log = logs.durable, logs.transient
        self.publishes = []
        self.settles = []
        self.letters = []

    def __repr__(self):
        return f"<Transaction publishes={len(self.publishes)} settles={len(self.settles)}>"

    cdef int keep(self, Channel channel, Route route, const Message *message,
                  bint mandatory) except -1:
        """Publish a message at the commit."""
        cdef Publish publish = Publish()
        cdef Waiting waiting
        cdef size_t size = message.names_len + message.properties_len + message.body_len
        self.charge(channel, publish_entries(route),
                    ENTRY_BYTES + size + len(route.queues) * sizeof(Target))
        publish.route, publish.mandatory, publish.message = route, mandatory, message[0]
        walk_properties(message.properties, message.properties_len, &publish.props)
        waiting = self.waiting_with(publish)
        if waiting is None or not self.has_staged(waiting, size) or (
                not publish.stage(waiting.staged)):
            publish.names, publish.properties = names_bytes(message), properties_bytes(message)
            publish.body = body_bytes(message)
            publish.read()
        self.publishes.append(publish)
        return 0

    cdef Waiting waiting_with(self, Publish publish):
        """With which messages this one may be staged; None: it is copied at the commit."""
        if publish.route.own_records is not None or not publish.route.queues:
            return None
        if publish.props.delivery_mode == 2 and publish.route.durable:
            return self.durable
        return self.transient

    cdef bint has_staged(self, Waiting waiting, size_t size) except -1:
        """Count a message; returns whether so many are to be staged."""
        cdef Publish publish
        waiting.bytes += size
        if waiting.staged is not None:
            return True
        if waiting.bytes <= waiting.log.segment_bytes // (
                STAGED_PART if waiting.log.durable else 1):
            return False
        # As much again for what is appended at the commit: copies for queues that came since.
        waiting.staged = staged_records(waiting.log, 2 * BYTES_MAX)
        if waiting.staged is None:
            return False
        for publish in self.publishes:
            if self.waiting_with(publish) is waiting:
                publish.stage(waiting.staged)
        return True

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
        cdef Waiting waiting
        channel.account.release(self.bytes)
        self.publishes, self.entries, self.bytes = [], 0, 0
        self.in_streams, self.appends = 0, None
        for waiting in (self.durable, self.transient):
            waiting.staged, waiting.bytes = None, 0
        return 0

    cdef bint append_some(self, Channel channel) except -1:
        """Append messages to the streams that they go to, until the slice is over; returns whether
        there are more.

        A stream has a log of its own, so a crash may leave one with more of the transaction than
        others have, whether these messages come before the commit or with it.
        """
        cdef Publish publish
        cdef Route route, before = None, after = None
        while self.in_streams < len(self.publishes):
            publish = <Publish> self.publishes[self.in_streams]
            route = publish.route
            if route.own_records is not None and not route.caching:
                if self.appends is None:
                    self.appends = PartialAppends()
                    self.appends.route = route
                if not self.appends.go_on(channel.publishing, &publish.message, &publish.props):
                    return True
                if route is not before or not self.appends.in_streams:  # most have the same
                    before, after = route if self.appends.in_streams else None, self.appends.rest()
                self.appends = None
                publish.route = after
            self.in_streams += 1
            if spend(channel.logs.clock, 1):
                return self.in_streams < len(self.publishes)
        return False

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
        acks, others = [], []
        for settle in self.settles:
            (acks if is_fact(settle) else others).append(settle)
        try:
            self.route_anew(channel, reserving)
            publishes, staged = self.publishes, [self.durable.staged, self.transient.staged]
            self.forget_publishes(channel)
            self.settles = []
            durable = append_all(channel, publishes, acks, staged)
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

    cdef int route_anew(self, Channel channel, list reserving) except -1:
        """Update the routes of what is published."""
        cdef Queue queue
        cdef Publish publish
        cdef Route route, given, before = None, after = None
        cdef bytes properties
        for publish in self.publishes:
            given = publish.route
            if given is before:
                publish.route = after
                continue
            if given.caching:
                properties = properties_bytes(&publish.message)
                route = without_duplicates(
                    routed_anew(channel, given, names_bytes(&publish.message), properties),
                    &publish.props)
            else:
                route = make_route([queue for queue in all_queues(given)
                                    if not queue.retired])
                if given.in_streams:
                    stored_in_streams(route)
            route.with_bcc = given.with_bcc
            if route.refusing:
                for queue in route.queues:
                    # Deliveries to consumers without acks are settled now, before the size of the
                    # transaction is computed.
                    queue.deliver()
            if route.caching:
                reserve(route, properties, reserving)
            after, before = route, None if given.caching else given     # most have the same
            publish.route = route
        return 0

    cdef int roll_back(self, Channel channel) except -1:
        """Forget publishes; deliveries that were settled are unsettled again."""
        self.forget_publishes(channel)
        settles, self.settles = self.settles, []
        settles.sort(key=itemgetter(0))
        channel.unacked.put_back([settle[:5] for settle in settles])
        return 0


cdef bint append_all(Channel channel, list publishes, list acks, list all_staged) except -1:
    """Append the facts of a transaction and its COMMIT; returns whether it is durable."""
    cdef Log log = channel.logs.durable
    cdef Message message
    cdef size_t size = 2 * sizeof(Record)
    cdef Publish publish
    cdef Route route
    cdef Queue queue
    cdef StagedRecords staged
    cdef uint64_t before
    cdef bint durable = False, begun = False
    for publish in publishes:
        route = publish.route
        # For a duplicate, the commit promises that its original is on disk.
        durable = durable or route.durable or route.duplicate or route.own_records is not None
        size += publish.copied_bytes()
        if route.caching or route.refusing:
            # For entries that caches drop for this one; and for messages that a full queue
            # delivers first, which are settled at once for consumers without acks.
            size += len(route.queues) * (2 * sizeof(Record) + 32)
    for _, queue, _, _, _, _ in acks:
        durable = durable or queue.durable
        size += 2 * sizeof(Record) + 32
    for staged in all_staged:
        durable = durable or staged is not None and staged.log.durable
    if durable:
        flush_settles(channel.logs, 0)
    before = log.appended
    for staged in all_staged:
        if staged is None:
            continue
        if not staged.begin_commit(size if staged.log.durable else 0):
            size += staged.end      # they are copied
        elif staged.log.durable:
            begun = True
    if durable and not begun:
        log.begin((size + 7) & ~<size_t> 7)  # so that all facts are in one segment
    try:
        for publish in publishes:
            accept(channel, publish)
    finally:
        # What was not appended, if an exception ends this, must not be a hole in its segment.
        for publish in publishes:
            if publish.staged is not None and not publish.appended:
                publish.staged.choose(publish.at, &message)
                publish.staged.end_choice()
        for staged in all_staged:
            if staged is not None:
                staged.end_commit(channel.logs)
    for _, queue, seq, consumer, _, _ in acks:
        channel.settle_entry(queue, seq, consumer, SETTLE_ACK)
    if durable:
        flush_settles(channel.logs, FLAG_IN_TX)
        append_commit(channel.logs, <uint32_t> (log.appended - before), COMMIT_PUBLISHES)
    return durable


cdef int accept(Channel channel, Publish publish) except -1:
    """Publish a message of a transaction."""
    cdef Message message = publish.message
    cdef StagedRecords staged = publish.staged
    channel.body = publish.body
    if staged is not None:
        channel.body = staged.choose(publish.at, &message)
    try:
        channel.accept(publish.route, &message, &publish.props, publish.mandatory, FLAG_IN_TX)
    finally:
        channel.body = None
        publish.appended = True
        if staged is not None:
            staged.end_choice()
    return 0


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
