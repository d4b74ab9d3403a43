"""Publishing: the only code that stores a routed message in logs and queues.

Responsible for leaving out queues that have the message or are full, for its record in the durable
or transient log and one for each queue with records of its own, and for dead-lettering it for full
queues. A publisher is told which queues were left out; a message from the broker itself has no such
publisher, and waits for room instead. It must not look routes up, nor know who publishes.

Invariants: a message that is republished from a queue is settled there in one transaction with the
record that is stored, so that a crash neither loses nor duplicates it; to a stream, as for dead
letters. A message from the broker is not dropped because a queue is full, unless the queue's
backlog is full, too.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from cpython.bytes cimport PyBytes_AS_STRING

from leporid.engine.bounds.clock cimport Clock, spend
from leporid.engine.log.facts cimport make_room
from leporid.engine.log.log cimport COPIED_AT_ONCE, Log, RecordMemory, record_memory
from leporid.engine.log.logs cimport Logs
from leporid.engine.log.producers cimport Producer
from leporid.engine.queue.queue cimport REJECT_PUBLISH, REJECT_PUBLISH_DLX, Queue
from leporid.engine.queue.queues cimport Queues
from leporid.engine.routing.route cimport (
    Route, all_queues, make_route, narrowed, stored_in_queues, stored_in_streams, without_caches,
    without_duplicates, without_full,
)
from leporid.engine.selectors.filter cimport FilterCounters
from leporid.engine.stream.stream cimport Stream
from leporid.engine.wire.codec cimport Props, walk_properties
from leporid.engine.wire.record cimport (
    Message, body_bytes, exchange_name, message_of, names_bytes, properties_bytes, routing_key,
    set_properties,
)

from functools import partial

cdef enum:
    SIZES = 8
    UNIT_BYTES = 2048               # that take as long to copy as a unit of work
    # Queues that get one record of a client's message, when there are more of them: as many as take
    # some 0.6 ms if nothing of them is in the processor's caches. Each record has a copy of
    # the body, which takes no more than what a record says of so many queues.
    QUEUES_A_UNIT = 32
    BODY_BYTES_A_QUEUE = 16

# The limits of RabbitMQ 4's histogram of message sizes, in bytes.
SIZE_LIMITS = (100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 50_000_000, 100_000_000)
cdef size_t[8] size_limits = SIZE_LIMITS


cdef Route split_full(Route route, size_t body_len, list refusing, list full):
    """The queues of a route that take a message.

    Of the others, those that dead-letter it are added to `refusing`, the rest to `full`. A queue
    that has room, but a backlog of earlier messages, is added to `full`, too.
    """
    cdef Queue queue
    cdef list taking = []
    for queue in route.queues:
        if queue.overflow == REJECT_PUBLISH and queue.backlog is not None and (
                queue.backlog.ready_count):
            full.append(queue)
        elif not queue.refuses(<uint32_t> body_len):
            taking.append(queue)
        elif queue.overflow == REJECT_PUBLISH_DLX and queue.dead_letters is not None:
            refusing.append(queue)
        else:
            full.append(queue)
    return narrowed(route, taking)


cdef Route cache_transiently(Publishing self, Route route, const Message *message,
                             const Props *props):
    """Have caches of exchanges remember a message that goes to a stream until a restart.

    A stream has a log of its own: a crash might keep the memory and lose the message, which
    would then be refused for ever. Twice is better than never.
    """
    cdef Message known = message[0]
    cdef Props passing = props[0]
    cdef list queues = without_caches(route.queues)
    passing.delivery_mode = 1
    known.body_len = 0
    known.memory = NULL
    self.queues.append([queue for queue in route.queues if queue not in queues], False, &known,
                       &passing, 0, None, 0)
    return narrowed(route, queues)


cdef inline int store(Publishing self, Route route, const Message *message, const Props *props,
                      uint8_t flags) except -1:
    """Append one record for the queues of a route, and one for each that keeps its own."""
    cdef Queue queue
    cdef Message whole
    if route.own_records is not None:
        if route.caching:
            route = cache_transiently(self, route, message, props)
        whole = message[0]
        if route.with_bcc is not None:
            set_properties(&whole, route.with_bcc)
        for queue in route.own_records:
            queue.append_message(&whole if queue.routes_again else message, props, flags, None,
                                 0)
        if not route.queues:
            self.queues.published += 1
            return 0
    self.deepest = self.queues.append(
        route.queues, props.delivery_mode == 2 and route.durable, message, props, flags, None,
        0)
    self.queues.published += not route.unroutable
    return 0


cdef inline void note_received(Publishing self, size_t body_len) noexcept:
    """Count a message; most are small, so that the first comparison is the last one."""
    self.received_body_bytes += body_len
    if body_len <= 100:
        self.sizes[0] += 1
    elif body_len <= 1_000:
        self.sizes[1] += 1
    elif body_len <= 10_000:
        self.sizes[2] += 1
    else:
        note_large(self, body_len)


cdef int note_large(Publishing self, size_t body_len) noexcept:
    cdef size_t at = 3
    while at < SIZES and body_len > size_limits[at]:
        at += 1
    self.sizes[at] += 1
    return 0


cdef class PartialAppends:
    """The records of a message in the streams of its route, and in all but the last of many queues,
    appended in as many slices as it takes.

    A message of 4 MiB takes 1 to 2 ms for each stream, and one to 20,000 queues 6 ms. Made by
    `partial_appends`. The message must be the same in each slice.
    """

    def __repr__(self):
        return (f"<PartialAppends {self.at} of {len(self.route.own_records or ())}, "
                f"{self.queues_at} of {len(self.route.queues)}>")

    cdef bint go_on(self, Publishing publishing, const Message *message,
                    const Props *props) except -1:
        """Append as many as the slice has time for; returns whether the rest is one piece of work.
        """
        publishing.logs.clock.over()    # the slice has begun: the first of them is part of it
        return (self.append_to_streams(publishing, message, props)
                and (not self.part or self.append_to_queues(publishing, message, props)))

    cdef bint append_to_streams(self, Publishing publishing, const Message *message,
                                const Props *props) except -1:
        cdef list queues = self.route.own_records
        cdef Clock clock = publishing.logs.clock
        cdef Queue queue
        if queues is None:
            return True
        while self.at < len(queues):
            queue = <Queue> queues[self.at]
            if type(queue) is Stream and not queue.retired:
                if message.memory != NULL and message.body_len > COPIED_AT_ONCE and not (
                        <RecordMemory> message.memory).prepare(
                            1, message.names_len + message.properties_len, clock):
                    return False
                queue.append_message(message, props, 0, None, 0)
                self.in_streams = True
            self.at += 1
            if spend(clock, <uint32_t> (1 + message.body_len // UNIT_BYTES)):
                break
        return self.at == len(queues)

    cdef bint append_to_queues(self, Publishing publishing, const Message *message,
                               const Props *props) except -1:
        """Append a record for each part of the queues but the last."""
        while self.queues_at + self.part < len(self.route.queues):
            # Dead letters of full queues are made before anybody publishes to such queues again.
            if self.route.refusing and publishing.queues.dead_lettering.refused:
                return False
            self.append_part(publishing, message, props)
            if spend(publishing.logs.clock, 1):
                return self.queues_at + self.part >= len(self.route.queues)
        return True

    cdef int append_part(self, Publishing publishing, const Message *message,
                         const Props *props) except -1:
        cdef Py_ssize_t end = self.queues_at + self.part
        cdef Queue queue
        cdef list refusing = []
        cdef Route part = make_route([queue for queue in self.route.queues[self.queues_at:end]
                                      if not queue.retired])
        self.queues_at = end
        if part.deduplicates:
            part = without_duplicates(part, props)
        if part.refusing:
            part = without_full(part, message.body_len, refusing)
        self.duplicate = self.duplicate or part.duplicate
        self.refused = self.refused or part.refused
        if part.queues:
            self.deepest = max(self.deepest, publishing.queues.append(
                part.queues, props.delivery_mode == 2 and self.route.durable, message, props, 0,
                None, 0))
            self.in_queues = True
        publishing.queues.dead_lettering.dead_letter_refused(refusing, message)
        return 0

    cdef Route rest(self):
        """The route of the message without its streams and queues that have it or are deleted."""
        cdef Queue queue
        cdef Route left = make_route([
            queue for queue in self.route.queues[self.queues_at:] + (self.route.own_records or [])
            if type(queue) is not Stream and not queue.retired])
        left.with_bcc = self.route.with_bcc
        if self.queues_at:
            left.durable = self.route.durable
            left.duplicate, left.refused = self.duplicate, self.refused
        if self.in_queues:
            stored_in_queues(left)
        return stored_in_streams(left) if self.in_streams else left


cdef PartialAppends partial_appends(Route route, const Message *message, Clock clock,
                                    bint in_parts):
    """What takes several slices to append to the streams and queues of a route; None: it takes one.

    A message that a deduplication cache of an exchange has to remember is stored in one piece.

    Args:
        route: of the message.
        message: its body has memory of its own, or is copied for each record.
        clock: says when the slice is over.
        in_parts: whether its queues may have several records, of which a crash leaves some.
    """
    cdef PartialAppends made
    cdef size_t streams = len(route.own_records or ())
    cdef size_t part = 0
    if route.caching:
        return None
    if in_parts and message.memory == NULL:
        part = max(QUEUES_A_UNIT * clock.units_a_reading, message.body_len // BODY_BYTES_A_QUEUE)
        if part >= <size_t> len(route.queues):
            part = 0
    if not part and (streams < 2 or streams * (1 + message.body_len // UNIT_BYTES)
                     < clock.units_a_reading):
        return None
    made = PartialAppends()
    made.route, made.part = route, part
    return made


def storing(Publishing publishing, list queues, bytes names, bytes properties, body):
    """The steps of what takes longer than a slice of a message of the broker's own, before it is
    published: copies of a large body, and records in many streams.

    Returns the queues that do not have it yet, and its body for them.
    """
    cdef RecordMemory memory = body if isinstance(body, RecordMemory) else None
    cdef size_t size = len(body) if memory is None else memory.size
    cdef size_t head = len(names) + len(properties)
    cdef Message message = message_with(names, properties, body)
    cdef PartialAppends appends = partial_appends(make_route(queues), &message,
                                                  publishing.logs.clock, False)
    cdef const uint8_t *data
    if memory is None and size > COPIED_AT_ONCE:
        data = <const uint8_t *> PyBytes_AS_STRING(body)
        memory = record_memory(head, size)
        while not memory.copy_rest(data, size, publishing.logs.clock):
            yield
    if memory is not None:
        body = memory
    if appends is not None:
        while not append_some(publishing, appends, names, properties, body):
            yield
        queues = all_queues(appends.rest())
    if memory is not None:
        records = {queue.id if (<Queue> queue).own_record else 0 for queue in queues}
        while not memory.prepare(len(records), head, publishing.logs.clock):
            yield
        queues = [queue for queue in queues if not (<Queue> queue).retired]
    return queues, body


cdef bint has_memory(Log log, const Message *message, size_t targets) except -1:
    """Whether the record of a message is going to be in memory of its own, which has room for what
    follows it."""
    cdef RecordMemory memory, copy
    if message.memory == NULL:
        return False
    memory = <RecordMemory> message.memory
    if memory.places(log, message, targets):
        return True
    for copy in memory.copies or ():
        if copy.places(log, message, targets):
            return True
    return False


cdef bint append_some(Publishing publishing, PartialAppends appends, bytes names, bytes properties,
                      body) except -1:
    cdef Message message = message_with(names, properties, body)
    cdef Props props
    walk_properties(message.properties, message.properties_len, &props)
    return appends.go_on(publishing, &message, &props)


cdef Message message_with(bytes names, bytes properties, body):
    """The message of these bytes; `body` may be a RecordMemory."""
    cdef Message message
    if type(body) is bytes:
        return message_of(names, properties, body)
    message = message_of(names, properties, b"")
    message.body, message.body_len = (<RecordMemory?> body).body, (<RecordMemory> body).size
    message.memory = <void *> body
    return message


cdef class Publishing:
    """What all publishers share."""

    def __cinit__(self, Queues queues not None):
        self.logs = queues.logs
        self.queues = queues
        self.filters = FilterCounters()

    # ------------------------------------------------------------- counters

    @property
    def received(self):
        """Messages of clients."""
        return sum(self.received_sizes)

    @property
    def received_sizes(self):
        """Messages of clients by the length of their body: a count for each of SIZE_LIMITS, and one
        for longer ones."""
        return tuple([self.sizes[at] for at in range(SIZES + 1)])

    # ------------------------------------------------------------- publishing

    cdef Route publish(self, Route route, const Message *message, const Props *props,
                       uint8_t flags, bytes producer, uint64_t sequence, list letters):
        """Publish a message of a client.

        Args:
            route: its route.
            message: its names, properties and body.
            props: its parsed properties.
            flags: of its record.
            producer: the reference of the producer, by whose `sequence` numbers duplicates are
                recognized; None: there is none. Afterwards `fresh` tells whether it was new.
            sequence: the message's number.
            letters: collects refused messages that are to be dead-lettered later, as no record may
                come between the facts of a transaction; None: dead-letter now.

        Returns:
            The rest of the route, without queues that had or refused the message.
        """
        cdef list refusing = None
        cdef uint64_t deepest
        cdef bint fresh
        note_received(self, message.body_len)
        if route.deduplicates:
            route = without_duplicates(route, props)
        if route.unroutable:
            self.queues.unroutable += not route.duplicate
        elif route.refusing:
            refusing = []
            route = without_full(route, message.body_len, refusing)
        # Not before: a full queue that makes room may have dead letters published.
        self.deepest, self.fresh = 0, True
        if route.queues or route.own_records is not None:
            # What came to no queue is none of a producer's messages: it may be published again.
            if producer is None or route.unroutable:
                store(self, route, message, props, flags)
            else:
                self.store_produced(route, message, props, producer, sequence)
        elif route.in_queues:
            self.queues.published += 1
        if not refusing:
            return route
        if letters is not None:
            letters.append((refusing, names_bytes(message), properties_bytes(message),
                            body_bytes(message)))
            return route
        deepest, fresh = self.deepest, self.fresh   # publishing dead letters changes both
        self.queues.dead_lettering.dead_letter_refused(refusing, message)
        self.deepest, self.fresh = deepest, fresh
        return route

    cdef Route publish_own(self, Route route, const Message *message, const Props *props,
                           bytes producer, uint64_t sequence, object elsewhere, bint replaces,
                           list refusing):
        """A message of the broker's own, which waits for room in queues that are full.

        Args:
            route: its route.
            message: its names, properties and body.
            props: its parsed properties.
            producer: as for `publish`.
            sequence: as for `publish`.
            elsewhere: () gives the queues of an alternate exchange; None: there is none.
            replaces: the end of an entry follows in the same transaction.
            refusing: gets the queues that make a dead letter of it, which is for
                `DeadLettering.dead_letter_refused`.
        """
        if route.deduplicates:
            route = without_duplicates(route, props)
        if route.refusing:
            route = self.without_full_queues(route, message.body_len, props, refusing, elsewhere)
        self.fresh = True
        if not route.queues and route.own_records is None:
            self.fresh = False
        elif producer is not None:
            self.store_produced(route, message, props, producer, sequence)
        else:
            if replaces:
                self.queues.dead_lettering.replacing = False
                if not has_memory(self.logs.durable, message, len(route.queues)):
                    make_room(self.logs, max(1, len(route.queues)),
                              message.names_len + message.properties_len + message.body_len)
            store(self, route, message, props, 0)
        return route

    cdef Route republish(self, Queue queue, uint64_t seq, Route route, const Message *message,
                         const Props *props, object elsewhere, list keys):
        """Publish the message of an entry in `queue` and settle the entry, in one transaction.

        Args:
            queue: a hidden queue that has the message.
            seq: the entry's number.
            route: where the message goes; None: nowhere.
            message: its names, properties and body, as they are to be stored.
            props: its parsed properties.
            elsewhere: (exchange, keys, properties) gives the queues of an alternate exchange, for
                a message that no queue takes; None: there is none.
            keys: the message's routing keys; None: only the one among its names.

        Returns:
            The rest of the route, without queues that had or refused the message.
        """
        cdef Logs logs = self.logs
        cdef uint64_t letters = logs.durable.appended, in_streams = logs.stream_messages
        cdef uint64_t published = self.queues.published
        cdef list refusing = []
        if route is not None:
            in_streams -= route.in_streams      # as if they had it by now
            if route.refusing and elsewhere is not None:
                elsewhere = partial(elsewhere, exchange_name(message),
                                    [routing_key(message)] if keys is None else keys,
                                    properties_bytes(message))
            route = self.publish_own(route, message, props, None, 0,
                                     elsewhere if route.refusing else None, queue.durable,
                                     refusing)
            self.queues.published = published   # it was counted when it came
            self.queues.dead_lettering.dead_letter_refused(refusing, message)
        self.queues.dead_lettering.end_with_letter(queue, seq, letters, in_streams)
        return route

    cdef Route without_full_queues(self, Route route, size_t body_len, const Props *props,
                                   list refusing, object elsewhere):
        """The route of a message from the broker itself, without full queues.

        A full queue with overflow reject-publish-dlx dead-letters the message, and is added to
        `refusing`. If no queue takes the message, it goes to `elsewhere()`, the queues of an
        alternate exchange; otherwise to the backlogs of the full queues.
        """
        cdef list full = [], taking, others_full = []
        cdef Route left = split_full(route, body_len, refusing, full), other
        cdef Queue queue, backlog
        cdef bint refused
        taking = list(left.queues)
        if full and left.unroutable and not refusing and elsewhere is not None:
            other = make_route(elsewhere())
            if other.deduplicates:
                other = without_duplicates(other, props)
            other = split_full(other, body_len, refusing, others_full)
            if refusing or not other.unroutable:
                taking += all_queues(other)
                full = others_full
        refused = bool(refusing)
        for queue in full:
            backlog = self.queues.backlog_of(queue)
            if backlog.admits(<uint32_t> body_len):
                taking.append(backlog)
            else:
                refused = True
        if refused and route.caching:
            taking = without_caches(taking)  # it may be published again, and must be no duplicate
        left = narrowed(route, taking)
        left.refused = refused
        return left

    cdef int store_produced(self, Route route, const Message *message, const Props *props,
                            bytes reference, uint64_t sequence) except -1:
        """Store a message with a producer and a sequence number.

        Each log skips a message that it has; `fresh` says whether it was new to any log.
        """
        cdef Logs logs = self.logs
        cdef Queue queue
        cdef Stream stream
        cdef Producer producer
        cdef list waiting = []
        self.fresh = False
        if route.own_records is not None and route.caching:
            route = cache_transiently(self, route, message, props)
        for queue in route.own_records or ():
            if type(queue) is not Stream:
                waiting.append(queue)
                continue
            stream = <Stream> queue
            producer = stream.producers.get(stream.log, reference, logs.clock.wall_ms)
            if sequence >= producer.next:
                stream.append_message(message, props, 0, producer, sequence)
                self.fresh = True
        if not route.queues and not waiting:
            return 0
        producer = logs.producers.get(logs.durable, reference, logs.clock.wall_ms)
        if sequence < producer.next:
            return 0
        # The last of several records has the producer: a crash between them loses none.
        if route.queues:
            self.queues.append(
                route.queues, props.delivery_mode == 2 and route.durable, message, props, 0,
                None if waiting else producer, sequence)
            self.queues.published += not route.unroutable
        while waiting:
            queue = waiting.pop()
            queue.append_message(message, props, 0, None if waiting else producer, sequence)
            self.queues.published += not route.queues and not waiting
        self.fresh = True
        return 0
