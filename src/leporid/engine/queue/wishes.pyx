"""Consumers that want some messages of a queue only: who gets what, and when filters are asked.

Responsible for the turns of a queue that has consumers with filters. It does not know how filters
are asked, which `cohort` does, nor credit.

Consumers with the same filter have one *wish*, which keeps the numbers of the messages that were
found for it. Wishes take turns as consumers do, those of the highest priority first, and among the
consumers of a wish each has its turn; those without a filter are one more wish, for whatever comes
first. What somebody else took is passed over when its number comes up.

Nothing is looked at unless somebody waits for it: then just so far that something is found, and a
bounded distance in one turn. A wish that has seen everything is idle until more comes.

Invariant: a wish that has something, or may have, for a consumer that may be able to take, stands
in `turns`, or is idle and counted in its cohort, or what it waits for stands in `again`; or it is a
filter class that has the last word, and its `inquiry` says that there is something to ask.
"""

from libc.stdint cimport int64_t, uint64_t

from leporid.engine.selectors.class_filter cimport ClassFilter
from leporid.engine.queue.cohort cimport Cohort
from leporid.engine.selectors.conjunction cimport Conjunction
from leporid.engine.selectors.filter cimport Filter
from leporid.engine.queue.index cimport READY, UNACKED, Slot
from leporid.engine.queue.inquiry cimport Inquiry
from leporid.engine.queue.order cimport Order
from leporid.engine.plane cimport Plane, questions_of
from leporid.engine.queue.queue cimport Queue
from leporid.engine.selectors.selector cimport Selector
from leporid.engine.selectors.tags cimport Tags
from leporid.engine.queue.takers cimport Level, Taker, Takers, leave_ring

cdef enum:
    SHARE_MIN = 4000                # of a turn's work for each queue, however many search
    AGAIN_SLACK = 1024              # numbers of what came back twice, before it is worth looking


cdef object key_of(object filter):
    """Equal for filters that ask the same."""
    if type(filter) is Selector:
        return (<Selector> filter).code
    if type(filter) is Tags:
        return frozenset((<Tags> filter).texts)
    if type(filter) is Conjunction:
        return key_of((<Conjunction> filter).first), key_of((<Conjunction> filter).second)
    if type(filter) is ClassFilter:
        return (<ClassFilter> filter).name, key_of((<ClassFilter> filter).first)
    return None if type(filter) is Filter else filter


