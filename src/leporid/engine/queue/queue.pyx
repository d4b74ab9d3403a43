"""A queue: entries in order of arrival, their limits, and the consumers they go to.

Responsible for the order of messages and for what leaves: delivered, settled, expired, dropped. It
does not know frames, channels, exchanges or files; an entry refers to a record by its position in
a log.

Every entry has a sequence number, dense within the queue, that it keeps until it is settled; a
requeued entry therefore goes back to its original place.

Invariants: without priorities, READY entries before `head_seq` stand in `returned`, and without
filters those from there on were never delivered; with priorities, every READY entry stands in the
lane of its priority. ready_count and unacked_count equal the number of slots in that state.
"""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from leporid.engine.log.facts cimport SettledRanges, append_ranges
from leporid.engine.log.log cimport KIND_DELIVERED, is_durable, segment_number
from leporid.engine.log.logs cimport Logs
from leporid.engine.log.producers cimport Producer
from leporid.engine.queue.index cimport (
    BLOCK_SLOTS, DELIVERIES_MAX, GONE, HELD, MAYBE_DELIVERED, READY, UNACKED, Block, Index, Slot,
)
from leporid.engine.queue.queues cimport Queues
from leporid.engine.queue.sequence_heap cimport SequenceHeap
from leporid.engine.queue.takers cimport Taker, Takers
from leporid.engine.wire.codec cimport TTL_SET, Props, parse_ttl
from leporid.engine.wire.record cimport (
    NO_LIMIT, RANGE_COUNT_BITS, RANGE_COUNT_MAX, Message, Range, Record, properties_in,
)

cdef enum:
    ORDER_SLACK = 1024              # of entries that are gone, before it is worth looking for them

OVERFLOW = {"drop-head": DROP_HEAD, "reject-publish": REJECT_PUBLISH,
            "reject-publish-dlx": REJECT_PUBLISH_DLX}
RETRIES = {"disabled": 0, "returned": HOLD_RETURNED, "failed": HOLD_FAILED,
           "all": HOLD_RETURNED | HOLD_FAILED}


cdef inline void take_ready(Queue queue, Slot *slot):
    slot.state = UNACKED
    queue.ready_count -= 1
    queue.unacked_count += 1
    queue.ready_bytes -= queue.logs.record(slot.position).body_len


