"""The consumers of a queue of which some have filters: who gets which message, and what is scanned.

Responsible for the turns of consumers and selector groups. It must not know how filters are
evaluated, which `scan_groups` does, nor credit.

Consumers with the same filter have one *group*, which keeps the numbers of the messages that match.
Groups take turns as consumers do, those of the highest priority first, and the consumers of a group
take turns within it. Consumers without a filter are one more group, which takes the next message. A
message that another consumer took is skipped when its number comes up.

Messages are evaluated only while a consumer waits: just until a match is found, and within a budget
per turn. A group that has evaluated all messages is idle until more come.

Invariant: a group that has, or may have, a message for a consumer that may be able to take is in
`turns`; or it is idle and counted in its scan group; or the message is in `again`; or the group has
a filter class and its `verdicts` has messages to ask about.
"""

from libc.stdint cimport int64_t, uint64_t

from leporid.engine.bounds.clock cimport spend
from leporid.engine.queue.index cimport READY, Slot, is_deliverable
from leporid.engine.queue.queue cimport Queue
from leporid.engine.queue.sequence_heap cimport SequenceHeap
from leporid.engine.queue.takers cimport Level, Selection, Taker, Takers, leave_ring
from leporid.engine.selecting.consumer_verdicts cimport ConsumerVerdicts
from leporid.engine.selecting.scan_groups cimport ScanGroup
from leporid.engine.selecting.verdicts cimport Verdicts
from leporid.engine.selectors.filter cimport ClassFilter, Conjunction, Filter, FilterCounters
from leporid.engine.selectors.selector cimport Selector
from leporid.engine.selectors.tags cimport Tags

cdef enum:
    # The budget of all searches per turn, in units of one to three nanoseconds: by so much a turn
    # gets longer while consumers search long queues.
    SEARCH_WORK = 400_000
    SHARE_MIN = 4000                # a queue's least share of the budget, however many search


cdef object key_of(object filter):
    """A key that is equal for filters that match the same messages."""
    if type(filter) is Selector:
        return (<Selector> filter).code
    if type(filter) is Tags:
        return frozenset((<Tags> filter).texts)
    if type(filter) is Conjunction:
        return key_of((<Conjunction> filter).first), key_of((<Conjunction> filter).second)
    if type(filter) is ClassFilter:
        return (<ClassFilter> filter).name, key_of((<ClassFilter> filter).first)
    return None if type(filter) is Filter else filter


cdef FilteredConsumers selection_of(Queue queue, Searches searches):
    """The filtered consumers of a queue; made with its first consumer with a filter."""
    if queue.selection is None:
        if queue.counters is None:
            queue.counters = FilterCounters()
        queue.selection = FilteredConsumers(queue, searches)
    return <FilteredConsumers> queue.selection


