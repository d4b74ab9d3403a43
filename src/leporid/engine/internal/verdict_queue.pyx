"""The messages of one binding that wait for the verdicts of a filter class.

Responsible for a hidden queue, so that log, replay, cleaning and checks treat its messages as any
others. The server takes a `batch` from the head and calls `judged` with the verdicts: a message
that passes is republished to the destination of the binding and settled here, in one transaction;
the others are settled. It must not know who judges, nor bindings.

Invariants: at most one batch is out, so messages that pass keep their order; a message without a
verdict stays; the time to live begins at the destination; a queue gets a message once, also if
several classes let it pass, or it got the message without a verdict: the record names all queues
that have it, and the first verdict that lets it pass is noted in the other verdict queues.
"""

from libc.stdint cimport uint16_t, uint32_t, uint64_t

from leporid.engine.queue.index cimport READY, UNACKED, Slot
from leporid.engine.queue.queue cimport Queue
from leporid.engine.queue.queues cimport Queues
from leporid.engine.routing.route cimport Route, all_queues, make_route
from leporid.engine.selecting.verdicts cimport VerdictBatch
from leporid.engine.wire.codec cimport HAS_CC, Props
from leporid.engine.wire.record cimport (
    Message, Record, Target, exchange_name, message_in, properties_bytes, properties_in,
    routing_key, targets_of,
)

from leporid.amqp.errors import Fault
from leporid.engine.wire.rewrites import copies_of

cdef enum:
    LOOKED_AT = 256                 # queues that are looked at for room in one step


cdef bint makes_room(Queue queue) except -1:
    """Make room for a queue's next entry; returns whether there was none."""
    return not queue.own_record and not queue.retired and queue.index.reserve(queue.next_seq)