cdef int search_on(Plane plane) except -1:
    """Let the queues go on that had more to look at than a turn has room for."""
    cdef Queue queue
    searching, plane.searching = plane.searching, []
    share = max(min(SHARE_MIN, plane.search_work), plane.search_work // len(searching))
    for queue in searching:
        if queue.wishes is not None:
            queue.wishes.searching = False
            queue.wishes.share = share
            queue.wake()
    return 0


cdef class Wish(Taker):
    """What some consumers want, and what was found for them."""


cdef class Party(Takers):
    """The consumers of one wish."""

    cdef int enter(self, Taker taker) except -1:
        cdef Takers everybody = self.wishes.queue.takers
        if everybody.single and taker is not everybody.chosen:
            return 0
        Takers.enter(self, taker)
        if self.wish.idle and self.wish.inquiry is None:
            return 0
        return self.wishes.take_turns(self.wish)


cdef class Wishes:
    """The wishes of one queue's consumers."""

    def __cinit__(self, Queue queue not None):
        cdef int lane
        self.queue = queue
        self.questions = questions_of(queue.plane, queue.id)
        self.by_key = {}
        self.cohorts = []
        self.inquiries = []
        self.turns = Takers()
        self.again = Order()
        self.everything = Wish()
        self.everything.takers = queue.takers
        self.lanes = 1 if queue.lanes is None else queue.max_priority + 1
        for lane in range(self.lanes):
            self.ends[lane] = queue.next_seq
        self.share = queue.plane.search_work

    # ------------------------------------------------------------- consumers

    cdef int attach(self, Taker taker) except -1:
        """A consumer with a filter comes; it is not among its queue's yet."""
        cdef object key = key_of(taker.filter)
        cdef Wish wish = self.by_key.get(key)
        cdef Party party
        if wish is None:
            wish = Wish()
            wish.key, wish.filter = key, taker.filter
            wish.found = [Order() for _ in range(self.lanes)]
            wish.takers = party = Party()
            party.wish, party.wishes = wish, self
            if type(wish.filter) is ClassFilter:
                wish.inquiry = Inquiry((<ClassFilter> wish.filter).name, wish, self)
                wish.filter = (<ClassFilter> wish.filter).first
            self.begin(wish)
            self.by_key[key] = wish
        wish.count += 1
        taker.home = wish.takers
        return 0

    cdef int begin(self, Wish wish) except -1:
        """It looks at what is there, from the head."""
        cdef Cohort cohort
        for cohort in self.cohorts:
            if cohort.fresh:
                break
        else:
            cohort = Cohort(self)
            self.cohorts.append(cohort)
        return cohort.join(wish)

    cdef bint detach(self, Taker taker) except -1:
        """A consumer with a filter has left; returns whether it was the last of all."""
        cdef Wish wish = (<Party> taker.home).wish
        wish.count -= 1
        if not wish.count:
            self.forget(wish)
        return not self.by_key

    cdef int forget(self, Wish wish) except -1:
        cdef Party party = <Party> wish.takers
        leave_ring(wish)
        wish.cohort.leave(wish)
        if wish.inquiry is not None:
            wish.inquiry.drop()
            wish.inquiry = None
        party.wish = party.wishes = None
        del self.by_key[wish.key]
        return 0

    # ------------------------------------------------------------- entries

    cdef int came_back(self, uint64_t seq) except -1:
        """An entry is ready again: whoever has looked beyond it must look at it once more."""
        if self.again.count > AGAIN_SLACK + 2 * self.queue.ready_count:
            self.queue.prune(self.again)
        return self.again.push(seq)

    cdef int purged(self) except -1:
        """No entry is ready: nothing that was found is there."""
        cdef Cohort cohort
        cdef Wish wish
        cdef int lane
        self.again.count = 0
        for cohort in self.cohorts:
            cohort.fresh = False
            for lane in range(self.lanes):
                cohort.cursors[lane] = self.queue.next_seq
        for wish in self.by_key.values():
            wish.found = [Order() for _ in range(self.lanes)]
            wish.found_count = 0
            if wish.inquiry is not None:
                wish.inquiry.forget_doubts()
        return 0

    # ------------------------------------------------------------- turns

    cdef int deliver(self) except -1:
        """Give entries to takers until what is ready, or they, run out, or the turn is long."""
        cdef Queue queue = self.queue
        cdef Wish wish
        cdef Taker taker
        cdef Inquiry inquiry
        cdef Slot *slot
        cdef uint64_t seq
        self.budget = 0 if self.searching else self.share
        self.share = queue.plane.search_work
        self.look_again()
        if self.again.count:
            return self.deliver_to_others()
        for inquiry in self.inquiries:
            inquiry.look_ahead()
        self.search()
        if queue.takers.levels:
            self.take_turns(self.everything)
        while queue.ready_count and self.turns.levels:
            wish = <Wish> (<Level> self.turns.levels[0]).head
            taker = wish.takers.turn()
            if taker is None:
                leave_ring(wish)
                continue
            if taker.priority != wish.priority:
                taker.level.head = taker  # it was not its turn
                leave_ring(wish)
                self.take_turns(wish)
                continue
            if not self.has(wish):
                taker.level.head = taker
                leave_ring(wish)
                continue
            wish.level.head = wish.next
            slot = queue.pop(&seq) if wish is self.everything else self.claim(wish, &seq)
            queue.delivered += 1
            taker.take(seq, slot)
        for inquiry in self.inquiries:
            inquiry.ask()
        return 0

    cdef int deliver_to_others(self) except -1:
        """Lest a later message is delivered before one that came back, those with filters wait."""
        cdef Queue queue = self.queue
        cdef Taker taker
        cdef Slot *slot
        cdef uint64_t seq
        while queue.ready_count:
            taker = queue.takers.turn()
            if taker is None:
                break
            slot = queue.pop(&seq)
            queue.delivered += 1
            taker.take(seq, slot)
        return 0

    cdef Slot *claim(self, Wish wish, uint64_t *seq) except NULL:
        """The first entry that was found for a wish, now UNACKED; there is one."""
        cdef Queue queue = self.queue
        cdef Slot *slot
        cdef int lane = self.best(wish) if wish.inquiry is None else wish.inquiry.best()
        seq[0] = (<Order> wish.found[lane]).pop()
        wish.found_count -= 1
        slot = queue.index.slot_of(seq[0])
        slot.state = UNACKED
        queue.ready_count -= 1
        queue.unacked_count += 1
        queue.ready_bytes -= queue.plane.record(slot.position).body_len
        return slot

    cdef int take_turns(self, Wish wish) except -1:
        """The wish has consumers that may be able to take, or has not."""
        cdef int priority
        if not wish.takers.levels:
            return 0
        priority = (<Level> wish.takers.levels[0]).priority
        if wish.level is not None:
            if priority <= wish.priority:
                return 0
            leave_ring(wish)
        wish.priority = priority
        return self.turns.enter(wish)

    cdef int rouse(self, Wish wish) except -1:
        if not wish.idle:
            return 0
        wish.idle = False
        wish.cohort.idle -= 1
        return self.take_turns(wish)

    cdef int rest(self, Wish wish) except -1:
        wish.idle = True
        wish.cohort.idle += 1
        return 0

    # ------------------------------------------------------------- searching

    cdef bint has(self, Wish wish) except -1:
        """Whether there is something for a wish; half of what is left of the turn is spent to find
        out. Otherwise it is idle."""
        cdef int lane, unseen
        cdef int64_t others
        if wish is self.everything:
            return True
        if wish.inquiry is not None:
            return wish.inquiry.best() >= 0
        others = self.budget // 2
        self.budget -= others
        while True:
            lane = self.best(wish)
            unseen = self.unseen(wish.cohort)
            if lane >= 0 and lane >= unseen or unseen < 0:
                break
            if self.budget <= 0:
                lane = -1  # there may be something of a higher priority
                self.postpone()
                break
            wish.cohort.scan(unseen, wish)
        self.budget += others
        if lane < 0:
            self.rest(wish)
        return lane >= 0

    cdef int best(self, Wish wish) except -2:
        """The highest priority of which something was found that is still there; -1: nothing."""
        cdef int lane = self.lanes - 1
        cdef Order order
        cdef Slot *slot
        while lane >= 0:
            order = <Order> wish.found[lane]
            while order.count:
                slot = self.queue.index.slot_of(order.heap[0])
                if slot != NULL and slot.state == READY:
                    return lane
                self.budget -= 1
                order.pop()
                wish.found_count -= 1
            lane -= 1
        return -1

    cdef int unseen(self, Cohort cohort):
        """The highest priority of which there is something to look at; -1: none."""
        cdef int lane = self.lanes - 1
        if lane == 0:
            return 0 if cohort.cursors[0] < self.queue.next_seq else -1
        while lane >= 0 and cohort.cursors[lane] >= self.ends[lane]:
            lane -= 1
        return lane

    cdef int search(self) except -1:
        """Look for something for those who wait: first for those who have seen most, so that none
        who comes late keeps them waiting."""
        cdef Cohort cohort
        cdef Wish wish
        cdef int64_t others = 0
        cdef bint newest
        if self.lanes > 1:
            # What it has may wait for something of a higher priority, so that each must ask.
            for wish in self.by_key.values():
                if wish.inquiry is None:
                    self.rouse(wish)
                else:
                    wish.inquiry.search()
            return 0
        for newest in (True, False):
            if newest and len(self.cohorts) > 1:
                others = self.budget // 2
                self.budget -= others
            while True:
                cohort = self.waiting(newest)
                if cohort is None:
                    break
                if self.budget <= 0:
                    self.postpone()
                    break
                cohort.scan(0, None)
            self.budget += others
            others = 0
        return 0

    cdef Cohort waiting(self, bint newest):
        """Of those with idle members and something to look at, who has seen most, or least."""
        cdef Cohort cohort, found = None
        for cohort in self.cohorts:
            if cohort.idle and self.unseen(cohort) >= 0 and (
                    found is None or (cohort.cursors[0] > found.cursors[0]) == newest):
                found = cohort
        return found

    cdef int look_again(self) except -1:
        """Look at what came back, lowest first, as far as the turn allows."""
        cdef Cohort cohort
        cdef Slot *slot
        cdef uint64_t seq
        while self.again.count:
            if self.budget <= 0:
                return self.postpone()
            seq = self.again.pop()
            slot = self.queue.index.slot_of(seq)
            self.budget -= 1
            if slot == NULL or slot.state != READY:
                continue
            for cohort in tuple(self.cohorts):
                if cohort.cursors[slot.priority] <= seq:
                    continue
                if cohort.is_full():
                    cohort.recede(seq, slot.priority)
                else:
                    cohort.look(seq, slot.priority, slot)
        return 0

    cdef int postpone(self) except -1:
        if not self.searching:
            self.searching = True
            self.queue.plane.searching.append(self.queue)
        return 0