cdef class Searches:
    """What the searches of all queues share: a budget per turn, counters, filter classes."""

    def __cinit__(self, Verdicts verdicts not None):
        self.verdicts = verdicts
        self.work = SEARCH_WORK
        self.queues = []
        self.filters = FilterCounters()
        self.by_class = {}

    cdef int turn(self) except -1:
        """Continue searches that the budget of the last turn has stopped."""
        cdef FilteredConsumers selection
        cdef Queue queue
        if not self.queues:
            return 0
        queues, self.queues = self.queues, []
        share = max(min(SHARE_MIN, self.work), self.work // len(queues))
        for queue in queues:
            if queue.selection is not None:
                selection = <FilteredConsumers> queue.selection
                selection.searching = False
                selection.share = share
                queue.wake()
        return 0

    def renew_filter_class(self, str name not None):
        """A filter class has a new version: judge all messages of each queue again."""
        cdef ConsumerVerdicts verdicts
        for verdicts in self.by_class.get(name, ()):
            verdicts.start_over()

    def waiting_for(self, str name not None):
        """How many messages wait for a filter class, as far as consumers have searched."""
        cdef ConsumerVerdicts verdicts
        cdef uint64_t count = 0
        for verdicts in self.by_class.get(name, ()):
            count += verdicts.doubt_count + len(verdicts.asked)
        return count

    def note_browsed(self, Queue queue not None, counts):
        """Count messages of a queue that a browse has filtered, as in `Chosen.filtering`."""
        _, evaluated, matched, failed = counts
        self.filters.note(evaluated, evaluated, matched, failed)
        if evaluated and not queue.retired:
            if queue.counters is None:
                queue.counters = FilterCounters()
            queue.counters.note(evaluated, evaluated, matched, failed)


cdef class SelectorGroup(Taker):
    """Consumers with the same filter, and the messages found for them."""


cdef class GroupConsumers(Takers):
    """The consumers of one selector group."""

    cdef int enter(self, Taker taker) except -1:
        cdef Takers everybody = self.selection.queue.takers
        if everybody.single and taker is not everybody.chosen:
            return 0
        Takers.enter(self, taker)
        if self.group.idle and self.group.verdicts is None:
            return 0
        return self.selection.take_turns(self.group)


cdef class FilteredConsumers(Selection):
    """The consumers of one queue, once one of them has a filter; made by `selection_of`."""

    def __cinit__(self, Queue queue not None, Searches searches not None):
        cdef int lane
        self.queue = queue
        self.searches = searches
        self.counters = queue.counters
        self.by_key = {}
        self.scan_groups = []
        self.all_verdicts = []
        self.turns = Takers()
        self.again = SequenceHeap()
        self.everything = SelectorGroup()
        self.everything.takers = queue.takers
        self.lanes = 1 if queue.lanes is None else queue.max_priority + 1
        for lane in range(self.lanes):
            self.ends[lane] = queue.next_seq
        self.share = self.searches.work

    # ------------------------------------------------------------- consumers

    cdef int attach(self, Taker taker) except -1:
        """A consumer with a filter is about to be attached to the queue."""
        cdef object key = key_of(taker.filter)
        cdef SelectorGroup group = self.by_key.get(key)
        cdef GroupConsumers members
        if group is None:
            group = SelectorGroup()
            group.key, group.filter = key, taker.filter
            group.found = [SequenceHeap() for _ in range(self.lanes)]
            group.takers = members = GroupConsumers()
            members.group, members.selection = group, self
            if type(group.filter) is ClassFilter:
                group.verdicts = ConsumerVerdicts((<ClassFilter> group.filter).name, group, self)
                group.filter = (<ClassFilter> group.filter).first
            self.begin(group)
            self.by_key[key] = group
        group.count += 1
        taker.home = group.takers
        return 0

    cdef int begin(self, SelectorGroup group) except -1:
        """Put a group into a scan group that begins at the head."""
        cdef ScanGroup scan_group
        for scan_group in self.scan_groups:
            if scan_group.fresh:
                break
        else:
            scan_group = ScanGroup(self)
            self.scan_groups.append(scan_group)
        return scan_group.join(group)

    cdef bint detach(self, Taker taker) except -1:
        """A consumer with a filter was detached; returns whether it was the last one."""
        cdef SelectorGroup group = (<GroupConsumers> taker.home).group
        group.count -= 1
        if not group.count:
            self.forget(group)
        if self.by_key:
            return False
        leave_ring(self.everything)     # in which it refers to itself
        return True

    cdef int forget(self, SelectorGroup group) except -1:
        cdef GroupConsumers members = <GroupConsumers> group.takers
        leave_ring(group)
        group.scan_group.leave(group)
        if group.verdicts is not None:
            group.verdicts.drop()
            group.verdicts = None
        members.group = members.selection = None
        del self.by_key[group.key]
        return 0

    # ------------------------------------------------------------- entries

    cdef int came_back(self, uint64_t seq) except -1:
        """An entry is about to be ready again: scan groups beyond it must evaluate it again."""
        self.again.prune_some(self.queue.index, self.queue.ready_count)
        return self.again.push(seq)

    cdef int purged(self) except -1:
        """The queue was purged: forget all that was found."""
        cdef ScanGroup scan_group
        cdef SelectorGroup group
        cdef int lane
        self.again.count = 0
        for scan_group in self.scan_groups:
            scan_group.fresh = False
            scan_group.pending.clear()
            for lane in range(self.lanes):
                scan_group.cursors[lane] = self.queue.next_seq
        for group in self.by_key.values():
            group.found = [SequenceHeap() for _ in range(self.lanes)]
            group.found_count = 0
            if group.verdicts is not None:
                group.verdicts.forget_doubts()
        return 0

    # ------------------------------------------------------------- turns

    cdef int deliver(self) except -1:
        """Deliver entries to consumers in turn, until either runs out or the budget is spent."""
        cdef Queue queue = self.queue
        cdef SelectorGroup group
        cdef Taker taker
        cdef ConsumerVerdicts verdicts
        cdef Slot *slot
        cdef uint64_t seq
        self.budget = 0 if self.searching else self.share
        self.share = self.searches.work
        self.look_again()
        if self.again.count:
            return self.deliver_to_others()
        for verdicts in self.all_verdicts:
            verdicts.look_ahead()
        self.search()
        if queue.takers.levels:
            self.take_turns(self.everything)
        while queue.ready_count and self.turns.levels:
            group = <SelectorGroup> (<Level> self.turns.levels[0]).head
            taker = group.takers.turn()
            if taker is None:
                leave_ring(group)
                continue
            if taker.priority != group.priority:
                taker.level.head = taker  # the group's turn was that of another priority
                leave_ring(group)
                self.take_turns(group)
                continue
            if not self.has(group):
                taker.level.head = taker
                leave_ring(group)
                continue
            slot = queue.pop(&seq) if group is self.everything else self.claim(group, &seq)
            if slot == NULL:
                taker.level.head = taker    # both keep their turns
                self.wake_later()
                break
            group.level.head = group.next
            taker.take(seq, slot)
            if spend(queue.queues.clock, 1):
                queue.wake()
                break
        for verdicts in self.all_verdicts:
            verdicts.ask()
        return 0

    cdef int deliver_to_others(self) except -1:
        """Deliver to consumers without filters only, until requeued entries are evaluated: no later
        message may be delivered before a requeued one."""
        cdef Queue queue = self.queue
        cdef Taker taker
        cdef Slot *slot
        cdef uint64_t seq
        while queue.ready_count:
            taker = queue.takers.turn()
            if taker is None:
                break
            slot = queue.pop(&seq)
            if slot == NULL:
                taker.level.head = taker    # it keeps its turn
                self.wake_later()
                break
            taker.take(seq, slot)
            if spend(queue.queues.clock, 1):
                queue.wake()
                break
        return 0

    cdef int wake_later(self) except -1:
        """No message was found: unless there is none, there was no time."""
        if self.queue.queues.clock.over():
            self.queue.wake()
        return 0

    cdef Slot *claim(self, SelectorGroup group, uint64_t *seq) except NULL:
        """Take the first entry that was found for a group; there must be one."""
        cdef Queue queue = self.queue
        cdef Slot *slot
        cdef int lane = self.best(group) if group.verdicts is None else group.verdicts.best()
        seq[0] = (<SequenceHeap> group.found[lane]).pop()
        group.found_count -= 1
        slot = queue.index.slot_of(seq[0])
        queue.take(slot)
        return slot

    cdef int take_turns(self, SelectorGroup group) except -1:
        """Let a group take turns if it has consumers that may be able to take."""
        cdef int priority
        if not group.takers.levels:
            return 0
        priority = (<Level> group.takers.levels[0]).priority
        if group.level is not None:
            if priority <= group.priority:
                return 0
            leave_ring(group)
        group.priority = priority
        return self.turns.enter(group)

    cdef int rouse(self, SelectorGroup group) except -1:
        """A match was found for a group: it is not idle any more."""
        if not group.idle:
            return 0
        group.idle = False
        group.scan_group.idle -= 1
        return self.take_turns(group)

    cdef int rest(self, SelectorGroup group) except -1:
        """A group has no match: it is idle."""
        group.idle = True
        group.scan_group.idle += 1
        return 0

    # ------------------------------------------------------------- searching

    cdef bint has(self, SelectorGroup group) except -1:
        """Whether there is a message for a group; at most half of the turn's budget is spent on the
        search. Without one the group becomes idle."""
        cdef int lane, unseen
        cdef int64_t others
        if group is self.everything:
            return True
        if group.verdicts is not None:
            return group.verdicts.best() >= 0
        others = self.budget // 2
        self.budget -= others
        while True:
            lane = self.best(group)
            unseen = self.unseen(group.scan_group)
            if lane >= 0 and lane >= unseen or unseen < 0:
                break
            if self.budget <= 0:
                lane = -1  # there may be a match of a higher priority
                self.postpone()
                break
            group.scan_group.scan(unseen, group)
        self.budget += others
        if lane < 0:
            self.rest(group)
        return lane >= 0

    cdef int best(self, SelectorGroup group) except -2:
        """The highest priority with a match that is still ready; -1: none."""
        cdef int lane = self.lanes - 1
        cdef SequenceHeap order
        cdef Slot *slot
        while lane >= 0:
            order = <SequenceHeap> group.found[lane]
            while order.count:
                slot = self.queue.index.slot_of(order.heap[0])
                if is_deliverable(slot, self.queue.queues.clock.now_ms):
                    return lane
                self.budget -= 1
                order.pop()
                group.found_count -= 1
            lane -= 1
        return -1

    cdef int unseen(self, ScanGroup scan_group):
        """The highest priority with messages that a scan group has not evaluated; -1: none."""
        cdef int lane = self.lanes - 1
        if lane == 0:
            return 0 if scan_group.cursors[0] < self.queue.next_seq else -1
        while lane >= 0 and scan_group.cursors[lane] >= self.ends[lane]:
            lane -= 1
        return lane

    cdef int search(self) except -1:
        """Search for idle groups: first for the scan group that is furthest, so that consumers who
        come late do not keep the others waiting."""
        cdef ScanGroup scan_group
        cdef SelectorGroup group
        cdef int64_t others = 0
        cdef bint newest
        if self.lanes > 1:
            # A match may have to wait for one of a higher priority, so each group searches itself.
            for group in self.by_key.values():
                if group.verdicts is None:
                    self.rouse(group)
                else:
                    group.verdicts.search()
            return 0
        for newest in (True, False):
            if newest and len(self.scan_groups) > 1:
                others = self.budget // 2
                self.budget -= others
            while True:
                scan_group = self.waiting(newest)
                if scan_group is None:
                    break
                if self.budget <= 0:
                    self.postpone()
                    break
                scan_group.scan(0, None)
            self.budget += others
            others = 0
        return 0

    cdef ScanGroup waiting(self, bint newest):
        """The furthest, or the least far, scan group with idle members and messages to evaluate."""
        cdef ScanGroup scan_group, found = None
        for scan_group in self.scan_groups:
            if scan_group.idle and self.unseen(scan_group) >= 0 and (
                    found is None or (scan_group.cursors[0] > found.cursors[0]) == newest):
                found = scan_group
        return found

    cdef int look_again(self) except -1:
        """Evaluate requeued entries, lowest first, within the turn's budget."""
        cdef Slot *slot
        cdef uint64_t seq
        while self.again.count:
            if self.budget <= 0:
                return self.postpone()
            seq = self.again.heap[0]
            slot = self.queue.index.slot_of(seq)
            self.budget -= 1
            if slot != NULL and slot.state == READY:
                if not self.evaluate_again(seq, slot):
                    return self.postpone()
            while self.again.count and self.again.heap[0] == seq:
                self.again.pop()
        return 0

    cdef bint evaluate_again(self, uint64_t seq, const Slot *slot) except -1:
        """Have those scan groups evaluate a requeued entry that are beyond it; returns whether all
        have. Only then are matches noted: it may be taken, and be requeued again, meanwhile."""
        cdef ScanGroup scan_group
        cdef list beyond = [scan_group for scan_group in self.scan_groups
                            if scan_group.cursors[slot.priority] > seq]
        for scan_group in beyond:
            if not scan_group.is_full() and not scan_group.evaluate(seq, slot):
                return False
        for scan_group in beyond:
            if scan_group.has_evaluated(seq):
                scan_group.note(seq, slot.priority)
            else:
                scan_group.recede(seq, slot.priority)
        return True

    cdef int postpone(self) except -1:
        """Go on with the search in the next turn."""
        if not self.searching:
            self.searching = True
            self.searches.queues.append(self.queue)
        return 0
