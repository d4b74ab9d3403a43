"""Slots by key: the rule by examples, and any order of events against a small model."""

from collections import Counter
from collections.abc import Hashable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from leporid.limits.refusals import Refusals
from leporid.limits.shares import NoSlot, Share, Slot, Waiter, address_key

KEYS = st.sampled_from(["ann", "ben", "cat", "dan"])


def share_of(slots: int, waiting_max: int = 0) -> Share:
    return Share("things", slots, Refusals(), waiting_max)


def take_all(share: Share, key: Hashable) -> list[Slot]:
    """Take one by one until the key is refused."""
    taken = []
    while True:
        try:
            taken.append(share.take(key))
        except NoSlot:
            return taken


# ---------------------------------------------------------------- who gets how many


@given(st.integers(1, 300))
def test_a_lone_key_gets_half(slots):
    assert len(take_all(share_of(slots), "ann")) == (slots + 1) // 2


@given(st.integers(1, 40), st.integers(1, 400))
def test_n_keys_that_take_in_turn_get_the_next_part_each(keys, slots):
    share = share_of(slots)
    refused: set[int] = set()
    while len(refused) < keys:
        for key in set(range(keys)) - refused:
            try:
                share.take(key)
            except NoSlot:
                refused.add(key)
    for key in range(keys):
        assert slots // (keys + 1) <= share.held(key) <= slots // (keys + 1) + 1


@given(st.integers(1, 300), st.integers(1, 9))
def test_who_comes_after_greedy_keys_gets_a_slot(slots, greedy):
    share = share_of(slots)
    for key in range(greedy):
        take_all(share, key)
    if 2**greedy <= slots:
        share.take("late")


def test_a_refusal_names_the_limit_and_whose_slots_are_used_up():
    refusals = Refusals()
    share = Share("http_things", 2, refusals)
    assert refusals.by_kind == {"http_things": 0}
    share.take("ann")
    with pytest.raises(NoSlot, match="http_things: there are 2, and your share") as own:
        share.take("ann")
    assert (own.value.limit, own.value.value, own.value.own) == ("http_things", 2, True)
    share.take("ben")
    with pytest.raises(NoSlot, match="http_things: there are 2, and all are in use") as every:
        share.take("cat")
    assert not every.value.own
    assert refusals.by_kind == {"http_things": 2}


def test_units_are_taken_all_or_none_and_more_may_be_added():
    share = share_of(100)
    slot = share.take("ann", 30)
    with pytest.raises(NoSlot):
        share.take("ann", 41)
    assert share.used == 30
    slot.add(40)
    assert (slot.count, share.held("ann"), share.free) == (70, 70, 30)
    with pytest.raises(NoSlot):
        slot.add(1)
    assert share.held("ann") == 70
    slot.release()
    slot.release()
    assert (slot.count, share.used, share.held("ann")) == (0, 0, 0)


def test_a_slot_ends_with_its_block():
    share = share_of(2)
    with pytest.raises(ZeroDivisionError), share.take("ann"):
        raise ZeroDivisionError
    assert share.used == 0


def test_the_largest_is_who_holds_most():
    share = share_of(100)
    assert share.largest() is None
    share.take("ann", 2)
    slot = share.take("ben", 3)
    assert share.largest() == "ben"
    slot.release()
    assert share.largest() == "ann"


def test_all_addresses_of_an_ipv6_network_are_one_key():
    assert address_key("2001:db8::1") == address_key("2001:db8::ffff:0:0:1%eth0")
    assert address_key("2001:db8::1") != address_key("2001:db8:0:1::1")
    assert address_key("192.0.2.1") == address_key("::ffff:192.0.2.1")
    # A user may be called so.
    assert address_key("192.0.2.1") != "192.0.2.1"
    assert str(address_key("192.0.2.1")) == "192.0.2.1"
    assert address_key("192.0.2.1") != address_key("192.0.2.2")
    assert str(address_key("a socket")) == "a socket"


# ---------------------------------------------------------------- who waits


