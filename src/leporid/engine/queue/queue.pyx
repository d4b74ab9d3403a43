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

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc

from leporid.engine.queue.index cimport (
    BLOCK_SLOTS, DELIVERIES_MAX, GONE, HELD, READY, UNACKED, Block, Index, Slot,
)
from leporid.engine.log.log cimport DURABLE_BIT
from leporid.engine.queue.sequence_heap cimport SequenceHeap
from leporid.engine.plane cimport Plane
from leporid.engine.queue.takers cimport Taker, Takers
from leporid.engine.queue.filtered_consumers cimport FilteredConsumers
from leporid.engine.wire.wire cimport (
    TTL_SET, Props, Range, Record, Target, parse_ttl, walk_properties,
)

cdef extern from *:
    """
    #define NO_LIMIT UINT64_MAX
    """
    uint64_t NO_LIMIT

cdef enum:
    ORDER_SLACK = 1024              # of entries that are gone, before it is worth looking for them

OVERFLOW = {"drop-head": DROP_HEAD, "reject-publish": REJECT_PUBLISH,
            "reject-publish-dlx": REJECT_PUBLISH_DLX}
RETRIES = {"disabled": 0, "returned": HOLD_RETURNED, "failed": HOLD_FAILED,
           "all": HOLD_RETURNED | HOLD_FAILED}


