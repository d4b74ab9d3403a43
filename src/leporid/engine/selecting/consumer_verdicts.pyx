"""The messages of a queue that a selector group's filter class is asked about, and its verdicts.

Responsible for which messages are in doubt (to be asked about), which are out in a batch, and for
delivering those that pass in order. It must not know who asks the class, nor how messages are
found: the group's scan group finds messages that pass the other filter, and the server takes a
`batch` and calls `judged` with the verdicts.

No message is reserved meanwhile: another consumer may take it. A verdict is about one message,
which never changes; a late one is still true, and is ignored if the message is gone. A message that
is requeued is asked about again.

Invariants: at most one batch is out; within a priority no message is delivered before an earlier
one that is still in doubt. Memory is bounded: for messages in doubt as for those that were found,
for those that passed by `AHEAD_MAX` and a batch; those that did not pass are forgotten.
"""

from libc.stdint cimport uint8_t, uint64_t
from cpython.bytes cimport PyBytes_AS_STRING

from leporid.engine.queue.index cimport READY, Slot, is_deliverable
from leporid.engine.queue.queue cimport Queue
from leporid.engine.queue.sequence_heap cimport SequenceHeap
from leporid.engine.selecting.filtered_consumers cimport FilteredConsumers, SelectorGroup
from leporid.engine.selecting.scan_groups cimport ScanGroup, found_most
from leporid.engine.selecting.verdicts cimport VerdictBatch

cdef enum:
    # While a consumer waits, so many messages in doubt are searched for: two batches, so that the
    # next one is ready when the verdicts of the last one come.
    DOUBTS_MIN = 1000
    AHEAD_MAX = 2000                # messages that passed and were not taken: no more are judged
    DOUBTS_SLACK = 1024             # messages that others took, before a heap is pruned


