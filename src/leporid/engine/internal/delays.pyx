"""Delayed messages: those of one exchange that wait until they are due.

Responsible for when a message is due, and for publishing it then through its exchange. It is a
hidden queue, so that log, replay, cleaning and checks treat its messages as any others. The publish
and the settle of the entry are one transaction: a crash neither loses nor duplicates the message.
It must not know exchanges or bindings: `routes` and `routed` do.

Invariants: an entry's due time follows from its record alone, so that replay needs nothing else;
the queue has at most one current timer, however many messages wait.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from cpython.bytes cimport PyBytes_AS_STRING

from leporid.engine.bounds.clock cimport Clock, spend
from leporid.engine.log.log cimport COPIED_AT_ONCE, record_memory
from leporid.engine.log.producers cimport Producer
from leporid.engine.publishing.publishing cimport partial_appends
from leporid.engine.queue.index cimport READY, Slot
from leporid.engine.queue.queue cimport Queue
from leporid.engine.queue.queues cimport Queues
from leporid.engine.queue.timed_queue cimport TimedQueue
from leporid.engine.queue.timers cimport Timer, Timers
from leporid.engine.routing.route cimport Route, all_queues, make_route, stored_in_streams
from leporid.engine.routing.route_cache cimport (
    Resolution, RouteCache, found_resolution, resolution_of_keys,
)
from leporid.engine.wire.codec cimport (
    HAS_BCC, HAS_CC, HAS_DELAY, HAS_DELIVER_AT, Props, walk_properties,
)
from leporid.engine.wire.record cimport (
    Message, Record, body_bytes, exchange_name, key_in, message_in, properties_bytes, properties_in,
    routing_key, set_properties,
)
from leporid.engine.wire.due_time cimport (
    NEGATED_BYTES, WHEN_INVALID, WHEN_NOW, WHEN_TOO_FAR, find_delay, find_due, negated,
)
from leporid.engine.wire.text cimport bytes_room

from heapq import heappop, heappush, heapreplace

from leporid.amqp.errors import Fault
from leporid.engine.wire.rewrites import copies_of, invalid_moment

cdef extern from *:
    """
    #define PAST_MS (1ull << 50)
    #define FAR_MS (1ull << 60)
    """
    uint64_t PAST_MS        # added to due times here, which may be before the clock's zero
    uint64_t FAR_MS         # later than any due time

cdef enum:
    STALE_SLACK = 1024          # timers of entries that are gone, before the heap is pruned
    # Clocks are cut to whole milliseconds: without one more, a message could be early by a part.
    CLOCK_STEP_MS = 1
    PERSISTENT = 2
    UNITS_A_MESSAGE = 4         # of the clock


cdef Route postponed(RouteCache routes, const Props *props, uint64_t came_ms):
    """The route of a message to the delays of its exchange; None: it is routed now.

    Args:
        routes: of the exchange that it was published to.
        props: the message's properties.
        came_ms: when it was published.
    """
    cdef int64_t due_ms
    cdef int when
    if not props.marks & HAS_DELIVER_AT and not routes.delaying:
        return None
    when = find_due(props, came_ms, routes.delaying, &due_ms)
    if when == WHEN_INVALID or when == WHEN_TOO_FAR:
        by_delay = find_due(props, came_ms, False, &due_ms) == WHEN_NOW
        raise invalid_moment(props.headers[:props.headers_len],
                             "x-delay" if by_delay else "x-deliver-at", when == WHEN_TOO_FAR)
    if when == WHEN_NOW:
        return None
    if routes.delays is None:
        if routes.make_delays is None:
            return None
        routes.make_delays()
    return (<Delays> routes.delays).route


def delay_of(bytes raw not None):
    """How long an x-delayed-message exchange delays a message with these properties; 0: not at all.

    Raises:
        PreconditionFailed: the delay is longer than the limit.
    """
    cdef Props props
    cdef int64_t due_ms
    cdef int when
    if walk_properties(<const uint8_t *> PyBytes_AS_STRING(raw), len(raw), &props):
        return 0
    # Of x-deliver-at the exchange has taken care that the message was published to.
    when = find_delay(&props, 0, &due_ms)
    if when == WHEN_TOO_FAR:
        raise invalid_moment(props.headers[:props.headers_len], "x-delay", True)
    return 0 if when == WHEN_NOW else due_ms


cdef class DelayTotals(Totals):
    """The delayed messages of several exchanges together, also of those that are gone."""


cdef class Delays(TimedQueue):
    """The delayed messages of one exchange; made by `Engine.delays`."""

    def __cinit__(self, Queues queues, uint32_t queue_id, str name, bint durable):
        self.all = DelayTotals()
        self.own_record = self.routes_again = self.own_timers = True
        self.due = Timers()
        self.route = make_route([self])

    def __dealloc__(self):
        free(self.scratch.data)

    def __repr__(self):
        return f"<Delays {self.name!r} count={self.ready_count}>"

    # ------------------------------------------------------------- entering

    cdef int append_message(self, const Message *message, const Props *props, uint8_t flags,
                            Producer producer, uint64_t sequence) except -1:
        """Append a message, until it is due.

        It is stored on disk whatever its delivery mode, as a delay is a promise for later; its
        time to live begins when it enters a queue.
        """
        cdef Props lasting = props[0]
        lasting.delivery_mode = PERSISTENT
        lasting.expiration = NULL
        self.queues.append([self], self.durable, message, &lasting, flags, producer, sequence)
        self.arm(self.next_seq - 1, self.queues.clock.wall_ms, props)
        self.wake()
        return 0

    cdef int arm(self, uint64_t seq, uint64_t came_ms, const Props *props) except -1:
        """Set the timer of an entry."""
        cdef int64_t due_ms = 0
        cdef Slot *slot = self.index.slot_of(seq)
        if find_due(props, came_ms, self.routes.delaying, &due_ms) == WHEN_NOW:
            due_ms = came_ms
        slot.expires_at_ms = self.on_clock(due_ms)
        self.prune_due()
        return self.due.push(slot.expires_at_ms, self.id, seq)

    cdef uint64_t on_clock(self, uint64_t due_ms):
        """A Unix time on the clock that never jumps; overdue messages keep their order."""
        return (PAST_MS + self.queues.clock.now_ms + CLOCK_STEP_MS
                + due_ms - self.queues.clock.wall_ms)

    cdef int restore_entry(self, uint64_t seq, uint64_t position) except -1:
        """Set the timer of a restored entry; all are set before the first `wake`."""
        cdef const Record *record = self.logs.record(position)
        cdef Props props
        self.index.slot_of(seq).deliveries = 0
        properties_in(record, &props)
        return self.arm(seq, self.came_ms(position), &props)

    cdef void wake(self):
        """Have `turn` called when the first is due."""
        if self.due.count:
            self.set_alarm(max(PAST_MS + 1, self.due.heap[0].at_ms) - PAST_MS)

    cdef bint waits(self, uint64_t seq, uint64_t at_ms):
        """Whether a timer is that of an entry that still waits."""
        cdef Slot *slot = self.index.slot_of(seq)
        return slot != NULL and slot.state == READY and slot.expires_at_ms == at_ms

    cdef int prune_due(self) except -1:
        """Prune timers of entries that are gone, as a job, if there are many."""
        if not self.pruning and (
                self.due.count > STALE_SLACK + self.ready_count + self.ready_count // 4):
            self.pruning = True
            self.queues.jobs.start(_pruning(self))
        return 0

    # ------------------------------------------------------------- sending

    cdef bint turn(self, size_t most) except -1:
        """Publish up to `most` messages that are due; returns whether there are more."""
        cdef Timer due
        cdef Slot *slot
        if self.resolution is not None:
            slot = self.index.slot_of(self.resolving)
            if slot == NULL or slot.state != READY:
                self.forget_steps()         # it was cancelled
            elif not self.fire(self.resolving, slot):
                return True
        while self.due.count and self.due.heap[0].at_ms <= PAST_MS + self.queues.clock.now_ms:
            if not most:
                return True
            due = self.due.pop()
            if self.waits(due.seq, due.at_ms):
                if not self.fire(due.seq, self.index.slot_of(due.seq)):
                    self.due.push(due.at_ms, self.id, due.seq)  # it is still the next one
                    return True
                most = 0 if spend(self.queues.clock, UNITS_A_MESSAGE) else most - 1
        self.is_due = False
        self.wake()
        return False

    cdef bint fire(self, uint64_t seq, Slot *slot) except -1:
        """Publish a message that is due, and settle its entry.

        Returns False if its route was not found within the slice: it is to be called again for the
        same message.
        """
        cdef const Record *record = self.logs.record(slot.position)
        cdef Message message = message_in(record)
        cdef Props props
        cdef Route route, rest
        cdef bytes changed
        cdef list keys = None
        cdef uint8_t *to
        cdef int mark
        properties_in(record, &props)
        # A negative value says that the delay is over, wherever the message goes from here.
        self.scratch.used = 0
        if bytes_room(&self.scratch, 2 * message.properties_len + 3 * NEGATED_BYTES):
            raise MemoryError("no memory for the properties of a delayed message")
        to = self.scratch.data
        for mark in (HAS_DELAY, HAS_DELIVER_AT):
            if props.marks & mark:
                message.properties_len = negated(to, message.properties, message.properties_len,
                                                 &props, mark)
                message.properties = to
                to += message.properties_len
                walk_properties(message.properties, message.properties_len, &props)
        if props.marks & (HAS_CC | HAS_BCC):
            changed, keys = copies_of(properties_bytes(&message))
            set_properties(&message, changed)
            keys = [routing_key(&message), *keys]
            walk_properties(message.properties, message.properties_len, &props)
        route = self.current_route(&message, keys)
        if route is None and self.resolution is not None:
            self.resolving = seq
            return False
        if route is not None:
            rest = self.stored_in_steps(route, &message, &props)
            if rest is None:
                self.resolution, self.resolving = found_resolution(self.routes, route), seq
                return False
            route = rest
        route = self.publishing.republish(self, seq, route, &message, &props, self.elsewhere, keys)
        self.forget_steps()
        self.fired += 1
        self.all.fired += 1
        if route is None or (route.unroutable and not route.refused and not route.duplicate):
            self.unroutable += 1
            self.all.unroutable += 1
            if self.on_unroutable is not None:
                self.on_unroutable()
        return True

    cdef Route stored_in_steps(self, Route route, Message *message, const Props *props):
        """What is left of a route when what takes long is done: its body is copied, if it is large,
        and its streams have the message, if they are many. None: the slice is over."""
        cdef Clock clock = self.queues.clock
        cdef size_t head = message.names_len + message.properties_len
        if self.appends is None:
            self.appends = partial_appends(route, message, clock, False)
        if message.body_len > COPIED_AT_ONCE:
            if self.copied is None:
                self.copied = record_memory(head, message.body_len)
            if not self.copied.copy_rest(message.body, message.body_len, clock):
                return None
            message.body, message.memory = self.copied.body, <void *> self.copied
        if self.appends is not None:
            if not self.appends.go_on(self.publishing, message, props):
                return None
            route = self.appends.rest()
        if self.copied is None:
            return route
        if not self.copied.prepare(len(route.own_records or ()) + (1 if route.queues else 0), head,
                                   clock):
            return None
        return still_there(route)

    cdef int forget_steps(self) except -1:
        """The message that was being published was, or it was cancelled."""
        self.resolution = self.appends = self.copied = None
        return 0

    cdef Route current_route(self, const Message *message, list keys):
        """The route of a message now; `keys` if it has several.

        None: the slice is over and `resolution` is what is left, or routing failed, and there is
        no publisher to be told.
        """
        cdef bint refused = False
        while True:
            try:
                if self.resolution is None:
                    self.resolution = self.resolution_of(message, keys, refused)
                return self.resolution.go_on(message)
            except Fault:
                if self.resolution is None or self.resolution.key is None:
                    self.resolution = None
                    return None
                # The exchange refuses this key from publishers; the message came from another one.
                self.resolution, refused = None, True

    cdef Resolution resolution_of(self, const Message *message, list keys, bint refused):
        cdef const uint8_t *key = key_in(message)
        cdef Resolution resolution
        if keys is None and not refused:
            resolution = Resolution(self.routes, key[1:1 + key[0]])
            resolution.routed = self.routed
            return resolution
        return resolution_of_keys(self.routes, None, self.routed(
            exchange_name(message), [routing_key(message)] if keys is None else keys,
            properties_bytes(message)))

    def retire(self):
        """The exchange was deleted: drop every message; returns how many there were."""
        self.due = Timers()
        self.forget_steps()
        # They know the exchange, whose cache knows this queue, or the queue itself.
        self.routed = self.elsewhere = self.on_unroutable = self.route = None
        return TimedQueue.retire(self)

    # ------------------------------------------------------------- called by the control plane

    def count_delays_in(self, DelayTotals totals not None):
        """Have its counts among others from now on, before the first message."""
        self.count_in(totals)
        self.all = totals

    cdef uint64_t due_of(self, const Slot *slot) except? 0:
        """When an entry is due, in Unix time; it does not change with a restart."""
        cdef const Record *record = self.logs.record(slot.position)
        cdef Props props
        cdef int64_t due_ms = 0
        properties_in(record, &props)
        if find_due(&props, record.timestamp_ms, self.routes.delaying, &due_ms) == WHEN_NOW:
            return record.timestamp_ms
        return <uint64_t> due_ms

    def message(self, uint64_t seq):
        """(due_ms, came_ms, exchange, key, body_bytes, properties) of the waiting message with a
        sequence number; None: there is none."""
        cdef Slot *slot = self.index.slot_of(seq)
        cdef const Record *record
        cdef Message message
        if slot == NULL or slot.state != READY:
            return None
        record = self.logs.record(slot.position)
        message = message_in(record)
        return (self.due_of(slot), record.timestamp_ms, readable(exchange_name(&message)),
                readable(routing_key(&message)), record.body_len, properties_bytes(&message))

    def content(self, uint64_t seq):
        """(properties, body) of the waiting message with a sequence number; there must be one."""
        cdef Message message = message_in(
            self.logs.record(self.index.slot_of(seq).position))
        return properties_bytes(&message), body_bytes(&message)

    def cancel(self, uint64_t seq):
        """Drop the waiting message with a sequence number; returns whether there was one."""
        cdef Slot *slot = self.index.slot_of(seq)
        if slot == NULL or slot.state != READY:
            return False
        self.settle(seq, slot)
        self.cancelled += 1
        self.all.cancelled += 1
        self.prune_due()
        return True

    def count_due(self, list edges not None, list counts not None, size_t at, size_t most):
        """Count waiting messages by when they are due, some of them in each call.

        Args:
            edges: Unix times in milliseconds, ascending.
            counts: one more than edges, added to: the first is of those due before all edges.
            at: what the call before returned; 0 at first.
            most: at most so many timers are looked at.

        Returns where to go on, 0 after the last. What comes or goes between two calls may be
        counted twice, or not.

        Raises:
            ValueError: counts has another length.
        """
        cdef size_t end = min(self.due.count, at + most), edge, low, high, count = len(edges)
        cdef uint64_t *times = NULL
        cdef uint64_t *found = NULL
        cdef Timer *due
        if <size_t> len(counts) != count + 1:
            raise ValueError(f"{count} edges have {count + 1} counts, not {len(counts)}")
        times = <uint64_t *> malloc(max(<size_t> 1, count) * sizeof(uint64_t))
        found = <uint64_t *> calloc(count + 1, sizeof(uint64_t))
        try:
            if times == NULL or found == NULL:
                raise MemoryError("no room for the counts of delayed messages")
            for edge in range(count):
                times[edge] = self.on_clock(edges[edge])
            while at < end:
                due = &self.due.heap[at]
                at += 1
                if not self.waits(due.seq, due.at_ms):
                    continue
                low, high = 0, count
                while low < high:
                    edge = (low + high) // 2
                    if due.at_ms < times[edge]:
                        high = edge
                    else:
                        low = edge + 1
                found[low] += 1
            for edge in range(count + 1):
                counts[edge] += found[edge]
            return 0 if at >= self.due.count else at
        finally:
            free(times)
            free(found)

    def upcoming(self, size_t limit, after=None):
        """The sequence numbers of the messages that are due next, in order.

        Args:
            limit: at most so many.
            after: (due_ms, number) of the last one listed before; it may be gone.
        """
        cdef uint64_t due_ms, seq, at_ms
        cdef Slot *slot
        if not limit:
            return []
        if after is None:
            return self.first(limit)
        due_ms, seq = after
        slot = self.index.slot_of(seq)
        if slot != NULL and slot.state == READY and self.due_of(slot) == due_ms:
            return self.following(limit, slot.expires_at_ms, seq)
        # Both clocks are cut to milliseconds, so its place is known to one or two of them.
        at_ms = self.on_clock(min(due_ms, FAR_MS)) - 2 * CLOCK_STEP_MS
        return self.following(limit, at_ms, 0)

    cdef list first(self, size_t limit):
        """The first ones, by a best-first search from the top of the heap."""
        cdef size_t at
        cdef list found = [], open = []
        if self.due.count:
            heappush(open, (self.due.heap[0].at_ms, self.due.heap[0].seq, 0))
        while open and <size_t> len(found) < limit:
            at_ms, seq, at = heappop(open)
            if self.waits(seq, at_ms):
                found.append(seq)
            for at in range(2 * at + 1, min(2 * at + 3, self.due.count)):
                heappush(open, (self.due.heap[at].at_ms, self.due.heap[at].seq, at))
        return found

    cdef list following(self, size_t limit, uint64_t at_ms, uint64_t seq):
        """The first ones after a time and number. Subtrees of the heap are skipped that are later
        than the last one found."""
        cdef size_t at, depth = 1
        cdef size_t[2 * 64] path        # two nodes for each level
        cdef Timer *due
        cdef uint64_t last_ms = ~<uint64_t> 0, last_seq = ~<uint64_t> 0
        cdef list kept = []             # a heap, latest first
        path[0] = 0
        while depth:
            depth -= 1
            at = path[depth]
            if at >= self.due.count:
                continue
            due = &self.due.heap[at]
            if due.at_ms > last_ms or (due.at_ms == last_ms and due.seq >= last_seq):
                continue                # as is the whole subtree
            path[depth], path[depth + 1] = 2 * at + 2, 2 * at + 1
            depth += 2
            if due.at_ms < at_ms or (due.at_ms == at_ms and due.seq <= seq):
                continue
            if not self.waits(due.seq, due.at_ms):
                continue
            if <size_t> len(kept) < limit:
                heappush(kept, (-<object> due.at_ms, -<object> due.seq))
            else:
                heapreplace(kept, (-<object> due.at_ms, -<object> due.seq))
            if <size_t> len(kept) == limit:
                last_ms, last_seq = -kept[0][0], -kept[0][1]
        return [-number for _, number in sorted(kept, reverse=True)]


def _pruning(Delays delays):
    while delays.due.prune(still_waits, delays, delays.queues.clock):
        yield
    delays.pruning = False


cdef bint still_waits(object owner, Timer *timer) except -1:
    return (<Delays> owner).waits(timer.seq, timer.at_ms)


cdef str readable(str text):
    """For display: bytes that are not UTF-8 are replaced."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


cdef Route still_there(Route route):
    """A route without the queues that were deleted since it was found."""
    cdef Queue queue
    cdef Route left = make_route([queue for queue in all_queues(route) if not queue.retired])
    left.keys, left.with_bcc = route.keys, route.with_bcc
    return stored_in_streams(left) if route.in_streams else left