def test_lines_take_turns():
    share = share_of(1, waiting_max=100)
    begun: list[str] = []
    slots: list[Slot] = []

    def wait(key: str) -> None:
        def begin(slot: Slot) -> None:
            begun.append(key)
            slots.append(slot)

        share.wait(key, begin)

    for key in ("ann", "ann", "ann", "ben", "ben", "cat"):
        wait(key)
    while slots:
        slots.pop().release()
    assert begun == ["ann", "ann", "ben", "cat", "ann", "ben"]


def test_who_waits_for_many_is_not_in_the_way_of_others():
    share = share_of(10, waiting_max=100)
    begun: list[Slot] = []
    slot = share.take("ann", 4)
    many = share.wait("ben", begun.append, 7)
    share.wait("ben", begun.append, 1)  # behind that
    share.wait("cat", begun.append, 3)
    assert [each.count for each in begun] == [3]
    slot.keep(3)
    assert len(begun) == 1
    many.leave()
    assert [each.count for each in begun] == [3, 1]
    slot.release()
    share.wait("dan", begun.append, 6)
    assert (begun[-1].count, share.free) == (6, 0)


def test_one_key_gets_half_of_the_places_to_wait():
    share = share_of(1, waiting_max=6)
    share.take("ann")
    for _ in range(3):
        share.wait("ann", print)
    with pytest.raises(NoSlot) as own:
        share.wait("ann", print)
    assert own.value.own
    for key in ("ben", "ben", "cat"):
        share.wait(key, print)
    with pytest.raises(NoSlot) as every:
        share.wait("dan", print)
    assert not every.value.own
    assert share.waiting == 6


def test_who_leaves_the_line_is_never_called():
    share = share_of(1, waiting_max=6)
    slot = share.take("ann")
    called: list[Slot] = []
    share.wait("ben", called.append).leave()
    slot.release()
    assert (called, share.used, share.waiting) == ([], 0, 0)


def test_who_leaves_when_its_turn_has_come_releases_its_slot():
    share = share_of(1, waiting_max=6)
    waiter = share.wait("ann", lambda _: None)
    assert share.used == 1
    waiter.leave()
    waiter.leave()
    assert share.used == 0


def test_who_gives_up_is_refused_and_counted():
    refusals = Refusals()
    share = Share("things", 2, refusals, waiting_max=6)
    slots = [share.take("ann"), share.take("ben")]
    waiter = share.wait("ben", print)
    every = waiter.give_up()
    assert (every.limit, every.value, every.own) == ("things", 2, False)
    assert (share.waiting, refusals.by_kind) == (0, {"things": 1})
    waiter = share.wait("ben", print)
    slots[0].release()
    assert waiter.give_up().own


def test_many_who_release_as_soon_as_they_begin():
    share = share_of(1, waiting_max=20_000)
    slot = share.take("ann")
    begun = []

    def begin(given: Slot) -> None:
        begun.append(given)
        given.release()

    for _ in range(5_000):
        share.wait("ben", begin)
    slot.release()
    assert (len(begun), share.used) == (5_000, 0)


@given(st.integers(1, 5), st.integers(1, 4), st.data())
def test_nobody_starves(slots, greedy, data):
    """However others come and go, who waits has a slot after a bounded number of releases."""
    share = share_of(slots, waiting_max=1000)
    running: list[Slot] = []

    def fill() -> None:
        for key in range(greedy):
            while not share.waiting_of(key):
                share.wait(key, running.append)

    fill()
    mine: list[Slot] = []
    share.wait("late", mine.append)
    releases = 0
    while not mine:
        running.pop(data.draw(st.integers(0, len(running) - 1))).release()
        releases += 1
        fill()
        assert releases <= greedy + 1