cdef class VerdictQueue(Queue):
    """The messages that wait for one binding; made by `Engine.verdict_queue`."""

    def __cinit__(self, Queues queues, uint32_t queue_id, str name, bint durable):
        self.asked = []
        self.had = {}
        self.limited = True             # so that `push` calls `wake`

    def __repr__(self):
        return f"<VerdictQueue {self.name!r} ready={self.ready_count} judging={len(self.asked)}>"

    cdef void wake(self):
        """Have the server ask the class: there are messages."""
        if self.ready_count:
            self.verdicts.asking[self] = None

    cdef int set_ttl(self, uint64_t seq, uint64_t ttl_ms) except -1:
        return 0

    cdef int restore_entry(self, uint64_t seq, uint64_t position) except -1:
        self.index.slot_of(seq).deliveries = 0
        return 0

    # ------------------------------------------------------------- batches

    def batch(self, size_t most, size_t bytes_max):
        """The next messages as a frame for the filter server, and their number; None: no messages.

        They wait for `judged` or `give_back`. There are at most `most` of them, and none is added
        once there are `bytes_max` bytes.
        """
        cdef VerdictBatch batch = VerdictBatch(most, bytes_max)
        cdef Slot *slot
        cdef uint64_t seq
        if self.republishing:
            return None                 # what passed of the last batch; later there is one
        if self.asked:
            raise ValueError("a batch is out already")
        while batch.has_room():
            slot = self.pop(&seq)
            if slot == NULL:
                break
            self.asked.append(seq)
            batch.add(self.logs.record(slot.position))
        if not batch.count:
            return None
        try:
            frame = batch.frame()
        except MemoryError:
            self.give_back()
            raise
        self.judging = True
        return frame, batch.count

    def judged(self, bytes verdicts not None):
        """The verdicts of the batch: messages with a 1 are republished in order, others dropped.

        By a job: a message may go to ten thousands of queues. There is no other batch before it has
        ended.
        """
        if len(verdicts) != len(self.asked):
            raise ValueError(f"{len(verdicts)} verdicts for {len(self.asked)} messages")
        self.queues.clock.begin_slice(None)
        self.republishing = True
        self.queues.jobs.start(self.republishing_in_steps(verdicts))
        self.in_turns = self.republishing

    def republishing_in_steps(self, bytes verdicts not None):
        """The steps of `judged`: after each, messages may have gone, with their queues."""
        cdef Slot *slot
        cdef size_t done = 0
        try:
            for seq in self.asked:
                if done:
                    yield
                slot = self.index.slot_of(seq)
                if slot != NULL and slot.state == UNACKED:
                    if not verdicts[done]:
                        self.dropped += 1
                        self.had.pop(seq, None)
                        self.settle(seq, slot)
                    elif self.route_to_queue is None:
                        yield from self.forwarding(seq)
                    else:
                        # A new route, as the queue's limits may have been set since.
                        route = make_route(all_queues(self.route_to_queue))
                        self.forward(seq, slot, route, None)
                done += 1
        finally:
            # After a defect, the messages that are left are asked about again.
            del self.asked[:done]
            self.republishing = False
            self.give_back()
        if self.in_turns:
            # The server had no batch, or has not seen that there are no messages left.
            self.verdicts.asking[self] = None

    def give_back(self):
        """There are no verdicts for the rest of the batch: it waits again, in its place."""
        cdef Slot *slot
        cdef uint64_t seq
        asked, self.asked, self.judging = self.asked, [], False
        for seq in asked:
            slot = self.index.slot_of(seq)
            if slot != NULL and slot.state == UNACKED:
                self.put_back(seq, slot)

    # ------------------------------------------------------------- republishing

    def forwarding(self, uint64_t seq):
        """The steps of republishing a message to the exchange that the binding leads to."""
        cdef Slot *slot = self.index.slot_of(seq)
        cdef Message message = message_in(self.logs.record(slot.position))
        cdef Props props
        cdef Route route = None
        cdef bytes raw = properties_bytes(&message)
        cdef list keys = [routing_key(&message)]
        properties_in(self.logs.record(slot.position), &props)
        if props.marks & HAS_CC:
            keys += copies_of(raw)[1]
        try:
            found = yield from self.routed(exchange_name(&message), keys, raw)
            # Else as many queues would make room in one piece; see `route_cache.with_room`.
            for at, queue in enumerate(found):
                if makes_room(queue) or not at % LOOKED_AT:
                    yield
            route = make_route([queue for queue in found if not queue.retired])
        except Fault:
            pass                        # routing failed, and there is no publisher to be told
        slot = self.index.slot_of(seq)
        if slot != NULL and slot.state == UNACKED:
            self.forward(seq, slot, route, keys)

    cdef int forward(self, uint64_t seq, Slot *slot, Route route, list keys) except -1:
        """Republish a message that passed along a route; None: there is none."""
        cdef const Record *record = self.logs.record(slot.position)
        cdef Message message = message_in(record)
        cdef Props props
        cdef list others = []
        cdef bint alone = record.targets == 1
        properties_in(record, &props)
        if route is not None and not alone:
            others = self.others_of(record)
            route = self.without_holders(seq, record, route)
            had = {queue.id for queue in all_queues(route)}
        route = self.publishing.republish(
            self, seq, route, &message, &props, self.elsewhere if alone else None, keys)
        self.passed += 1
        if route is None or (route.unroutable and not route.refused):
            self.unroutable += route is None or not route.duplicate
        for other, number in others:
            (<VerdictQueue> other).note_had(number, had)
        return 0

    cdef list others_of(self, const Record *record):
        """The other verdict queues that a message waits in, with its sequence numbers there."""
        cdef const Target *target = targets_of(record)
        cdef list found = []
        cdef uint16_t at
        for at in range(record.targets):
            other = self.queues.by_id.get(target[at].queue)
            if other is not self and type(other) is VerdictQueue:
                found.append((other, target[at].seq))
        return found

    cdef Route without_holders(self, uint64_t seq, const Record *record, Route route):
        """A route without the queues that have the message already."""
        cdef const Target *target = targets_of(record)
        cdef set had = self.had.pop(seq, None) or set()
        cdef list queues = all_queues(route), left
        cdef uint16_t at
        for at in range(record.targets):
            had.add(target[at].queue)
        left = [queue for queue in queues if queue.id not in had]
        if len(left) == len(queues):
            return route
        route = make_route(left)
        route.duplicate = True
        return route

    cdef int note_had(self, uint64_t seq, set queues) except -1:
        """Another class's verdict brought a message that waits here to these queues."""
        cdef Slot *slot = self.index.slot_of(seq)
        if slot == NULL or slot.state != READY and slot.state != UNACKED:
            return 0
        if self.route_to_queue is None:
            self.had[seq] = self.had.get(seq, set()) | queues
        elif all_queues(self.route_to_queue)[0].id in queues:
            self.settle(seq, slot)
        return 0
