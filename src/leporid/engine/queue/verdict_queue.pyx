"""VerdictQueue: messages of one binding that wait for the verdicts of a filter class.

A hidden queue, so that the log, replay, cleaning and checks treat what waits as they treat any
message. Whoever asks the class takes a batch from the head and comes back with verdicts: what
passes goes on to the destination of the binding, and ends here in the same transaction; the rest
ends. It does not know who judges, nor bindings.

Invariants: at most one batch is out, so what passes keeps its order; a message without a verdict
stays; time to live begins where a message goes, not here; a queue gets a message once, also if
several classes let it pass, or it had it without a verdict: the record names all who have it, and
whoever lets it pass tells the others who are asked about it.
"""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from cpython.bytes cimport PyBytes_AS_STRING

from leporid.engine.queue.verdict_batch cimport BATCH_MESSAGES_MAX, content_of, batch_frame
from leporid.engine.queue.index cimport READY, UNACKED, Slot
from leporid.engine.queue.republish cimport republish
from leporid.engine.plane cimport Plane
from leporid.engine.queue.queue cimport Queue
from leporid.engine.routing.route_cache cimport Route, make_route
from leporid.engine.wire.wire cimport HAS_CC, Props, Record, Target, walk_properties

from leporid.amqp.errors import Fault
from leporid.engine.wire.rewrites import copies_of

cdef list all_of(Route route):
    return route.queues + (route.apart or [])


cdef list keys_of(const uint8_t *names, bytes properties, const Props *props):
    """The routing keys of a message, as it was published."""
    cdef const uint8_t *key = names + 1 + names[0]
    cdef list keys = [key[1:1 + key[0]].decode("utf-8", "surrogateescape")]
    if props.marks & HAS_CC:
        keys += copies_of(properties)[1]
    return keys


