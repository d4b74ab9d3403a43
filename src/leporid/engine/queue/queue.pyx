"""A queue: entries in order of arrival, their limits, and the consumers they go to.

Responsible for the order of messages and for every change of an entry: delivered, settled,
requeued, expired, dropped. It must not know frames, channels, exchanges or files; an entry refers
to a record by its position in a log.

Every entry has a sequence number, dense within the queue, that it keeps until it is settled; a
requeued entry therefore goes back to its original place.

Invariants: without priorities, READY entries before `head_seq` are in `returned`, and without
filters those from `head_seq` on were never delivered; with priorities, every READY entry is in the
lane of its priority. ready_count and unacked_count equal the number of slots in that state, and
`totals` has the sums of all queues that count there.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from leporid.engine.bounds.clock cimport Clock, spend
from leporid.engine.log.facts cimport SettledRanges
from leporid.engine.log.log cimport is_durable
from leporid.engine.log.logs cimport record_at
from leporid.engine.log.producers cimport Producer
from leporid.engine.queue.counters cimport DeliveryCounts, Totals
from leporid.engine.queue.index cimport (
    AT_ONCE, BLOCK_SLOTS, DELIVERIES_MAX, GONE, HELD, READY, UNACKED, Index, Slot, is_over,
)
from leporid.engine.queue.queues cimport Queues
from leporid.engine.queue.sequence_heap cimport SequenceHeap
from leporid.engine.queue.takers cimport Taker, Takers
from leporid.engine.wire.codec cimport TTL_SET, Props, parse_ttl
from leporid.engine.wire.record cimport NO_LIMIT, Message, Record, properties_in

from collections import deque

cdef enum:
    PASSED_A_READING = 1024         # such entries on the way to a ready one, between readings
    # Of the clock's units: so many bytes of a body cost as much as a small message.
    UNIT_BYTES_BITS = 12
    DROPS_A_VISIT = 8               # for a limit, before other queues have their turn
    # Over its limits, for want of letters, before publishers of the queue wait.
    EXCESS_MAX = 4096
    EXCESS_BYTES_MAX = 16 * 1024 * 1024

OVERFLOW = {"drop-head": DROP_HEAD, "reject-publish": REJECT_PUBLISH,
            "reject-publish-dlx": REJECT_PUBLISH_DLX}
RETRIES = {"disabled": 0, "returned": HOLD_RETURNED, "failed": HOLD_FAILED,
           "all": HOLD_RETURNED | HOLD_FAILED}


cdef inline int take_ready(Queue queue, Slot *slot) except -1:
    slot.state = UNACKED
    queue.ready_count -= 1
    queue.unacked_count += 1
    queue.totals.ready -= 1
    queue.totals.unacked += 1
    queue.ready_bytes -= record_at(queue.logs, slot.position).body_len
    return 0


cdef inline Slot *first_of(Queue queue, SequenceHeap order, uint64_t *seq,
                           bint living) except? NULL:
    """The first ready entry in an order, which is removed from it.

    NULL: there is none or, if the order is not empty, no time to find it.
    """
    cdef Slot *slot
    cdef uint32_t passed = 0
    while order.count:
        seq[0] = order.pop()
        slot = queue.index.slot_of(seq[0])
        if slot != NULL and slot.state == READY and not (
                living and is_over(slot, queue.queues.clock.now_ms)):
            return slot
        passed += 1
        if passed % PASSED_A_READING == 0 and queue.queues.clock.over():
            return NULL
    return NULL


cdef inline Slot *take_first(Queue queue, uint64_t *seq, bint living) except? NULL:
    """The next ready entry, now UNACKED; NULL: there is none, or no time to find it.

    `living`: entries whose time to live is over are passed by; `Queues.expire` will drop them.
    """
    cdef Slot *slot = NULL
    cdef SequenceHeap lane
    cdef int priority
    cdef uint32_t passed = 0
    if not queue.ready_count:
        return NULL
    if queue.lanes is not None:
        priority = queue.max_priority
        while priority >= 0:
            lane = <SequenceHeap> queue.lanes[priority]
            slot = first_of(queue, lane, seq, living)
            if slot != NULL or lane.count:
                break
            priority -= 1
    else:
        if queue.returned.count:
            slot = first_of(queue, queue.returned, seq, living)
            if slot == NULL and queue.returned.count:
                return NULL
        while slot == NULL and queue.head_seq < queue.next_seq:
            slot = queue.index.slot_of(queue.head_seq)
            if slot == NULL:
                queue.head_seq = queue.index.there_from(queue.head_seq, queue.next_seq)
                continue
            seq[0] = queue.head_seq
            queue.head_seq += 1
            if slot.state == READY and not (
                    living and is_over(slot, queue.queues.clock.now_ms)):
                break
            slot = NULL
            passed += 1
            if passed % PASSED_A_READING == 0 and queue.queues.clock.over():
                return NULL
    if slot != NULL:
        take_ready(queue, slot)
    return slot


cdef class Queue:
    """One queue's entries; made by `Engine.queue`."""

    def __cinit__(self, Queues queues, uint32_t queue_id, str name, bint durable):
        self.queues = queues
        self.totals = queues.uncounted
        self.counts = DeliveryCounts()
        self.type_counts = queues.counts_of("", None)
        self.logs = queues.logs
        self.id = queue_id
        self.name = name
        self.durable = durable
        self.settled = SettledRanges(queues.logs, queue_id)
        self.index = Index(queues.blocks)
        self.takers = Takers()
        self.returned = SequenceHeap()
        self.length_limit = self.bytes_limit = self.ttl = self.timeout_ms = NO_LIMIT
        self.delivery_limit = DELIVERIES_MAX

    def __repr__(self):
        return (f"<Queue {self.name!r} ready={self.ready_count} unacked={self.unacked_count} "
                f"consumers={self.consumer_count}>")

    # ------------------------------------------------------------- what the control plane sets

    def set_limits(self, *, max_length=None, max_bytes=None, str overflow="drop-head"):
        """Limit the ready messages and their body bytes; `overflow` says what happens beyond."""
        self.length_limit = NO_LIMIT if max_length is None else max_length
        self.bytes_limit = NO_LIMIT if max_bytes is None else max_bytes
        self.overflow = OVERFLOW[overflow]
        self.limited = max_length is not None or max_bytes is not None
        self.wake()
        if self.backlog is not None:
            self.backlog.wake()

    def count_in(self, Totals totals not None):
        """Have its counts, and its backlog's, among others from now on."""
        self.totals.ready -= self.ready_count
        self.totals.unacked -= self.unacked_count
        self.totals.held -= self.held_count
        totals.ready += self.ready_count
        totals.unacked += self.unacked_count
        totals.held += self.held_count
        self.totals = totals
        if self.backlog is not None:
            self.backlog.count_in(totals.backlogs or self.queues.uncounted)

    def count_as(self, str kind not None, str vhost=None):
        """Count its deliveries among those of all queues of a type, and of a virtual host; before
        its first consumer."""
        if self.consumer_count:
            raise ValueError("the type is set before the first consumer")
        self.type_counts = self.queues.counts_of(kind, vhost)

    @property
    def delivered(self):
        """Deliveries to consumers."""
        return self.counts.delivered + self.counts.delivered_no_ack

    def uncount(self):
        """Have its counts among none from now on."""
        self.count_in(self.queues.uncounted)

    @property
    def backlog_count(self):
        """Messages from the broker itself that wait for room."""
        return 0 if self.backlog is None else self.backlog.ready_count

    def set_message_ttl(self, ttl_ms):
        """Set the time to live of messages, from when they enter; None: no limit."""
        self.ttl = NO_LIMIT if ttl_ms is None else ttl_ms

    def set_delivery_limit(self, limit, bint counted):
        """Set how often a message may be requeued before it is dropped; None: no limit.

        `counted` says whether deliveries have the header x-delivery-count.
        """
        self.delivery_limit = DELIVERIES_MAX if limit is None else min(limit, DELIVERIES_MAX)
        self.counted = counted

    def set_retries(self, str kind not None, uint64_t min_ms, uint64_t max_ms):
        """Hold a requeued message for `min_ms` times its number of returns, at most `max_ms`.

        `kind` says which: "failed" (rejected, or the channel closed), "returned" (the rest), "all".
        """
        self.retries = RETRIES[kind]
        self.retry_min_ms, self.retry_max_ms = min_ms, max_ms

    def set_consumer_timeout(self, timeout_ms, bint requeues):
        """Set how long a delivery may stay unsettled; 0: no limit, None: the broker's default.

        `requeues`: an overdue message is requeued and its channel stays open.
        """
        self.timeout_ms = NO_LIMIT if timeout_ms is None else timeout_ms
        self.timeout_requeues = requeues
        if self.consumer_count or self.unacked_count:
            self.queues.timeouts_changed = True

    def set_priorities(self, int highest):
        """Deliver by priority, from `highest` down to 0; only before the first message."""
        if self.next_seq != self.head_seq or self.ready_count or self.unacked_count:
            raise ValueError("priorities are set before the first message")
        self.max_priority = highest
        self.lanes = [SequenceHeap() for _ in range(highest + 1)]

    def set_single_active_consumer(self, bint single):
        """One consumer at a time gets messages; when it ends the next takes over."""
        self.takers.single = single

    def set_paused(self, bint paused):
        """Deliver nothing from now on, to consumers or anybody else, or go on.

        All else goes on: publishes, times to live, limits, what was delivered before.
        """
        self.paused = paused
        self.wake()

    # ------------------------------------------------------------- entries

    cdef Slot *slot_of(self, uint64_t seq) noexcept:
        return self.index.slot_of(seq)

    cdef int push(self, uint64_t position, uint32_t body_len, uint32_t share,
                  uint8_t priority) except -1:
        """Append an entry; the caller counts it and its share on the record's segment."""
        cdef uint64_t seq = self.next_seq
        cdef Slot *slot = self.index.append(seq)
        self.next_seq += 1
        slot.position = position
        slot.expires_at_ms = 0
        slot.deliveries = 0
        slot.state = READY
        slot.priority = 0
        slot.share = share
        if self.lanes is not None:
            slot.priority = min(priority, self.max_priority)
            self.push_ready(seq, slot)
            self.queues.clock.units += 1    # a heap, maybe a new one
            if self.selection is not None:
                self.selection.ends[slot.priority] = seq + 1
        self.ready_count += 1
        self.totals.ready += 1
        self.ready_bytes += body_len
        self.published += 1
        if not self.listed and (self.consumer_count or self.limited):
            self.wake()
        return 0

    cdef int append_message(self, const Message *message, const Props *props, uint8_t flags,
                            Producer producer, uint64_t sequence) except -1:
        """Append a message, with a record of its own (`own_record`)."""
        raise NotImplementedError

    cdef void wake(self):
        """Have the queue deliver and enforce its limits before the turn ends."""
        if not self.listed and self.ready_count:
            self.listed = True
            self.queues.ready_queues.append(self)

    cdef Slot *pop(self, uint64_t *seq) except? NULL:
        """The next entry to deliver, now UNACKED; NULL: there is none, or no time to find it."""
        return take_first(self, seq, True)

    cdef Slot *pop_any(self, uint64_t *seq) except? NULL:
        """The next ready entry, now UNACKED, also if it has expired; NULL: as for `pop`."""
        return take_first(self, seq, False)

    cdef int take(self, Slot *slot) except -1:
        """A ready entry is somebody's, until it is settled or comes back."""
        take_ready(self, slot)
        return 0

    cdef int settle(self, uint64_t seq, Slot *slot) except -1:
        """Settle an entry: forget it, and note that for the log if it is durable."""
        if self.durable and is_durable(slot.position):
            self.settled.note(slot.position, seq)
        return self.forget(seq, slot)

    cdef int forget(self, uint64_t seq, Slot *slot) except -1:
        cdef uint64_t position = slot.position
        if slot.state == UNACKED:
            self.unacked_count -= 1
            self.totals.unacked -= 1
        elif slot.state == HELD:
            self.end_hold(slot)
        else:
            self.ready_count -= 1
            self.totals.ready -= 1
            self.ready_bytes -= self.logs.record(position).body_len
        slot.state = GONE
        if slot.expires_at_ms and not self.own_timers:
            self.queues.timed_count -= 1
        self.logs.release(position, slot.share)
        return self.index.leave(seq)

    cdef int drop(self, uint64_t seq, Slot *slot, str reason) except -1:
        """Drop an unacknowledged entry; it is dead-lettered if the queue has `dead_letters`."""
        if self.dead_letters is None:
            return self.settle(seq, slot)
        return self.queues.dead_lettering.dead_letter(self, seq, slot, reason)

    cdef int push_ready(self, uint64_t seq, Slot *slot) except -1:
        """Put a ready entry into the heap of its priority, or of requeued entries."""
        cdef SequenceHeap order = self.returned
        if self.lanes is not None:
            order = <SequenceHeap> self.lanes[slot.priority]
        elif seq >= self.head_seq:
            return 0  # a filter chose it from behind the head; `pop` will come to it
        order.prune_some(self.index, self.ready_count)
        return order.push(seq)

    cdef int requeue(self, uint64_t seq, Slot *slot, bint failed) except -1:
        """Requeue an unacked entry in its place; beyond the delivery limit, drop it.

        `failed` tells a rejected message from one that was merely returned.
        """
        if slot.deliveries & DELIVERIES_MAX > self.delivery_limit:
            return self.drop(seq, slot, "delivery_limit")
        self.queues.requeued += 1
        if self.retries & (HOLD_FAILED if failed else HOLD_RETURNED):
            return self.hold(seq, slot)
        return self.put_back(seq, slot)

    cdef int put_back(self, uint64_t seq, Slot *slot) except -1:
        """Make an unacked entry ready again, in its place."""
        self.unacked_count -= 1
        self.totals.unacked -= 1
        return self.make_ready(seq, slot)

    cdef int hold(self, uint64_t seq, Slot *slot) except -1:
        """Hold an unacked entry for a delay that grows with its returns (delayed retries).

        A held entry is not delivered and does not expire, but counts against the limits.
        """
        cdef uint64_t times = max(1, slot.deliveries & DELIVERIES_MAX)
        self.hold_until(seq, slot, self.queues.clock.now_ms + min(self.retry_min_ms * times,
                                                                  self.retry_max_ms))
        return self.drop_excess()

    cdef int hold_until(self, uint64_t seq, Slot *slot, uint64_t at_ms) except -1:
        """Hold an unacked entry until `at_ms`."""
        slot.state = HELD
        self.unacked_count -= 1
        self.totals.unacked -= 1
        self.held_count += 1
        self.totals.held += 1
        self.held_bytes += self.logs.record(slot.position).body_len
        return self.queues.hold(at_ms, self.id, seq)

    cdef int end_hold(self, Slot *slot) except -1:
        """End the delay of a held entry."""
        self.held_count -= 1
        self.totals.held -= 1
        self.held_bytes -= self.logs.record(slot.position).body_len
        self.queues.held_count -= 1
        return 0

    cdef int make_ready(self, uint64_t seq, Slot *slot) except -1:
        """Make an entry ready again, in its place; it is in no other count."""
        self.push_ready(seq, slot)
        if self.selection is not None:
            self.selection.came_back(seq)
        slot.state = READY
        self.ready_count += 1
        self.totals.ready += 1
        self.ready_bytes += self.logs.record(slot.position).body_len
        if slot.expires_at_ms:
            # Its timer rang meanwhile, or will ring.
            if slot.expires_at_ms == AT_ONCE:
                slot.expires_at_ms = self.queues.clock.now_ms - 1   # it had its delivery
            if slot.expires_at_ms <= self.queues.clock.now_ms:
                self.queues.timers.push(slot.expires_at_ms, self.id, seq)
        self.drop_excess()  # before a consumer takes it again, as in RabbitMQ
        self.wake()
        return 0

    cdef int set_ttl(self, uint64_t seq, uint64_t ttl_ms) except -1:
        """Let an entry expire after `ttl_ms`; 0: unless it is delivered when its queue next is."""
        cdef Slot *slot = &self.index.block_of(seq).slots[seq % BLOCK_SLOTS]
        self.queues.timed_count += 1
        if ttl_ms:
            slot.expires_at_ms = self.queues.clock.now_ms + ttl_ms
            return self.queues.timers.add(slot.expires_at_ms, self.id, seq)
        slot.expires_at_ms = AT_ONCE
        if self.zero_ttl is None:
            self.zero_ttl = deque()
        self.zero_ttl.append(seq)
        self.wake()
        return 0

    cdef int expire(self, uint64_t seq) except -1:
        """Drop an entry if it is ready and has expired; returns whether it was dropped."""
        cdef Slot *slot = self.index.slot_of(seq)
        if slot == NULL or slot.state != READY or not slot.expires_at_ms:
            return 0
        if slot.expires_at_ms > self.queues.clock.now_ms and slot.expires_at_ms != AT_ONCE:
            return 0
        self.drop(seq, slot, "expired")
        return 1

    cdef int expire_zero_ttl(self) except -1:
        """Drop what was to be delivered at once (RabbitMQ, TTL) and was not.

        Not before the queue had time to deliver all that it could. A dead letter that is made here
        and has such a time to live itself waits until its queue has delivered.
        """
        cdef Py_ssize_t left = len(self.zero_ttl)
        if self.selection is not None and self.selection.searching:
            return 0    # the search goes on, and comes back here
        while left and not self.listed:
            left -= 1
            self.queues.expired += self.expire(self.zero_ttl.popleft())
            if spend(self.queues.clock, 1):
                self.wake()
        return 0

    cdef bint is_timer(self, uint64_t seq, uint64_t at_ms):
        """Whether a timer is still that of an entry."""
        cdef Slot *slot = self.index.slot_of(seq)
        return slot != NULL and slot.state != GONE and slot.expires_at_ms == at_ms

    cdef bint shorten(self, Timer *due):
        """Remove entries that are gone from a timer's start; returns whether any is left."""
        cdef uint32_t step
        while due.count:
            step = 1
            if self.index.block_of(due.seq) == NULL:
                step = min(due.count, <uint32_t> (BLOCK_SLOTS - due.seq % BLOCK_SLOTS))
            elif self.is_timer(due.seq, due.at_ms):
                return True
            due.seq += step
            due.count -= step
        return False

    cdef bint over_limit(self) noexcept:
        return (self.ready_count + self.held_count > self.length_limit
                or self.ready_bytes + self.held_bytes > self.bytes_limit)

    cdef bint is_crowded(self) noexcept:
        """Whether it is far over its limits, as letters wait to be made; what is held stays."""
        cdef uint64_t excess = 0, count = self.ready_count + self.held_count
        cdef uint64_t bytes_here = self.ready_bytes + self.held_bytes
        if self.overflow != DROP_HEAD or self.dead_letters is None or not self.ready_count:
            return False
        if count > self.length_limit:
            excess = min(count - self.length_limit, self.ready_count)
        return (excess > EXCESS_MAX or excess * (bytes_here // count) > EXCESS_BYTES_MAX
                or bytes_here > self.bytes_limit
                and min(bytes_here - self.bytes_limit, self.ready_bytes) > EXCESS_BYTES_MAX)

    cdef bint refuses(self, uint32_t body_len) except -1:
        """Whether a publish must be refused (overflow reject-publish), after consumers were served.

        A message over a limit is refused even if a consumer could take it, as in RabbitMQ.
        """
        if not self.is_full(body_len):
            return False
        self.queues.offer()
        self.deliver()
        return self.is_full(body_len)

    cdef bint admits(self, uint32_t body_len) except -1:
        """Whether there is room for one more message."""
        return not self.is_full(body_len)

    cdef bint is_full(self, uint32_t body_len) noexcept:
        """Whether one more message would exceed a limit that refuses it."""
        return (self.overflow != DROP_HEAD and self.limited
                and (self.ready_count + self.held_count >= self.length_limit
                     or self.ready_bytes + self.held_bytes + body_len > self.bytes_limit))

    cdef int drop_excess(self) except -1:
        """Drop messages from the head while a limit is exceeded (overflow drop-head), or some."""
        cdef Slot *slot
        cdef uint64_t seq, left = DROPS_A_VISIT
        self.excess_left = False
        while self.limited and self.overflow == DROP_HEAD and self.over_limit():
            if self.dead_letters is not None and self.queues.dead_lettering.put_off(self):
                break
            if not left:
                self.excess_left = True
                self.wake()
                break
            slot = self.pop_any(&seq)
            if slot != NULL:
                self.drop(seq, slot, "maxlen")
            elif not self.ready_count:
                break  # the rest is held
            left = 0 if slot == NULL or spend(self.queues.clock, 1) else left - 1
        return 0

    cdef uint64_t drop_some(self, uint64_t seq, uint64_t end) except? 0:
        """Settle what is ready or held from `seq` on and below `end`, until the slice is over;
        returns where to go on."""
        cdef Slot *slot
        cdef uint64_t left
        cdef uint32_t units
        while seq < end:
            slot = self.index.slot_of(seq)
            if slot == NULL:
                seq = self.index.there_from(seq, end)
                continue
            units = 1
            if slot.state == READY or slot.state == HELD:
                left = self.ready_bytes + self.held_bytes
                self.settle(seq, slot)
                left -= self.ready_bytes + self.held_bytes
                units += <uint32_t> (left >> UNIT_BYTES_BITS)
            seq += 1
            if spend(self.queues.clock, units):
                break
        if self.backlog is not None:
            self.backlog.wake()
        return seq

    def purging(self):
        """Drop every ready or held message, in steps; returns how many were dropped.

        What comes meanwhile stays. An older message that is returned meanwhile goes if the purge
        has not passed its place yet.
        """
        cdef uint64_t count = 0, before, at = 0, end = self.next_seq
        while at < end and not self.retired:
            before = self.ready_count + self.held_count
            at = self.drop_some(at, end)
            count += before - self.ready_count - self.held_count
            if at < end:
                yield
        if not self.retired:
            self.purged()
        return count

    cdef int purged(self) except -1:
        """The queue was purged: if nothing is ready, forget the order of what was."""
        if self.ready_count:
            return 0
        self.returned = SequenceHeap()
        if self.lanes is not None:
            self.lanes = [SequenceHeap() for _ in self.lanes]
        self.head_seq = self.next_seq
        if self.selection is not None:
            self.selection.purged()
        return 0

    def retire(self):
        """The queue was deleted, and is empty from now on; returns how many were ready or held.

        Its entries are dropped by a job. Settling one of its deliveries later does nothing.
        """
        cdef uint64_t count = self.ready_count + self.held_count
        self.retired = self.settled.retired = True
        self.uncount()
        self.totals.ready -= self.ready_count
        self.totals.unacked -= self.unacked_count
        self.totals.held -= self.held_count
        self.queues.held_count -= self.held_count
        self.ready_count = self.ready_bytes = self.unacked_count = 0
        self.held_count = self.held_bytes = 0
        self.purged()
        self.dead_letters = None
        if self.backlog is not None:
            self.backlog.retire()
            self.backlog = None
        self.given_up = None        # it knows the control plane's half, which knows this one
        self.queues.retire(self)
        return count

    # ------------------------------------------------------------- consumers

    cdef int attach(self, Taker taker) except -1:
        self.consumer_count += 1
        taker.home = self.takers
        if taker.filter is not None:
            self.selection.attach(taker)
        self.takers.attach(taker)
        self.wake()
        return 0

    cdef int detach(self, Taker taker) except -1:
        self.consumer_count -= 1
        self.takers.detach(taker)
        if taker.filter is not None and self.selection.detach(taker):
            self.selection = None
        taker.home = None
        self.wake()
        return 0

    cdef int resume(self, Taker taker) except -1:
        """A consumer may be able to take again."""
        taker.home.enter(taker)
        self.wake()
        return 0

    cdef int deliver(self) except -1:
        """Deliver ready entries to consumers in turn, until either runs out or the slice is over;
        then enforce the limits, and let the backlog use the room."""
        self.hand_out()
        self.drop_excess()
        if self.backlog is not None:
            self.backlog.wake()
        return 0

    cdef int deliver_offered(self) except -1:
        """Deliver to a consumer that waited for a limit of its channel.

        The queue's own limits are enforced later in the turn: others who waited may take first.
        """
        self.hand_out()
        if self.limited or self.backlog is not None:
            self.wake()
        return 0

    cdef int hand_out(self) except -1:
        """Deliver, whatever the limits of the queue are."""
        cdef Clock clock = self.queues.clock
        cdef Taker taker
        cdef Slot *slot
        cdef uint64_t seq, ready_bytes
        if self.excess_left:
            self.drop_excess()
        if self.excess_left or self.paused:
            return 0
        if self.selection is not None:
            return self.selection.deliver()
        while self.ready_count:
            taker = self.takers.turn()
            if taker is None:
                break
            ready_bytes = self.ready_bytes
            slot = self.pop(&seq)
            if slot == NULL:
                taker.level.head = taker    # it keeps its turn
                if clock.over():
                    self.wake()
                break
            taker.take(seq, slot)
            if spend(clock, <uint32_t> (1 + ((ready_bytes - self.ready_bytes) >> UNIT_BYTES_BITS))):
                self.wake()
                break
        return 0

    # ------------------------------------------------------------- restart

    cdef uint64_t came_ms(self, uint64_t position):
        """When a message came that replay has found: not later than now.

        The system's clock may have been ahead. What is to end or begin so long after it came would
        be kept for as long as the clock was wrong.
        """
        return min(self.logs.record(position).timestamp_ms, self.queues.clock.wall_ms)

    cdef int restore_entry(self, uint64_t seq, uint64_t position) except -1:
        """Restore an entry's priority and what is left of its time to live; time passed while
        the broker was down."""
        cdef Record *record = self.logs.record(position)
        cdef Props props
        cdef Slot *slot = self.index.slot_of(seq)
        cdef uint64_t ttl_ms = NO_LIMIT, over_ms
        if properties_in(record, &props):
            return 0
        if parse_ttl(&props, &ttl_ms) != TTL_SET:
            ttl_ms = NO_LIMIT
        ttl_ms = min(ttl_ms, self.ttl)
        if self.lanes is not None:
            slot.priority = min(props.priority, self.max_priority)
            (<SequenceHeap> self.lanes[slot.priority]).push(seq)
        if ttl_ms == NO_LIMIT:
            return 0
        over_ms = self.came_ms(position) + ttl_ms
        if over_ms > self.queues.clock.wall_ms:
            return self.set_ttl(seq, over_ms - self.queues.clock.wall_ms)
        # It expired while the broker was down: due in the past, so that the order is kept.
        self.queues.timed_count += 1
        slot.expires_at_ms = self.queues.clock.now_ms - min(
            self.queues.clock.now_ms - 1, self.queues.clock.wall_ms - over_ms)
        return self.queues.timers.push(slot.expires_at_ms, self.id, seq)