cdef class Queue:
    """One queue's entries; made by `Plane.queue`."""

    def __cinit__(self, Plane plane, uint32_t queue_id, str name, bint durable):
        self.plane = plane
        self.id = queue_id
        self.name = name
        self.durable = durable
        self.index = Index(plane.blocks)
        self.takers = Takers()
        self.returned = SequenceHeap()
        self.length_limit = self.bytes_limit = self.ttl = self.timeout_ms = NO_LIMIT
        self.delivery_limit = DELIVERIES_MAX

    def __dealloc__(self):
        free(self.ranges)

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
            self.plane.timeouts.changed = True

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
        slot.tag_hash = 0
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

    cdef void wake(self):
        """Have the plane look whether somebody can take, or something must go."""
        if not self.listed and self.ready_count:
            self.listed = True
            self.plane.listed.append(self)

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
        if slot == NULL:
            return NULL
        slot.state = UNACKED
        self.ready_count -= 1
        self.unacked_count += 1
        self.ready_bytes -= self.plane.record(slot.position).body_len
        return slot

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
        if self.durable and slot.position >> 63:
            self.note_settled(slot.position, seq)
        return self.forget(seq, slot)

    cdef int forget(self, uint64_t seq, Slot *slot) except -1:
        cdef uint64_t position = slot.position
        if slot.state == UNACKED:
            self.unacked_count -= 1
        elif slot.state == HELD:
            self.let_go(slot)
        else:
            self.ready_count -= 1
            self.ready_bytes -= self.plane.record(position).body_len
        slot.state = GONE
        if slot.expires_at_ms:
            self.plane.timed_count -= 1
        self.plane.release(position)
        return self.index.leave(seq)

    cdef int drop(self, uint64_t seq, Slot *slot, str reason) except -1:
        """An entry leaves without having been acknowledged: to the dead letters, if there are."""
        if self.dead_letters is None:
            return self.settle(seq, slot)
        return self.plane.dead_lettering.dead_letter(self, seq, slot, reason)

    cdef int note_settled(self, uint64_t position, uint64_t seq) except -1:
        cdef uint32_t segment = <uint32_t> (position >> 32) & ~<uint32_t> DURABLE_BIT
        cdef Range *last
        cdef void *grown
        self.plane.noted += 1
        self.plane.noted_by = max(self.plane.noted_by, self.plane.generation)
        if self.range_count:
            last = &self.ranges[self.range_count - 1]
            if last.segment == segment and last.first + last.count == seq:
                last.count += 1
                return 0
        if self.range_count == self.range_capacity:
            self.range_capacity = max(4, self.range_capacity * 2)
            grown = realloc(self.ranges, self.range_capacity * sizeof(Range))
            if grown == NULL:
                raise MemoryError("no memory to note settled messages")
            self.ranges = <Range *> grown
        last = &self.ranges[self.range_count]
        last.segment, last.first, last.count = segment, seq, 1
        self.range_count += 1
        if not self.settling:
            self.settling = True
            self.plane.settling.append(self)
        return 0

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
        self.plane.requeued += 1
        if self.retries & (HOLD_FAILED if failed else HOLD_RETURNED):
            return self.plane.retries.hold(self, seq, slot)
        self.unacked_count -= 1
        return self.come_back(seq, slot)

    cdef int let_go(self, Slot *slot) except -1:
        """An entry is held no more."""
        self.held_count -= 1
        self.held_bytes -= self.plane.record(slot.position).body_len
        self.plane.retries.count -= 1
        return 0

    cdef int come_back(self, uint64_t seq, Slot *slot) except -1:
        """An entry that is counted nowhere is ready, in its place."""
        self.stand(seq, slot)
        slot.state = READY
        self.ready_count += 1
        self.ready_bytes += self.plane.record(slot.position).body_len
        if self.selection is not None:
            self.selection.came_back(seq)
        if slot.expires_at_ms:
            # Its timer rang meanwhile, or will make_due.
            if slot.expires_at_ms <= self.plane.now_ms:
                self.plane.timers.push(slot.expires_at_ms, self.id, seq)
        self.drop_excess()  # before anybody takes it again, as in RabbitMQ
        self.wake()
        return 0

    cdef int set_ttl(self, uint64_t seq, uint64_t ttl_ms) except -1:
        """The entry expires that much later; 0: unless it is delivered in this turn."""
        cdef Slot *slot = &self.index.block_of(seq).slots[seq % BLOCK_SLOTS]
        self.plane.timed_count += 1
        slot.expires_at_ms = self.plane.now_ms + ttl_ms
        if ttl_ms:
            self.plane.timers.add(slot.expires_at_ms, self.id, seq)
        else:
            self.plane.zero_ttl.append((self, seq))
        return 0

    cdef int restore_entry(self, uint64_t seq, uint64_t position) except -1:
        """What is left of its time to live, and its priority; wall time counted while nobody
        ran."""
        cdef Record *record = self.plane.record(position)
        cdef const uint8_t *properties = (<const uint8_t *> record + sizeof(Record)
                                          + record.targets * sizeof(Target) + record.names_len)
        cdef Props props
        cdef Slot *slot = self.index.slot_of(seq)
        cdef uint64_t ttl_ms = NO_LIMIT, over_ms
        if walk_properties(properties, record.properties_len, &props):
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
        if over_ms > self.plane.wall_ms:
            return self.set_ttl(seq, over_ms - self.plane.wall_ms)
        # It was over while nobody ran: due in the past, so that the first turn keeps the order.
        self.plane.timed_count += 1
        slot.expires_at_ms = self.plane.now_ms - min(self.plane.now_ms - 1,
                                                     self.plane.wall_ms - over_ms)
        return self.plane.timers.push(slot.expires_at_ms, self.id, seq)

    cdef int expire(self, uint64_t seq) except -1:
        """Drop an entry if it is ready and its time is over; returns whether it was dropped."""
        cdef Slot *slot = self.index.slot_of(seq)
        if slot == NULL or slot.state != READY or not slot.expires_at_ms:
            return 0
        if slot.expires_at_ms > self.plane.now_ms:
            return 0
        self.drop(seq, slot, "expired")
        return 1

    cdef bint is_timer(self, uint64_t seq, uint64_t at_ms):
        """Whether a timer of the plane's still means something."""
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
        self.plane.offer()
        self.deliver()
        return self.is_full(body_len)

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
            if self.dead_letters is not None and self.plane.dead_lettering.put_off(self):
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
        self.plane.queues.pop(self.id, None)
        self.plane.counters.pop(self.id, None)
        return count

    # ------------------------------------------------------------- consumers

    cdef int attach(self, Taker taker) except -1:
        self.consumer_count += 1
        taker.home = self.takers
        if taker.filter is not None:
            if self.selection is None:
                self.selection = FilteredConsumers(self)
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