class Model(RuleBasedStateMachine):
    """A share against lists that are searched from one end to the other."""

    SLOTS = 7
    WAITING = 6

    def __init__(self) -> None:
        super().__init__()
        self.refusals = Refusals()
        self.share = Share("things", self.SLOTS, self.refusals, self.WAITING)
        self.slots: list[tuple[str, Slot]] = []
        self.waiters: list[tuple[str, Waiter]] = []
        self.expected: list[tuple[str, int]] = []
        self.turns: list[Hashable] = []
        self.refused = 0

    def held(self, key: str) -> int:
        return sum(slot.count for of, slot in self.slots if of == key)

    def free(self) -> int:
        return self.SLOTS - sum(slot.count for _, slot in self.slots)

    def line(self, key: Hashable) -> list[Waiter]:
        return [waiter for of, waiter in self.waiters if of == key]

    @rule(key=KEYS, count=st.integers(1, 4))
    def take(self, key: str, count: int) -> None:
        fits = self.held(key) + count <= self.free()
        if fits:
            self.slots.append((key, self.share.take(key, count)))
            return
        with pytest.raises(NoSlot) as refused:
            self.share.take(key, count)
        assert refused.value.own == (self.free() >= count)
        self.refused += 1

    @precondition(lambda self: self.slots)
    @rule(data=st.data(), count=st.integers(1, 3))
    def add(self, data: st.DataObject, count: int) -> None:
        key, slot = data.draw(st.sampled_from(self.slots))
        fits = self.held(key) + count <= self.free()
        try:
            slot.add(count)
        except NoSlot:
            assert not fits
            self.refused += 1
        else:
            assert fits

    @rule(key=KEYS, count=st.sampled_from([1, 1, 1, 2, 5]))
    def wait(self, key: str, count: int) -> None:
        fits = not self.line(key) and self.held(key) + count <= self.free()
        places = self.WAITING - len(self.waiters)
        begun: list[Slot] = []

        def begin(slot: Slot) -> None:
            begun.append(slot)
            self.slots.append((key, slot))

        if not fits and len(self.line(key)) >= places:
            with pytest.raises(NoSlot) as refused:
                self.share.wait(key, begin, count)
            assert refused.value.own == (places > 0 or self.free() > 0)
            self.refused += 1
            return
        waiter = self.share.wait(key, begin, count)
        assert [slot.count for slot in begun] == [count] * fits
        if not fits:
            if key not in self.turns:
                self.turns.append(key)
            self.waiters.append((key, waiter))

    def give(self) -> None:
        """Move those who wait, one by one, as the rule says."""
        moved = [waiter for _, waiter in self.waiters if waiter.slot is not None]
        expected: list[Waiter] = []
        held: Counter[Hashable] = Counter(
            {key: self.held(key) for key in ("ann", "ben", "cat", "dan")}
        )
        for waiter in moved:
            held[waiter.key] -= waiter.count
        free = self.SLOTS - held.total()
        lines = {key: self.line(key) for key in self.turns}
        while True:
            ready = [key for key in self.turns if held[key] + lines[key][0].count <= free]
            if not ready:
                break
            first = lines[ready[0]].pop(0)
            expected.append(first)
            self.turns.remove(first.key)
            held[first.key] += first.count
            free -= first.count
            if lines[first.key]:
                self.turns.append(first.key)
        assert set(map(id, expected)) == set(map(id, moved))
        self.waiters = [(key, waiter) for key, waiter in self.waiters if waiter.slot is None]

    @precondition(lambda self: self.slots)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        one = data.draw(st.sampled_from(self.slots))
        self.slots.remove(one)
        one[1].release()
        self.give()

    @precondition(lambda self: self.waiters)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        one = data.draw(st.sampled_from(self.waiters))
        self.waiters.remove(one)
        one[1].leave()
        if not self.line(one[0]):
            self.turns.remove(one[0])
        self.give()

    @precondition(lambda self: self.slots)
    @rule(data=st.data(), count=st.integers(1, 3))
    def keep(self, data: st.DataObject, count: int) -> None:
        _, slot = data.draw(st.sampled_from(self.slots))
        before = slot.count
        slot.keep(count)
        assert slot.count == min(before, count)
        self.give()

    @invariant()
    def agrees(self) -> None:
        assert self.share.used + self.share.free == self.SLOTS
        assert self.share.free == self.free()
        assert self.share.waiting == len(self.waiters) <= self.WAITING
        for key in ("ann", "ben", "cat", "dan"):
            assert self.share.held(key) == self.held(key)
            line = self.line(key)
            assert not line or self.held(key) + line[0].count > self.free()
        assert self.refusals.by_kind["things"] == self.refused


TestAnyOrderOfEvents = pytest.mark.slow(Model.TestCase)