cdef class VerdictQueue(Queue):
    """What waits for one binding; made by `Plane.staging`."""

    def __cinit__(self, Plane plane, uint32_t queue_id, str name, bint durable):
        self.asked = []
        self.had = {}
        self.limited = True             # so that `push` wakes: whatever comes must be judged

    def __repr__(self):
        return f"<VerdictQueue {self.name!r} ready={self.ready_count} judging={len(self.asked)}>"

    cdef void wake(self):
        """Have whoever asks the class know that there is something."""
        if not self.listed and self.ready_count:
            self.listed = True
            self.plane.judging[self] = None

    cdef int set_ttl(self, uint64_t seq, uint64_t ttl_ms) except -1:
        return 0

    cdef int restore_entry(self, uint64_t seq, uint64_t position) except -1:
        self.index.slot_of(seq).deliveries = 0
        return 0

    # ------------------------------------------------------------- batches

    def batch(self, size_t most, size_t bytes_max):
        """The next messages as a frame for the filter server, and how many; None without any.

        They wait for `judged` or `give_back`. There are at most `most` of them, and none is added
        once there are `bytes_max` bytes.
        """
        cdef const Record *records[BATCH_MESSAGES_MAX]
        cdef Slot *slot
        cdef uint64_t seq
        cdef size_t count = 0, size = 0
        if self.asked:
            raise ValueError("a batch is out already")
        most = min(most, <size_t> BATCH_MESSAGES_MAX)
        while count < most and size < bytes_max:
            slot = self.pop(&seq)
            if slot == NULL:
                break
            self.asked.append(seq)
            records[count] = self.plane.record(slot.position)
            size += content_of(records[count])
            count += 1
        if not count:
            return None
        try:
            frame = batch_frame(records, <uint32_t> count)
        except MemoryError:
            self.give_back()
            raise
        self.judging = True
        return frame, count

    def judged(self, bytes verdicts not None):
        """The batch is judged: what has a 1 goes on, in order, the rest ends."""
        cdef const uint8_t *verdict = <const uint8_t *> PyBytes_AS_STRING(verdicts)
        cdef Slot *slot
        cdef uint64_t seq
        cdef size_t done = 0
        if len(verdicts) != len(self.asked):
            raise ValueError(f"{len(verdicts)} verdicts for {len(self.asked)} messages")
        if self.way is not None:
            # Anew: the queue's limits may have been set since.
            self.way = make_route(all_of(self.way))
        try:
            for seq in self.asked:
                slot = self.index.slot_of(seq)
                if slot != NULL and slot.state == UNACKED:
                    if verdict[done]:
                        self.go_on(seq, slot)
                    else:
                        self.dropped += 1
                        self.had.pop(seq, None)
                        self.settle(seq, slot)
                done += 1
        finally:
            # All of them, unless there is a defect: then those that are left are asked about again.
            del self.asked[:done]
            self.give_back()

    def give_back(self):
        """Nobody judged what is left of the batch: it waits again, in its place."""
        cdef Slot *slot
        cdef uint64_t seq
        asked, self.asked, self.judging = self.asked, [], False
        for seq in asked:
            slot = self.index.slot_of(seq)
            if slot != NULL and slot.state == UNACKED:
                self.unacked_count -= 1
                self.come_back(seq, slot)

    # ------------------------------------------------------------- going on

    cdef int go_on(self, uint64_t seq, Slot *slot) except -1:
        """Send a message that passed to the destination of the binding."""
        cdef Record *record = self.plane.record(slot.position)
        cdef const uint8_t *names = (<const uint8_t *> record + sizeof(Record)
                                     + record.targets * sizeof(Target))
        cdef const uint8_t *properties = names + record.names_len
        cdef const uint8_t *body = properties + record.properties_len
        cdef Props props
        cdef Route route = self.way
        cdef list others = [], keys = None
        walk_properties(properties, record.properties_len, &props)
        if route is None:
            keys = keys_of(names, properties[:record.properties_len], &props)
            route = self.way_on(names, keys, properties[:record.properties_len])
        if route is not None and record.targets > 1:
            others = self.others_of(record)
            route = self.without_those_who_had_it(seq, record, route)
            had = {queue.id for queue in all_of(route)}
        route = republish(self, seq, route, names, record.names_len, properties,
                        record.properties_len, body, record.body_len, &props,
                        self.elsewhere if record.targets == 1 else None, keys)
        self.passed += 1
        if route is None or (route.unroutable and not route.refused):
            self.unroutable += route is None or not route.duplicate
        for other, number in others:
            (<VerdictQueue> other).note_had(number, had)
        return 0

    cdef list others_of(self, const Record *record):
        """Where else a message waits for a verdict, and its numbers there."""
        cdef const Target *target = <const Target *> (<const uint8_t *> record + sizeof(Record))
        cdef list found = []
        cdef uint16_t at
        for at in range(record.targets):
            other = self.plane.queues.get(target[at].queue)
            if other is not self and type(other) is VerdictQueue:
                found.append((other, target[at].seq))
        return found

    cdef Route without_those_who_had_it(self, uint64_t seq, const Record *record, Route route):
        """A route without queues that had the message at once, or by somebody else's verdict."""
        cdef const Target *target = <const Target *> (<const uint8_t *> record + sizeof(Record))
        cdef set had = self.had.pop(seq, None) or set()
        cdef list queues = all_of(route), left
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
        """Somebody else's verdict brought these queues a message that waits here, too."""
        cdef Slot *slot = self.index.slot_of(seq)
        if slot == NULL or slot.state != READY and slot.state != UNACKED:
            return 0
        if self.way is None:
            self.had[seq] = self.had.get(seq, set()) | queues
        elif all_of(self.way)[0].id in queues:
            self.settle(seq, slot)
        return 0

    cdef Route way_on(self, const uint8_t *names, list keys, bytes properties):
        """Where a message goes from the exchange that is bound; None: nobody knows."""
        try:
            return make_route(
                self.routed(names[1:1 + names[0]].decode("utf-8", "surrogateescape"), keys,
                            properties))
        except Fault:
            return None
