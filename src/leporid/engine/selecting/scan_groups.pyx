"""Scan groups: selector groups that share a scan through a queue.

Responsible for evaluating all their filters on each message, once, and for noting the matches. It
must not know when a scan is worth while, nor who gets a match: `FilteredConsumers` does.

A new filter scans the queue in a scan group of its own, until it reaches another one's cursor; then
both merge. A filter whose match buffer is full leaves its scan group and keeps its own cursor.
Messages requeued behind that cursor are evaluated again when its consumers have credit.

One message may take many filters long. What a slice has no time for is *pending*, and goes on in
the next turn. Its matches are noted all at once, when every member has evaluated it: meanwhile the
message may be taken and come back, and members may leave. None joins.

Invariant: for each ready entry before the cursor of its priority, every member has evaluated
whether it matches, unless the entry is in `FilteredConsumers.again`. Each pending message was, or
is, at a cursor or in `again`, and its members are those that were there when it came.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

from leporid.engine.queue.index cimport BLOCK_SLOTS, READY, Block, Slot
from leporid.engine.queue.queue cimport Queue
from leporid.engine.queue.sequence_heap cimport SequenceHeap
from leporid.engine.selecting.filtered_consumers cimport FilteredConsumers, SelectorGroup
from leporid.engine.selectors.filter cimport Conjunction
from leporid.engine.selectors.selector cimport Selector
from leporid.engine.selectors.selector_set cimport SelectorSet
from leporid.engine.selectors.unfinished_match cimport UnfinishedMatch
from leporid.engine.wire.record cimport Message, message_in

cdef enum:
    # Size of the match buffer of one filter: half a megabyte; of all filters of a queue together: 8
    # megabytes, unless there are thousands of them.
    FOUND_MAX = 65536
    FOUND_TOTAL = 16 * FOUND_MAX
    FOUND_MIN = 256
    FOUND_SLACK = 1024              # matches that others took, before a heap is pruned
    # Work in units of one to three nanoseconds: for skipping a block of the index, for one message
    # whatever the filters, for an instruction, for a pattern in a short text, for a filter that is
    # no selector, for a match.
    BLOCK_WORK = 200
    MESSAGE_WORK = 50
    STEP_WORK = 2
    PATTERN_WORK = 64
    FILTER_WORK = 16
    FOUND_WORK = 32
    # For checking a match that was found, and for comparing with another scan group.
    PRUNE_WORK = 16
    SCAN_GROUP_WORK = 4
    # Pending messages: some for each priority's cursor, and for entries that were requeued.
    PENDING_MAX = 512
    # Bytes of headers that a pattern's work is for.
    WORK_BYTES = 256
    INSTRUCTION_BYTES = 4
    OP_LIKE = 29

cdef extern from *:
    """#define NO_BUDGET (-(1LL << 62))"""
    int64_t NO_BUDGET               # whatever others have left is added: no more in this turn


cdef uint64_t weight_of(object filter):
    """The rough cost of evaluating a filter."""
    cdef const uint8_t *code
    cdef Py_ssize_t size, at
    cdef uint64_t weight = 0
    if type(filter) is Conjunction:
        return weight_of((<Conjunction> filter).first) + weight_of((<Conjunction> filter).second)
    if type(filter) is not Selector:
        return FILTER_WORK
    code = <const uint8_t *> PyBytes_AS_STRING((<Selector> filter).code)
    size = PyBytes_GET_SIZE((<Selector> filter).code)
    at = size - INSTRUCTION_BYTES * (code[4] << 8 | code[5])
    while at < size:
        weight += STEP_WORK + PATTERN_WORK * (code[at] == OP_LIKE)
        at += INSTRUCTION_BYTES
    return weight


