"""What all queues share: the logs of their messages, timers, and the list of ready queues.

Responsible for the order in which queues deliver, expire and release held entries, for storing a
message in a given list of queues, and for what the logs ask about entries (`Entries`). It must not
know where a message came from, nor who takes it. Invariants: a queue that may have something to
deliver is in `ready_queues`; the record of a message names every queue that has an entry for it,
with the entry's sequence number.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from leporid.engine.bounds.clock cimport spend
from leporid.engine.bounds.jobs cimport Jobs
from leporid.engine.log.log cimport (
    BACKLOG_BIT, FLAG_PRODUCED, TRANSIENT_IDS, Log, RecordMemory, begin_message, finish_message,
    name_producer,
)
from leporid.engine.log.logs cimport Logs
from leporid.engine.log.producers cimport Producer
from leporid.engine.queue.dead_lettering cimport DeadLettering
from leporid.engine.queue.counters cimport DeliveryCounts, Totals
from leporid.engine.queue.index cimport BLOCK_SLOTS, GONE, HELD, BlockPool, Index, Slot
from leporid.engine.queue.queue cimport Queue
from leporid.engine.queue.restore cimport (
    append_deliveries, count_restored, end_restore, restore_record, settle_restored,
)
from leporid.engine.queue.takers cimport SharedCredit
from leporid.engine.queue.timers cimport Timer, Timers
from leporid.engine.wire.codec cimport TTL_SET, Props, parse_ttl
from leporid.engine.wire.record cimport NO_LIMIT, Message, Range, Record, Target, targets_of

from collections import deque

cdef enum:
    ENTRIES_A_UNIT = 8              # of the clock, beside the message


cdef class Queues(Entries):
    """All queues by id, hidden ones too."""

    def __cinit__(self, Logs logs not None, Jobs jobs not None):
        self.logs = logs
        self.jobs = jobs
        self.clock = logs.clock
        self.by_id = ShardedDict()
        self.retired = {}
        self.next_transient_id = TRANSIENT_IDS
        self.blocks = BlockPool()
        self.uncounted = Totals()
        self.counts = {}
        self.dead_lettering = DeadLettering(self)
        self.ready_queues = deque()
        self.offers = deque()
        self.due_queues = deque()
        self.timers = Timers()
        self.held = Timers()
        logs.entries = self

    def __repr__(self):
        return f"<Queues {len(self.by_id)}>"

    cdef uint32_t id_of(self, uint32_t queue_id):
        """The id of a new queue: its definition's, or one that a restart forgets."""
        if queue_id:
            return queue_id
        queue_id = self.next_transient_id
        self.next_transient_id = max(TRANSIENT_IDS, queue_id + 1)
        return queue_id

    cdef Queue add(self, Queue queue):
        self.by_id[queue.id] = queue
        return queue

    cdef Queue backlog_of(self, Queue queue):
        """The backlog of a queue; made with its first message."""
        if queue.backlog is None:
            queue.backlog = self.add(self.make_backlog(queue))
            queue.backlog.count_in(queue.totals.backlogs or self.uncounted)
        return queue.backlog

    # ------------------------------------------------------------- counters

    cdef DeliveryCounts counts_of(self, str kind, str vhost):
        """The counters of all queues of a type in a virtual host."""
        cdef dict by_type = self.counts.setdefault(vhost, {})
        cdef DeliveryCounts counts = by_type.get(kind)
        if counts is None:
            counts = by_type[kind] = DeliveryCounts()
        return counts

    @property
    def counts_by_type(self):
        cdef DeliveryCounts counts, total
        cdef dict found = {}
        for by_type in self.counts.values():
            for kind, counts in by_type.items():
                total = found.get(kind)
                if total is None:
                    total = found[kind] = DeliveryCounts()
                total.add(counts)
        return found

    def counts_in(self, str vhost not None):
        """The deliveries of all queues of a virtual host, as of now."""
        cdef DeliveryCounts counts, total = DeliveryCounts()
        for counts in self.counts.get(vhost, {}).values():
            total.add(counts)
        return total

    def forget_counts(self, str vhost not None):
        """A virtual host is gone. Its deliveries stay in the totals, which only grow."""
        cdef DeliveryCounts counts
        for kind, counts in self.counts.pop(vhost, {}).items():
            self.counts_of(kind, None).add(counts)

    cdef DeliveryCounts all_counts(self):
        cdef DeliveryCounts counts, total = DeliveryCounts()
        for by_type in self.counts.values():
            for counts in by_type.values():
                total.add(counts)
        return total

    @property
    def delivered(self):
        cdef DeliveryCounts counts = self.all_counts()
        return counts.delivered + counts.delivered_no_ack

    @property
    def got(self):
        cdef DeliveryCounts counts = self.all_counts()
        return counts.got + counts.got_no_ack

    @property
    def acked(self):
        return self.all_counts().acked

    @property
    def redelivered(self):
        return self.all_counts().redelivered

    # ------------------------------------------------------------- deleted queues

    cdef int retire(self, Queue queue) except -1:
        """A queue was deleted: drop its entries, as a job. Nobody finds one of them any more but
        the logs, whose records they refer to."""
        if self.by_id.pop(queue.id) is None:
            return 0
        index, queue.index = queue.index, Index(self.blocks)
        self.retired[queue.id] = index
        self.jobs.start(_dropping(self, queue.id, index, queue.next_seq, not queue.own_timers))
        return 0

    cdef uint64_t drop_retired(self, Index index, uint64_t seq, uint64_t end,
                               bint timed) except? 0:
        """Drop entries of a deleted queue from `seq` on, until the slice is over; returns where to
        go on."""
        cdef Slot *slot
        while seq < end:
            slot = index.slot_of(seq)
            if slot == NULL:
                seq = index.there_from(seq, end)
                continue
            if slot.state != GONE:
                slot.state = GONE
                self.timed_count -= timed and slot.expires_at_ms != 0
                self.logs.release(slot.position, slot.share)
                index.leave(seq)
            seq += 1
            if spend(self.clock, 1):
                break
        return seq

    # ------------------------------------------------------------- storing

    cdef uint64_t append(self, list queues, bint durable, const Message *message,
                         const Props *props, uint8_t flags, Producer producer,
                         uint64_t sequence) except? 0:
        """Append one record, and an entry to each queue, with its time to live.

        Returns the ready messages of the longest of those queues that have consumers.
        """
        cdef Log log = self.logs.durable if durable else self.logs.transient
        cdef size_t count = len(queues), places = count, at
        cdef Record *record
        cdef Target *target
        cdef Queue queue
        cdef uint64_t position, ttl_ms, deepest = 0
        cdef uint32_t share
        if durable and producer is not None:
            places += 1
        if message.memory != NULL:
            log = (<RecordMemory> message.memory).log_for(log)
            durable = log.durable
        record = begin_message(log, message, places, self.clock.wall_ms)
        target = targets_of(record)
        for at in range(count):
            queue = <Queue> queues[at]
            target[at].queue = queue.id
            target[at].seq = queue.next_seq
        if producer is not None:
            producer.next = sequence + 1
            if durable:
                flags |= FLAG_PRODUCED
                name_producer(record, count, producer.number, sequence)
        if durable:
            record.flags = flags
            self.logs.dirty = True
        share = record.size
        if count > 1:
            share //= <uint32_t> count
        position = finish_message(log, record, message)
        log.hold(position, <uint32_t> count, share)
        for at in range(count):
            queue = <Queue> queues[at]
            queue.push(position, <uint32_t> message.body_len, share, props.priority)
            if props.expiration != NULL or queue.ttl != NO_LIMIT:
                if parse_ttl(props, &ttl_ms) != TTL_SET:
                    ttl_ms = NO_LIMIT
                ttl_ms = min(ttl_ms, queue.ttl)
                if ttl_ms != NO_LIMIT:
                    queue.set_ttl(queue.next_seq - 1, ttl_ms)
            if queue.ready_count > deepest and queue.consumer_count:
                deepest = queue.ready_count
        self.clock.units += <uint32_t> (count // ENTRIES_A_UNIT)
        return deepest

    # ------------------------------------------------------------- turns

    cdef int turn(self) except -1:
        """Do what is due by time; once a turn."""
        self.ring()
        if self.timers.is_stale(self.timed_count) and self.timers.prune(
                is_timed, self, self.clock):
            self.late = True
        if self.held.is_stale(self.held_count) and self.held.prune(is_held, self, self.clock):
            self.late = True
        return 0

    cdef int work(self) except -1:
        """Do what is due, and let ready queues deliver: as much as the slice at hand allows."""
        self.ring()
        self.offer()
        return self.serve()

    cdef int serve(self) except -1:
        """Let ready queues deliver.

        A dropped entry may become a dead letter in another queue, which then delivers, too.
        """
        cdef Queue queue
        cdef Py_ssize_t left
        while True:
            left = len(self.ready_queues)
            while left:
                left -= 1
                queue = <Queue> self.ready_queues.popleft()
                queue.listed = False
                queue.deliver()
                if queue.zero_ttl is not None:
                    queue.expire_zero_ttl()
                if spend(self.clock, 1):
                    return 0
            # Before the next queues, so that consumers of lower priority do not take the messages.
            if self.offer() or not self.ready_queues:
                return 0

    cdef bint offer(self) except -1:
        """Let consumers take that waited for a credit which has room now; returns whether the slice
        is over."""
        while self.offers:
            (<SharedCredit> self.offers.popleft()).offer()
            if spend(self.clock, 1):
                return True
        return False

    cdef int ring(self) except -1:
        """Release held entries and drop expired ones."""
        self.timers.close()
        self.late = False
        if self.held.count:
            self.late = self.release_held()
        if self.timers.count and self.expire():
            self.late = True
        return 0

    cdef bint expire(self) except -1:
        """Drop entries whose time to live is over, wherever they are in their queue; returns
        whether there was no time for all of them."""
        cdef Timer timer
        cdef Queue queue
        cdef uint32_t step
        while self.timers.count and self.timers.heap[0].at_ms <= self.clock.now_ms:
            timer = self.timers.pop()
            queue = self.by_id.get(timer.queue)
            while queue is not None and timer.count:
                step = 1
                if timer.count > 1 and queue.index.block_of(timer.seq) == NULL:
                    step = min(timer.count, <uint32_t> (BLOCK_SLOTS - timer.seq % BLOCK_SLOTS))
                else:
                    self.expired += queue.expire(timer.seq)
                timer.seq += step
                timer.count -= step
                if spend(self.clock, 1):
                    if timer.count:
                        self.timers.insert(timer)
                    return True
        return False

    cdef int hold(self, uint64_t at_ms, uint32_t queue, uint64_t seq) except -1:
        """Set the timer of a held entry."""
        self.held_count += 1
        return self.held.push(at_ms, queue, seq)

    cdef bint release_held(self) except -1:
        """Make held entries ready whose delay is over; returns whether there was no time for all of
        them."""
        cdef Timer timer
        cdef Queue queue
        cdef Slot *slot
        while self.held.count and self.held.heap[0].at_ms <= self.clock.now_ms:
            timer = self.held.pop()
            if is_held(self, &timer):
                queue = <Queue> self.by_id[timer.queue]
                slot = queue.slot_of(timer.seq)
                queue.end_hold(slot)
                queue.make_ready(timer.seq, slot)
            if spend(self.clock, 1):
                return True
        return False

    @property
    def next_due_ms(self):
        """When the next entry expires or is released; UINT64_MAX: none does."""
        self.timers.close()
        return min(self.timers.next_ms(), self.held.next_ms())

    # ------------------------------------------------------------- the log

    cdef bint has_queue(self, uint32_t queue) except -1:
        return queue in self.by_id

    cdef bint refers(self, uint32_t number, uint64_t seq, uint64_t position) except -1:
        cdef Queue queue = self.by_id.get(number)
        cdef Index index
        cdef Slot *slot
        if queue is not None:
            slot = queue.slot_of(seq)
        elif number in self.retired:
            index = self.retired[number]
            slot = index.slot_of(seq)
        else:
            return False
        return slot != NULL and slot.state != GONE and slot.position == position

    cdef bint needs_body(self, uint32_t number) except -1:
        cdef Queue queue = self.by_id.get(number)
        return queue is not None and not (queue.remembers and queue.private)

    cdef int move(self, uint32_t number, uint64_t seq, uint64_t position,
                  uint32_t share, uint32_t body_lost) except -1:
        cdef Queue queue = self.by_id.get(number)
        cdef Index index = queue.index if queue is not None else self.retired[number]
        cdef Slot *slot = index.slot_of(seq)
        slot.position = position
        slot.share = share
        if queue is None:
            return 0
        queue.ready_bytes -= body_lost
        return 0

    cdef Queue restored(self, uint32_t number):
        """The queue of an id, or None; a backlog is made, since it has no definition."""
        cdef Queue queue = self.by_id.get(number)
        cdef Queue owner
        if queue is None and number & BACKLOG_BIT and number < TRANSIENT_IDS:
            owner = self.by_id.get(number ^ BACKLOG_BIT)
            if owner is not None:
                queue = self.backlog_of(owner)
        return queue

    cdef int restore_entry(self, uint32_t number, uint64_t seq, uint64_t position) except -1:
        cdef Queue queue = self.restored(number)
        return 0 if queue is None else restore_record(queue, seq, position)

    cdef int restore_settled(self, uint32_t number, const Range *which) except -1:
        cdef Queue queue = self.restored(number)
        return 0 if queue is None else settle_restored(queue, which)

    cdef int restore_delivered(self, uint32_t number, const Range *which) except -1:
        cdef Queue queue = self.restored(number)
        return 0 if queue is None else count_restored(queue, which)

    cdef int end_replay(self, bint redelivered) except -1:
        cdef Queue queue
        for queue in self.by_id.values():
            if queue.durable:
                end_restore(queue, redelivered)
        return 0

    cdef int append_delivered(self) except -1:
        """Append how often unsettled entries were delivered; at an orderly shutdown."""
        cdef Queue queue
        for queue in self.by_id.values():
            append_deliveries(queue)
        return 0


def _dropping(Queues queues, uint32_t number, Index index, uint64_t end, bint timed):
    """Drop all entries of a deleted queue, in steps."""
    cdef uint64_t at = 0
    while at < end:
        at = queues.drop_retired(index, at, end, timed)
        if at < end:
            yield
    del queues.retired[number]


cdef bint is_timed(object owner, Timer *timer) except -1:
    """Whether a timer is still that of an entry; removes entries that are gone from its start."""
    cdef Queue queue = (<Queues> owner).by_id.get(timer.queue)
    return queue is not None and (queue.is_timer(timer.seq, timer.at_ms)
                                  or timer.count > 1 and queue.shorten(timer))


cdef bint is_held(object owner, Timer *timer) except -1:
    cdef Queue queue = (<Queues> owner).by_id.get(timer.queue)
    cdef Slot *slot = queue.slot_of(timer.seq) if queue is not None else NULL
    return slot != NULL and slot.state == HELD