cdef class ConsumerVerdicts:
    """The verdicts of one selector group with a filter class."""

    def __cinit__(self, str name not None, SelectorGroup group not None,
                  FilteredConsumers selection not None):
        self.name = name
        self.group, self.selection = group, selection
        self.asked = []
        self.forget_doubts()
        selection.all_verdicts.append(self)
        selection.searches.by_class.setdefault(name, {})[self] = None

    def __repr__(self):
        return (f"<ConsumerVerdicts {self.name!r} doubts={self.doubt_count} "
                f"judging={len(self.asked)}>")

    cdef int drop(self) except -1:
        """The group's last consumer has left."""
        cdef dict others = self.selection.searches.by_class[self.name]
        del others[self]
        if not others:
            del self.selection.searches.by_class[self.name]
        self.selection.all_verdicts.remove(self)
        self.group = self.selection = None
        self.doubts = self.out = None
        return 0

    cdef int forget_doubts(self) except -1:
        self.doubts = [SequenceHeap() for _ in range(self.selection.lanes)]
        self.out = [SequenceHeap() for _ in range(self.selection.lanes)]
        self.doubt_count = 0
        return 0

    cdef int start_over(self) except -1:
        """Forget all that was found: the group scans the queue from the head again."""
        cdef SelectorGroup group = self.group
        group.found = [SequenceHeap() for _ in range(self.selection.lanes)]
        group.found_count = 0
        self.forget_doubts()
        self.void = bool(self.asked)
        group.scan_group.leave(group)
        self.selection.begin(group)
        self.selection.queue.wake()
        return 0

    cdef int prune(self) except -1:
        """Forget messages that are gone."""
        self.doubt_count = self.group.scan_group.prune(self.doubts)
        self.group.found_count = self.doubt_count + self.group.scan_group.prune(self.group.found)
        return 0

    cdef int recede(self, uint64_t seq, int lane) except -1:
        """Forget messages in doubt from a number on, as the scan group scans from there again.

        The batch that is out becomes void, as its verdicts on later messages would come before the
        scan; its messages are in doubt again.
        """
        cdef SequenceHeap doubts, out
        cdef int each
        for each in range(self.selection.lanes):
            doubts, out = <SequenceHeap> self.doubts[each], <SequenceHeap> self.out[each]
            while out.count:
                doubts.push(out.pop())
                self.doubt_count += 1
                self.group.found_count += 1
        self.void = bool(self.asked)
        doubts = <SequenceHeap> self.doubts[lane]
        self.doubt_count -= doubts.count
        self.group.found_count -= doubts.count
        doubts.keep_below(seq)
        self.doubt_count += doubts.count
        self.group.found_count += doubts.count
        return 0

    # ------------------------------------------------------------- in doubt, and passed

    cdef int doubt(self, uint64_t seq, int lane) except -1:
        """Add a ready message that the class is to be asked about."""
        cdef SequenceHeap order = <SequenceHeap> self.doubts[lane]
        cdef ScanGroup scan_group = self.group.scan_group
        if order.count > DOUBTS_SLACK + 2 * self.selection.queue.ready_count:
            self.doubt_count -= order.count
            self.group.found_count -= order.count
            order.prune(self.selection.queue.index)
            self.doubt_count += order.count
            self.group.found_count += order.count
        order.push(seq)
        self.doubt_count += 1
        self.group.found_count += 1
        if self.group.found_count >= found_most(self.selection):
            scan_group.crowded = scan_group.set.count > 1
        if self.group.idle and self.doubt_count >= DOUBTS_MIN:
            self.group.idle = False
            scan_group.idle -= 1
        return 0

    cdef int clean(self, SequenceHeap order) except -1:
        """Pop numbers from a heap until the first may be delivered; returns how many."""
        cdef Slot *slot
        cdef int gone = 0
        while order.count:
            slot = self.selection.queue.index.slot_of(order.heap[0])
            if is_deliverable(slot, self.selection.queue.queues.clock.now_ms):
                break
            order.pop()
            gone += 1
        return gone

    cdef int best(self) except -2:
        """The highest priority whose first message has passed; -1: none."""
        cdef int lane = self.selection.lanes - 1, gone
        cdef SequenceHeap found, doubts, out
        while lane >= 0:
            found = <SequenceHeap> self.group.found[lane]
            self.group.found_count -= self.clean(found)
            if found.count:
                doubts, out = <SequenceHeap> self.doubts[lane], <SequenceHeap> self.out[lane]
                gone = self.clean(doubts)
                self.doubt_count -= gone
                self.group.found_count -= gone
                self.clean(out)
                if not (doubts.count and doubts.heap[0] < found.heap[0]
                        or out.count and out.heap[0] < found.heap[0]):
                    return lane
            lane -= 1
        return -1

    cdef bint enough(self) except -1:
        """Whether so many messages have passed that no more need to be judged now."""
        return self.group.found_count - self.doubt_count >= AHEAD_MAX and self.best() >= 0

    cdef bint rouse(self) except -1:
        """Let the group take turns again if a message that passed need not wait any more, as others
        took those in doubt before it; returns whether it does."""
        if self.group.level is not None or not self.group.takers.levels or self.best() < 0:
            return False
        self.selection.take_turns(self.group)
        return True

    # ------------------------------------------------------------- searching ahead

    cdef int look_ahead(self) except -1:
        """Let the scan group search for more messages to ask about if a consumer waits."""
        cdef bint wanted
        self.rouse()
        wanted = (self.group.takers.levels and self.doubt_count < DOUBTS_MIN
                  and not self.enough())
        if wanted != self.group.idle:
            self.group.idle = wanted
            self.group.scan_group.idle += 1 if wanted else -1
        return 0

    cdef int search(self) except -1:
        """Search for messages to ask about in a queue with priorities, with half of what is left of
        the turn's budget."""
        cdef FilteredConsumers selection = self.selection
        cdef int lane
        others = selection.budget // 2
        selection.budget -= others
        while self.group.idle:
            lane = selection.unseen(self.group.scan_group)
            if lane < 0:
                break
            if selection.budget <= 0:
                selection.postpone()
                break
            self.group.scan_group.scan(lane, self.group)
        selection.budget += others
        return 0

    cdef int ask(self) except -1:
        """At the end of a turn: have the class asked if messages are in doubt."""
        cdef SequenceHeap order
        cdef int gone
        if not self.group.takers.levels:
            return 0
        for order in self.doubts:
            gone = self.clean(order)
            self.doubt_count -= gone
            self.group.found_count -= gone
        if self.rouse():
            self.selection.queue.wake()
        if self.asked or self.enough():
            return 0
        if self.doubt_count:
            self.selection.searches.verdicts.asking[self] = None
        elif self.selection.unseen(self.group.scan_group) >= 0:
            self.selection.postpone()  # other consumers took the messages in doubt
        return 0

    # ------------------------------------------------------------- batches

    def batch(self, size_t most, size_t bytes_max):
        """The next messages as a frame for the filter server, and their number; None: no messages.

        They wait for `judged` or `give_back`. There are at most `most` of them, and none is added
        once there are `bytes_max` bytes. After None the engine may be `busy`.
        """
        cdef VerdictBatch batch = VerdictBatch(most, bytes_max)
        cdef SequenceHeap doubts, out
        cdef Queue queue
        cdef Slot *slot
        cdef uint64_t seq, last
        cdef int lane
        if self.asked:
            raise ValueError("a batch is out already")
        if self.group is None or not self.group.takers.levels or self.enough():
            return None
        queue = self.selection.queue
        for lane in range(self.selection.lanes - 1, -1, -1):
            doubts, out = <SequenceHeap> self.doubts[lane], <SequenceHeap> self.out[lane]
            last = queue.next_seq
            while doubts.count and batch.has_room():
                seq = doubts.pop()
                self.doubt_count -= 1
                self.group.found_count -= 1
                slot = queue.index.slot_of(seq)
                if seq == last or slot == NULL or slot.state != READY:
                    continue
                last = seq
                self.asked.append(seq)
                out.push(seq)
                batch.add(queue.logs.record(slot.position))
        if not batch.count:
            self.selection.postpone()
            return None
        try:
            frame = batch.frame()
        except MemoryError:
            self.give_back()
            raise
        return frame, batch.count

    def judged(self, bytes verdicts not None):
        """The verdicts of the batch: messages with a 1 are found, unless they are gone."""
        cdef const uint8_t *verdict = <const uint8_t *> PyBytes_AS_STRING(verdicts)
        cdef Slot *slot
        cdef uint64_t seq
        if len(verdicts) != len(self.asked):
            raise ValueError(f"{len(verdicts)} verdicts for {len(self.asked)} messages")
        for seq in self.take_back():
            if verdict[0]:
                slot = self.selection.queue.index.slot_of(seq)
                if slot != NULL and slot.state == READY:
                    (<SequenceHeap> self.group.found[slot.priority]).push(seq)
                    self.group.found_count += 1
            verdict += 1
        self.go_on()

    def give_back(self):
        """There are no verdicts: the messages of the batch are in doubt again."""
        cdef Slot *slot
        cdef uint64_t seq
        for seq in self.take_back():
            slot = self.selection.queue.index.slot_of(seq)
            if slot != NULL and slot.state == READY:
                self.doubt(seq, slot.priority)
        self.go_on()

    cdef list take_back(self):
        """End the batch that is out; returns its messages, none if it is void."""
        cdef list asked = self.asked
        cdef SequenceHeap order
        self.asked = []
        if self.group is None or self.void:
            asked.clear()
        else:
            for order in self.out:
                order.count = 0
        self.void = False
        return asked

    cdef int go_on(self) except -1:
        """Messages passed, or are in doubt again: let waiting consumers have a turn."""
        if self.group is not None:
            self.selection.take_turns(self.group)
            self.selection.queue.wake()
        return 0