cdef uint64_t found_most(FilteredConsumers selection):
    """The size of the match buffer of each filter of a queue."""
    return max(FOUND_MIN, min(FOUND_MAX, FOUND_TOTAL // max(1, len(selection.by_key))))


cdef class PendingMatch:
    """A message that is being evaluated, and who it matches so far."""


cdef class ScanGroup:
    """Groups that go on together."""

    def __cinit__(self, FilteredConsumers selection not None):
        self.selection = selection
        self.clock = selection.queue.queues.clock
        self.set = SelectorSet()
        self.members = []
        self.pending = {}
        self.fresh = True
        memset(self.cursors, 0, sizeof(self.cursors))

    cdef int join(self, SelectorGroup group) except -1:
        cdef uint64_t weight = weight_of(group.filter)
        group.number = self.set.add(group.filter)
        group.scan_group = self
        if group.number == <size_t> len(self.members):
            self.members.append(group)
        else:
            self.members[group.number] = group
        self.idle += group.idle
        self.weight += weight
        self.heaviest = max(self.heaviest, weight)
        return 0

    cdef int leave(self, SelectorGroup group) except -1:
        self.set.remove(group.number)
        self.members[group.number] = None
        group.scan_group = None
        self.idle -= group.idle
        self.weight -= weight_of(group.filter)
        if not self.set.count:
            self.selection.scan_groups.remove(self)
        return 0

    cdef bint is_full(self):
        """Whether it is a single group that left another scan group, and its buffer is full."""
        cdef SelectorGroup group
        if self.set.count != 1:
            return False
        for group in self.members:
            if group is not None:
                return group.found_count >= found_most(self.selection)
        return False

    cdef int scan(self, int lane, SelectorGroup wanted) except -1:
        """Go on with the scan of one priority, until a match is found for `wanted` (None: for all
        idle members), no message is left, another scan group is reached, or the budget is spent."""
        cdef FilteredConsumers selection = self.selection
        cdef Queue queue = selection.queue
        cdef ScanGroup ahead = self.ahead(lane)
        cdef uint64_t seq = self.cursors[lane], stop, end
        cdef Block *block
        cdef Slot *slot
        cdef int found
        end = queue.next_seq if selection.lanes == 1 else selection.ends[lane]
        if ahead is not None:
            end = min(end, ahead.cursors[lane])
        self.fresh = False
        while seq < end and selection.budget > 0:
            block = queue.index.block_of(seq)
            if block == NULL:
                selection.budget -= BLOCK_WORK
                block = queue.index.block_from(seq // BLOCK_SLOTS)
                seq = end if block == NULL else min(end, block.number * BLOCK_SLOTS)
                continue
            stop = min(end, (block.number + 1) * BLOCK_SLOTS)
            while seq < stop and selection.budget > 0:
                slot = &block.slots[seq % BLOCK_SLOTS]
                seq += 1
                if slot.state != READY or slot.priority != lane:
                    continue
                self.cursors[lane] = seq
                found = self.look(seq - 1, lane, slot)
                if found == UNFINISHED:
                    self.cursors[lane] = seq - 1
                    return 0
                if found and self.served(wanted, lane):
                    return self.meet(ahead)
            selection.budget -= BLOCK_WORK
        self.cursors[lane] = seq
        return self.meet(ahead)

    cdef bint served(self, SelectorGroup wanted, int lane):
        if wanted is None:
            return not self.idle
        if wanted.verdicts is not None:
            return not wanted.idle
        return (<SequenceHeap> wanted.found[lane]).count > 0

    cdef int look(self, uint64_t seq, int lane, const Slot *slot) except -2:
        """Evaluate one message; returns how many members it matches, or UNFINISHED."""
        cdef uint32_t at, count
        if self.pending and seq in self.pending:
            return self.note(seq, lane) if self.evaluate(seq, slot) else UNFINISHED
        count = self.match(slot, None)
        if self.set.unfinished is not None:
            self.keep(seq, count)
            return UNFINISHED
        for at in range(count):
            self.find(<SelectorGroup> self.members[self.set.matched[at]], seq, lane)
        if self.crowded:
            self.make_room()
        return count

    cdef bint evaluate(self, uint64_t seq, const Slot *slot) except -1:
        """Evaluate one message, which is pending until `note`; returns whether all members have."""
        cdef PendingMatch pending = self.pending.get(seq)
        cdef uint32_t at
        if pending is None:
            pending = self.keep(seq, self.match(slot, None))
        elif pending.rest is not None:
            for at in range(self.match(slot, pending.rest)):
                pending.matched.append(self.members[self.set.matched[at]])
            if pending.rest.is_done():
                pending.rest = None
        return pending.rest is None

    cdef bint has_evaluated(self, uint64_t seq) except -1:
        """Whether a pending message is one that all members have evaluated."""
        cdef PendingMatch pending = self.pending.get(seq)
        return pending is not None and pending.rest is None

    cdef int note(self, uint64_t seq, int lane) except -1:
        """Note the matches of a pending message that all members have evaluated; returns how many
        there are."""
        cdef PendingMatch pending = self.pending.pop(seq)
        cdef SelectorGroup group
        cdef int count = 0
        for group in pending.matched:
            if group.scan_group is self:    # else it has left, and evaluates it itself
                self.find(group, seq, lane)
                count += 1
        if self.crowded:
            self.make_room()
        return count

    cdef PendingMatch keep(self, uint64_t seq, uint32_t count):
        """Make a message pending that the set was just asked about."""
        cdef PendingMatch pending = PendingMatch()
        cdef uint32_t at
        pending.rest, self.set.unfinished = self.set.unfinished, None
        pending.matched = [self.members[self.set.matched[at]] for at in range(count)]
        if len(self.pending) >= PENDING_MAX:
            self.pending.popitem()          # it is evaluated from the start again
        self.pending[seq] = pending
        return pending

    cdef uint32_t match(self, const Slot *slot, UnfinishedMatch rest) except? 0xffffffff:
        """Ask the members about a message, or those who are left, in a slice; returns how many
        more it matches."""
        cdef Message message = message_in(self.selection.queue.logs.record(slot.position))
        cdef uint64_t evaluated = self.set.evaluated, failed = self.set.failed
        cdef uint64_t bulk = 1 + message.properties_len // WORK_BYTES
        cdef uint64_t asked = 0
        cdef uint32_t count
        if rest is None:
            asked = self.set.count
            count = self.set.match_in_time(message.names, message.names_len, message.properties,
                                           message.properties_len, self.clock)
        else:
            self.set.matched_count = 0
            count = self.set.go_on(rest, message.names, message.names_len, message.properties,
                                   message.properties_len, self.clock)
        evaluated = self.set.evaluated - evaluated
        self.selection.budget -= (MESSAGE_WORK + message.properties_len // 4 + FOUND_WORK * count
                                  + bulk * min(evaluated * self.heaviest, self.weight))
        failed = self.set.failed - failed
        self.selection.searches.filters.note(asked, evaluated, count, failed)
        self.selection.counters.note(asked, evaluated, count, failed)
        if self.set.unfinished is not None or rest is not None and not rest.is_done():
            self.selection.budget = NO_BUDGET
        return count

    cdef int find(self, SelectorGroup group, uint64_t seq, int lane) except -1:
        """Note that a ready message matches for a group."""
        cdef SequenceHeap order = <SequenceHeap> group.found[lane]
        if group.verdicts is not None:
            return group.verdicts.doubt(seq, lane)
        if order.count > FOUND_SLACK + 2 * self.selection.queue.ready_count:
            group.found_count -= order.count
            order.prune(self.selection.queue.index)
            group.found_count += order.count
        order.push(seq)
        group.found_count += 1
        if group.found_count >= found_most(self.selection):
            self.crowded = self.set.count > 1
        return self.selection.rouse(group)

    cdef ScanGroup ahead(self, int lane):
        """The next scan group further ahead in a priority, except those whose buffer is full."""
        cdef ScanGroup other, nearest = None
        for other in self.selection.scan_groups:
            if other.cursors[lane] > self.cursors[lane] and not other.is_full() and (
                    nearest is None or other.cursors[lane] < nearest.cursors[lane]):
                nearest = other
        return nearest

    cdef int meet(self, ScanGroup other) except -1:
        """Merge with another scan group if all cursors are equal, and nothing is pending."""
        cdef ScanGroup fewer = self, more = other
        cdef SelectorGroup group
        self.selection.budget -= SCAN_GROUP_WORK * len(self.selection.scan_groups)  # for `ahead`
        if other is None or memcmp(self.cursors, other.cursors, sizeof(self.cursors)):
            return 0
        if self.has_pending() or other.has_pending():
            return 0        # later: they meet again as soon as one goes on
        if self.set.count > other.set.count:
            fewer, more = other, self
        for group in list(fewer.members):
            if group is not None:
                fewer.leave(group)
                more.join(group)
        return 0

    cdef bint has_pending(self) except -1:
        """Whether a message is pending; forgets those that are gone."""
        cdef Slot *slot
        if not self.pending:
            return False
        for seq in list(self.pending):
            slot = self.selection.queue.index.slot_of(seq)
            if slot == NULL or slot.state != READY:
                del self.pending[seq]
        return bool(self.pending)

    cdef int make_room(self) except -1:
        """Let one group leave whose match buffer is still full after pruning; others come later."""
        cdef SelectorGroup group
        cdef ScanGroup alone
        cdef uint64_t most = found_most(self.selection)
        self.crowded = False
        for group in list(self.members):
            if group is None or group.found_count < most:
                continue
            if self.crowded or self.set.count == 1:
                break
            self.crowded = True
            self.selection.budget -= group.found_count * PRUNE_WORK
            if group.verdicts is None:
                group.found_count = self.prune(group.found)
            else:
                group.verdicts.prune()
            if group.found_count <= most // 2:
                continue
            self.leave(group)
            alone = ScanGroup(self.selection)
            alone.fresh = False
            memcpy(alone.cursors, self.cursors, sizeof(self.cursors))
            alone.join(group)
            self.selection.scan_groups.append(alone)
        return 0

    cdef uint64_t prune(self, list found) except? 0:
        """Forget matches that are gone; returns how many are left."""
        cdef SequenceHeap order
        cdef uint64_t count = 0
        for order in found:
            order.prune(self.selection.queue.index)
            count += order.count
        return count

    cdef int recede(self, uint64_t seq, int lane) except -1:
        """Move the cursor of a priority back, and forget the matches from there on."""
        cdef SelectorGroup group
        cdef SequenceHeap order
        for group in self.members:
            if group is not None:
                if group.verdicts is not None:
                    group.verdicts.recede(seq, lane)
                order = <SequenceHeap> group.found[lane]
                self.selection.budget -= order.count
                group.found_count -= order.count
                order.keep_below(seq)
                group.found_count += order.count
        self.cursors[lane] = seq
        return 0