cdef class Queue:
    """One queue's entries; made by `Engine.queue`."""

    def __cinit__(self, Queues queues, uint32_t queue_id, str name, bint durable):
        self.queues = queues
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
        """Bounds on ready messages and on their body bytes, and what happens beyond them."""
        self.length_limit = NO_LIMIT if max_length is None else max_length
        self.bytes_limit = NO_LIMIT if max_bytes is None else max_bytes
        self.overflow = OVERFLOW[overflow]
        self.limited = max_length is not None or max_bytes is not None
        self.wake()
        if self.backlog is not None:
            self.backlog.wake()

    @property
    def backlog_count(self):
        """Messages of the broker's own that wait for room."""
        return 0 if self.backlog is None else self.backlog.ready_count

    def set_message_ttl(self, ttl_ms):
        """How long a message stays at most, from when it enters; None: for ever."""
        self.ttl = NO_LIMIT if ttl_ms is None else ttl_ms

    def set_delivery_limit(self, limit, bint counted):
        """How often a message may come back from consumers before it is dropped; None: always.

        `counted` says whether deliveries tell how often that was (header x-delivery-count).
        """
        self.delivery_limit = DELIVERIES_MAX if limit is None else min(limit, DELIVERIES_MAX)
        self.counted = counted

    def set_retries(self, str kind not None, uint64_t min_ms, uint64_t max_ms):
        """Hold what comes back `min_ms` for each time that it did, `max_ms` at most.

        `kind` says what: "failed" (rejected, or its channel ended), "returned" (the rest), "all".
        """
        self.retries = RETRIES[kind]
        self.retry_min_ms, self.retry_max_ms = min_ms, max_ms

    def set_consumer_timeout(self, timeout_ms, bint requeues):
        """How long a delivery may be unsettled; 0: for ever, None: as long as anywhere.

        `requeues` says that what is overdue goes back alone, and its channel lives.
        """
        self.timeout_ms = NO_LIMIT if timeout_ms is None else timeout_ms
        self.timeout_requeues = requeues
        if self.consumer_count or self.unacked_count:
            self.queues.timeouts_changed = True

    def set_priorities(self, int highest):
        """Messages leave by priority first, 0 to `highest`; only while the queue is empty."""
        if self.next_seq != self.head_seq or self.ready_count or self.unacked_count:
            raise ValueError("priorities are set before the first message")
        self.max_priority = highest
        self.lanes = [SequenceHeap() for _ in range(highest + 1)]

    def set_single_active_consumer(self, bint single):
        """One consumer at a time gets messages; the next takes over when it is gone."""
        self.takers.single = single

    # ------------------------------------------------------------- entries

    cdef Slot *slot_of(self, uint64_t seq):
        return self.index.slot_of(seq)

    cdef int push(self, uint64_t position, uint32_t body_len, uint8_t priority) except -1:
        """Append an entry; the caller counts it on the record's segment."""
        cdef uint64_t seq = self.next_seq
        cdef Slot *slot = self.index.append(seq)
        self.next_seq += 1
        slot.position = position
        slot.expires_at_ms = 0
        slot.deliveries = 0
        slot.state = READY
        slot.priority = 0
        if self.lanes is not None:
            slot.priority = min(priority, self.max_priority)
            self.stand(seq, slot)
            if self.selection is not None:
                self.selection.ends[slot.priority] = seq + 1
        self.ready_count += 1
        self.ready_bytes += body_len
        self.published += 1
        if not self.listed and (self.consumer_count or self.limited):
            self.wake()
        return 0

    cdef int append_message(self, const Message *message, const Props *props, uint8_t flags,
                            Producer producer, uint64_t sequence) except -1:
        """Append a message to a queue that keeps a record of its own (`own_record`)."""
        raise NotImplementedError

    cdef void wake(self):
        """Have the engine look whether somebody can take, or something must go."""
        if not self.listed and self.ready_count:
            self.listed = True
            self.queues.ready_queues.append(self)

    cdef Slot *pop(self, uint64_t *seq) except? NULL:
        """The next ready entry, now UNACKED; NULL when there is none."""
        cdef Slot *slot = NULL
        cdef SequenceHeap lane
        cdef int priority
        if not self.ready_count:
            return NULL
        if self.lanes is not None:
            priority = self.max_priority
            while priority >= 0 and slot == NULL:
                lane = <SequenceHeap> self.lanes[priority]
                slot = self.first_of(lane, seq)
                priority -= 1
        else:
            slot = self.first_of(self.returned, seq)
            while slot == NULL and self.head_seq < self.next_seq:
                slot = self.index.slot_of(self.head_seq)
                if slot == NULL:
                    self.head_seq = (self.head_seq // BLOCK_SLOTS + 1) * BLOCK_SLOTS
                    continue
                seq[0] = self.head_seq
                self.head_seq += 1
                if slot.state != READY:
                    slot = NULL
        if slot != NULL:
            take_ready(self, slot)
        return slot

    cdef int take(self, Slot *slot) except -1:
        """A ready entry is somebody's, until it is settled or comes back."""
        take_ready(self, slot)
        return 0

    cdef Slot *first_of(self, SequenceHeap order, uint64_t *seq):
        cdef Slot *slot
        while order.count:
            seq[0] = order.pop()
            slot = self.index.slot_of(seq[0])
            if slot != NULL and slot.state == READY:
                return slot
        return NULL

    cdef int settle(self, uint64_t seq, Slot *slot) except -1:
        """An entry is done with: forget it, and say so in the log if it was durable."""
        if self.durable and is_durable(slot.position):
            self.settled.note(slot.position, seq)
        return self.forget(seq, slot)

    cdef int forget(self, uint64_t seq, Slot *slot) except -1:
        cdef uint64_t position = slot.position
        if slot.state == UNACKED:
            self.unacked_count -= 1
        elif slot.state == HELD:
            self.let_go(slot)
        else:
            self.ready_count -= 1
            self.ready_bytes -= self.logs.record(position).body_len
        slot.state = GONE
        if slot.expires_at_ms:
            self.queues.timed_count -= 1
        self.logs.release(position)
        return self.index.leave(seq)

    cdef int drop(self, uint64_t seq, Slot *slot, str reason) except -1:
        """An entry leaves without having been acknowledged: to the dead letters, if there are."""
        if self.dead_letters is None:
            return self.settle(seq, slot)
        return self.queues.dead_lettering.dead_letter(self, seq, slot, reason)

    cdef int stand(self, uint64_t seq, Slot *slot) except -1:
        """A ready entry stands in the order of its priority, or of those that came back."""
        cdef SequenceHeap order = self.returned
        if self.lanes is not None:
            order = <SequenceHeap> self.lanes[slot.priority]
        elif seq >= self.head_seq:
            return 0  # a filter chose it; it is found where it is
        if order.count > ORDER_SLACK + 2 * self.ready_count:
            self.prune(order)
        return order.push(seq)

    cdef int prune(self, SequenceHeap order) except -1:
        """Forget numbers whose entries are gone, or that stand there twice; called when most do."""
        cdef size_t at, kept = 0
        cdef Slot *slot
        for at in range(order.count):
            slot = self.index.slot_of(order.heap[at])
            if slot != NULL and slot.state == READY:
                order.heap[kept] = order.heap[at]
                kept += 1
        order.count = kept
        order.sort()
        return 0

    cdef int requeue(self, uint64_t seq, Slot *slot, bint failed) except -1:
        """An unacked entry comes back, to where it was; too often, and it is a dead letter.

        `failed` tells a consumer that failed from one that did not want it now.
        """
        if slot.deliveries & DELIVERIES_MAX > self.delivery_limit:
            return self.drop(seq, slot, "delivery_limit")
        self.queues.requeued += 1
        if self.retries & (HOLD_FAILED if failed else HOLD_RETURNED):
            return self.hold(seq, slot)
        self.unacked_count -= 1
        return self.come_back(seq, slot)

    cdef int hold(self, uint64_t seq, Slot *slot) except -1:
        """An unacked entry is nobody's for a while: the longer, the more often it came back.

        It is not delivered and does not expire before it is ready again, but counts against the
        limits (RabbitMQ, delayed retries).
        """
        cdef uint64_t times = max(1, slot.deliveries & DELIVERIES_MAX)
        slot.state = HELD
        self.unacked_count -= 1
        self.held_count += 1
        self.held_bytes += self.logs.record(slot.position).body_len
        self.queues.hold(self.queues.clock.now_ms + min(self.retry_min_ms * times,
                                                        self.retry_max_ms), self.id, seq)
        return self.drop_excess()

    cdef int let_go(self, Slot *slot) except -1:
        """An entry is held no more."""
        self.held_count -= 1
        self.held_bytes -= self.logs.record(slot.position).body_len
        self.queues.held_count -= 1
        return 0

    cdef int come_back(self, uint64_t seq, Slot *slot) except -1:
        """An entry that is counted nowhere is ready, in its place."""
        self.stand(seq, slot)
        slot.state = READY
        self.ready_count += 1
        self.ready_bytes += self.logs.record(slot.position).body_len
        if self.selection is not None:
            self.selection.came_back(seq)
        if slot.expires_at_ms:
            # Its timer rang meanwhile, or will ring.
            if slot.expires_at_ms <= self.queues.clock.now_ms:
                self.queues.timers.push(slot.expires_at_ms, self.id, seq)
        self.drop_excess()  # before anybody takes it again, as in RabbitMQ
        self.wake()
        return 0

    cdef int set_ttl(self, uint64_t seq, uint64_t ttl_ms) except -1:
        """The entry expires that much later; 0: unless it is delivered in this turn."""
        cdef Slot *slot = &self.index.block_of(seq).slots[seq % BLOCK_SLOTS]
        self.queues.timed_count += 1
        slot.expires_at_ms = self.queues.clock.now_ms + ttl_ms
        if ttl_ms:
            self.queues.timers.add(slot.expires_at_ms, self.id, seq)
        else:
            self.queues.zero_ttl.append((self, seq))
        return 0

    cdef int expire(self, uint64_t seq) except -1:
        """Drop an entry if it is ready and its time is over; returns whether it was dropped."""
        cdef Slot *slot = self.index.slot_of(seq)
        if slot == NULL or slot.state != READY or not slot.expires_at_ms:
            return 0
        if slot.expires_at_ms > self.queues.clock.now_ms:
            return 0
        self.drop(seq, slot, "expired")
        return 1

    cdef bint is_timer(self, uint64_t seq, uint64_t at_ms):
        """Whether a timer of the queues' still means something."""
        cdef Slot *slot = self.index.slot_of(seq)
        return slot != NULL and slot.state != GONE and slot.expires_at_ms == at_ms

    cdef bint shorten(self, Timer *due):
        """Leave out entries that are gone at a timer's beginning; returns whether any is left."""
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

    cdef bint over_limit(self):
        return (self.ready_count + self.held_count > self.length_limit
                or self.ready_bytes + self.held_bytes > self.bytes_limit)

    cdef bint refuses(self, uint32_t body_len) except -1:
        """Whether a publish must be refused (overflow reject-publish), as it would go over a limit.

        Consumers do not count: RabbitMQ refuses what does not fit before it looks for one.
        """
        if not self.is_full(body_len):
            return False
        self.queues.offer()
        self.deliver()
        return self.is_full(body_len)

    cdef bint admits(self, uint32_t body_len) except -1:
        """Whether a message more has room."""
        return not self.is_full(body_len)

    cdef bint is_full(self, uint32_t body_len):
        """Whether a message more would be over a limit, and is refused for it."""
        return (self.overflow != DROP_HEAD and self.limited
                and (self.ready_count + self.held_count >= self.length_limit
                     or self.ready_bytes + self.held_bytes + body_len > self.bytes_limit))

    cdef int drop_excess(self) except -1:
        """Drop from the head what is over the limit (overflow drop-head)."""
        cdef Slot *slot
        cdef uint64_t seq
        while self.limited and self.overflow == DROP_HEAD and self.over_limit():
            if self.dead_letters is not None and self.queues.dead_lettering.put_off(self):
                break
            slot = self.pop(&seq)
            if slot == NULL:
                break  # all that is left is held
            self.drop(seq, slot, "maxlen")
        return 0

    cdef int drop_all(self, uint8_t state) except -1:
        """Settle every entry that is in that state."""
        cdef Block *block
        cdef uint64_t number = 0
        cdef uint32_t at
        block = self.index.block_from(number)
        while block != NULL:
            number = block.number
            for at in range(BLOCK_SLOTS):
                if block.slots[at].state == state:
                    self.settle(number * BLOCK_SLOTS + at, &block.slots[at])
                    if self.index.block_from(number) != block:
                        break  # that was its last entry
            number += 1
            block = self.index.block_from(number)
        return 0

    def purge(self):
        """Drop every message that is ready or held; returns how many there were."""
        cdef uint64_t count = self.ready_count + self.held_count
        self.drop_all(READY)
        if self.held_count:
            self.drop_all(HELD)
        self.returned = SequenceHeap()
        if self.lanes is not None:
            self.lanes = [SequenceHeap() for _ in self.lanes]
        self.head_seq = self.next_seq
        if self.selection is not None:
            self.selection.purged()
        if self.backlog is not None:
            self.backlog.wake()
        return count

    def retire(self):
        """The queue was deleted: drop every entry; returns how many were ready.

        Unsettled deliveries are forgotten: settling one later does nothing.
        """
        cdef uint64_t count = self.purge()
        self.drop_all(UNACKED)
        self.retired = True
        self.dead_letters = None
        if self.backlog is not None:
            self.backlog.retire()
            self.backlog = None
        self.settled.retired = True
        self.queues.by_id.pop(self.id, None)
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
        """The taker may be able to take again."""
        taker.home.enter(taker)
        self.wake()
        return 0

    cdef int deliver(self) except -1:
        """Give ready entries to takers, one each in turn, until either runs out; then drop what
        is over the limit."""
        cdef Taker taker
        cdef Slot *slot
        cdef uint64_t seq
        if self.selection is not None:
            self.selection.deliver()
            return self.delivered_some()
        while self.ready_count:
            taker = self.takers.turn()
            if taker is None:
                break
            slot = self.pop(&seq)
            self.delivered += 1
            taker.take(seq, slot)
        return self.delivered_some()

    cdef int delivered_some(self) except -1:
        """After deliveries: what is left may be over a limit, or leave room for what waits."""
        self.drop_excess()
        if self.backlog is not None:
            self.backlog.wake()
        return 0

    # ------------------------------------------------------------- restart

    cdef int restore(self, uint64_t seq, uint64_t position) except -1:
        """The log has a record for an entry; one that comes twice is the same entry."""
        cdef Slot *slot = self.index.insert(seq)
        if slot.state == GONE:
            self.index.enter(seq)
        else:
            # The newer record is a copy: it must not go before what it was copied from.
            self.logs.durable.find(segment_number(position)).pins.add(
                segment_number(slot.position))
            self.logs.release(slot.position)
        slot.position = position
        slot.state = READY
        self.logs.durable.hold(position, 1)
        self.next_seq = max(self.next_seq, seq + 1)
        return 0

    cdef int restore_settled(self, const Range *which) except -1:
        """The log says that these entries have ended."""
        cdef uint64_t seq
        cdef Slot *slot
        self.next_seq = max(self.next_seq, which.first + which.count)
        for seq in range(which.first, which.first + which.count):
            slot = self.index.slot_of(seq)
            if slot == NULL or slot.state == GONE:
                continue
            if segment_number(slot.position) != which.segment:
                continue  # the number's entry is a newer one, or was copied forward since
            slot.state = GONE
            self.logs.release(slot.position)
            self.index.leave(seq)
        return 0

    cdef int restore_delivered(self, const Range *which) except -1:
        """How often these were delivered, as far as it is known: never less than before."""
        cdef uint64_t seq
        cdef Slot *slot
        cdef uint16_t deliveries = max(1, which.count >> RANGE_COUNT_BITS)
        for seq in range(which.first, which.first + (which.count & RANGE_COUNT_MAX)):
            slot = self.index.slot_of(seq)
            if slot != NULL and slot.state != GONE:
                slot.deliveries = max(deliveries, slot.deliveries)
        return 0

    cdef int end_restore(self, bint redelivered) except -1:
        """The log was read: everything is ready, as if the queue had never been away."""
        cdef Block *block = self.index.block_from(0)
        cdef uint32_t at
        self.head_seq = block.number * BLOCK_SLOTS if block != NULL else self.next_seq
        while block != NULL:
            for at in range(BLOCK_SLOTS):
                if block.slots[at].state == READY:
                    self.ready_count += 1
                    self.ready_bytes += self.logs.record(block.slots[at].position).body_len
                    if redelivered:
                        block.slots[at].deliveries |= MAYBE_DELIVERED
                    self.restore_entry(block.number * BLOCK_SLOTS + at, block.slots[at].position)
            block = self.index.block_from(block.number + 1)
        self.index.end_restore(self.next_seq)
        self.wake()
        return 0

    cdef int restore_entry(self, uint64_t seq, uint64_t position) except -1:
        """What is left of its time to live, and its priority; wall time counted while nobody
        ran."""
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
        over_ms = record.timestamp_ms + ttl_ms
        if over_ms > self.queues.clock.wall_ms:
            return self.set_ttl(seq, over_ms - self.queues.clock.wall_ms)
        # It was over while nobody ran: due in the past, so that the first turn keeps the order.
        self.queues.timed_count += 1
        slot.expires_at_ms = self.queues.clock.now_ms - min(self.queues.clock.now_ms - 1,
                                                     self.queues.clock.wall_ms - over_ms)
        return self.queues.timers.push(slot.expires_at_ms, self.id, seq)

    cdef int append_delivered(self) except -1:
        """Have the log say what was delivered and is not settled, for the next start."""
        cdef Range[BLOCK_SLOTS] ranges
        cdef Block *block = self.index.block_from(0) if self.durable else NULL
        cdef uint32_t count
        while block != NULL:
            count = delivered_ranges(block, ranges)
            if count:
                append_ranges(self.logs, KIND_DELIVERED, 0, self.id, ranges, count)
            block = self.index.block_from(block.number + 1)
        return 0


cdef uint32_t delivered_ranges(const Block *block, Range *ranges) noexcept nogil:
    """What was delivered of a block, as DELIVERED has it: neighbours that are alike in one range.

    A range's `count` has how often in its upper half.
    """
    cdef const Slot *slot
    cdef uint64_t first = block.number * BLOCK_SLOTS
    cdef uint32_t count = 0, at, segment, alike
    for at in range(BLOCK_SLOTS):
        slot = &block.slots[at]
        if slot.state == GONE or not slot.deliveries or not is_durable(slot.position):
            continue
        segment = segment_number(slot.position)
        alike = ranges[count - 1].count & RANGE_COUNT_MAX if count else 0
        if (alike and ranges[count - 1].segment == segment
                and ranges[count - 1].first + alike == first + at
                and ranges[count - 1].count >> RANGE_COUNT_BITS == slot.deliveries):
            ranges[count - 1].count += 1
            continue
        ranges[count].segment, ranges[count].first = segment, first + at
        ranges[count].count = <uint32_t> slot.deliveries << RANGE_COUNT_BITS | 1
        count += 1
    return count
