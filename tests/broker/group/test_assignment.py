"""Shares of partitions: examples here, and whatever may happen in tests/model."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from leporid.broker.group.assignment import Coordinator, Moves


def six() -> Coordinator[str, int]:
    return Coordinator(range(6))


def shares(group: Coordinator[str, int]) -> dict[str, list[int]]:
    return {member: group.share(member) for member in group.members}


def settle(group: Coordinator[str, int], moves: Moves[str, int]) -> list[tuple[int, str]]:
    """Let everybody let go at once; returns who got what."""
    started = list(moves.start)
    for partition, _ in moves.stop:
        started += settle(group, group.release(partition))
    return started


def test_the_first_member_has_everything():
    group = six()
    moves = group.join("a")
    assert (moves.stop, moves.start) == ([], [(number, "a") for number in range(6)])
    assert repr(group) == "<Coordinator members=1 partitions=6 stopping=0>"


def test_who_joins_gets_something_when_it_is_free():
    group = six()
    group.join("a")
    moves = group.join("b")
    assert (moves.stop, moves.start) == ([(3, "a"), (4, "a"), (5, "a")], [])
    assert group.is_stopping(4)
    assert group.holder(4) == "a"
    assert group.release(4) == Moves(start=[(4, "b")])
    assert (group.holder(4), group.holder(3)) == ("b", "a")
    assert group.release(3) == Moves(start=[(3, "b")])


def test_as_few_move_as_possible():
    group = six()
    for member in "abc":
        settle(group, group.join(member))
    assert shares(group) == {"a": [0, 1], "b": [3, 4], "c": [2, 5]}
    assert settle(group, group.join("d")) == [(5, "d")]
    before = shares(group)
    settle(group, group.leave("b"))
    after = shares(group)
    for member in "acd":
        assert set(before[member]) <= set(after[member])
    assert sorted(map(len, after.values())) == [2, 2, 2]


def test_what_a_crashed_member_had_goes_on_at_once():
    group = six()
    settle(group, group.join("a"))
    settle(group, group.join("b"))
    moves = group.crash("a")
    assert (moves.stop, moves.start) == ([], [(0, "b"), (1, "b"), (2, "b")])


def test_a_member_that_left_may_crash_before_it_let_go():
    group = six()
    settle(group, group.join("a"))
    group.join("b")
    group.leave("a")
    assert group.holder(0) == "a"
    assert group.crash("a").start == [(number, "b") for number in range(6)]
    assert group.crash("a") == Moves()


def test_what_is_to_be_taken_from_a_member_it_may_get_back_but_not_before_it_let_go():
    group = six()
    group.join("a")
    group.join("b")
    assert group.crash("b") == Moves()
    assert group.share("a") == list(range(6))
    assert group.is_stopping(5)
    assert group.release(5) == Moves(start=[(5, "a")])


def test_more_members_than_partitions():
    group = Coordinator[str, int](range(1))
    group.join("a")
    assert group.join("b") == Moves()
    assert shares(group) == {"a": [0], "b": []}
    assert group.crash("a").start == [(0, "b")]


def test_partitions_come_and_go():
    group = six()
    settle(group, group.join("a"))
    settle(group, group.join("b"))
    moves = group.change([0, 1, 6])
    assert (moves.stop, moves.start) == ([], [(6, "b")])
    assert group.partitions == [0, 1, 6]
    assert (group.holder(5), group.holder(6)) == (None, "b")


def test_without_members_nobody_has_anything():
    group = six()
    moves = group.join("a")
    assert group.leave("a").stop == moves.start
    for number in range(6):
        assert group.release(number) == Moves()
        assert group.holder(number) is None


class Counted:
    """A member that counts how often anybody looks it up."""

    looks = 0

    def __init__(self, number: int) -> None:
        self.number = number

    def __hash__(self) -> int:
        Counted.looks += 1
        return self.number

    def __eq__(self, other: object) -> bool:
        return self is other


def work(count: int, partitions: int, event: Callable[[Coordinator[Counted, int]], object]) -> int:
    """Return how much one event looks up in a group of so many members."""
    group: Coordinator[Counted, int] = Coordinator(range(partitions))
    for number in range(count):
        settle_all(group, group.join(Counted(number)))
    before = Counted.looks
    event(group)
    return Counted.looks - before


def settle_all(group: Coordinator[Counted, int], moves: Moves[Counted, int]) -> None:
    for partition, _ in moves.stop:
        group.release(partition)


@pytest.mark.parametrize("partitions", [1, 50])
@pytest.mark.parametrize("at", [0, 70, -1])
@pytest.mark.parametrize("event", ["leave", "crash"])
def test_one_member_less_is_the_same_work_among_thousands(partitions: int, at: int, event: str):
    def end(group: Coordinator[Counted, int]) -> None:
        getattr(group, event)(members[at])

    costs = []
    for count in (100, 3000):
        members = [Counted(number) for number in range(count)]
        group: Coordinator[Counted, int] = Coordinator(range(partitions))
        for member in members:
            settle_all(group, group.join(member))
        before = Counted.looks
        end(group)
        costs.append(Counted.looks - before)
    assert costs[0] == costs[1] <= 30


@pytest.mark.parametrize("partitions", [1, 50])
def test_one_member_more_is_the_same_work_among_thousands(partitions: int):
    few, many = (
        work(count, partitions, lambda group: group.join(Counted(-2))) for count in (100, 3000)
    )
    assert few == many <= 30


def test_all_members_leave_at_once_without_being_looked_at():
    assert work(3000, 50, lambda group: group.leave_all()) <= 50
    group = six()
    moves = group.join("a")
    group.join("b")
    members, stopped = group.leave_all()
    assert list(members) == ["a", "b"]
    assert stopped.stop == [each for each in moves.start if each[0] < 3]
    assert [group.holder(number) for number in range(6)] == ["a"] * 6
    for number in range(6):
        assert group.release(number) == Moves()
    assert group.join("c").start == [(number, "c") for number in range(6)]


def test_who_waits_longest_is_next():
    group = Coordinator[str, int](range(2))
    for member in "abcd":
        settle(group, group.join(member))
    assert group.crash("b").start == [(1, "c")]
    group.leave("d")
    settle(group, group.join("e"))
    assert settle(group, group.leave("a")) == [(0, "e")]
