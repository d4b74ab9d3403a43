"""The inverted index: members are found by the values that they require, whatever their form."""

from __future__ import annotations

from tests.engine.allocations import allocated_bytes
from tests.engine.selectors.test_selector_set import ROCKETMQ, asked, made_of, matching, selector

from leporid.engine.selectors.selector_set import SelectorSet
from leporid.engine.selectors.tags import Tags


def test_who_is_met_in_two_ways_is_asked_once():
    members = made_of(*(selector(f"a = {n} OR b = {n} OR a = {n}") for n in range(10)))
    assert asked(members, a=5, b=5) == 1
    assert matching(members, a=5, b=5) == [5]
    assert matching(members, a=5, b=6) == [5, 6]
    assert asked(members, a="text", b=6) == 10


def test_beginnings_of_all_lengths_are_found():
    members = made_of(*(selector(f"a LIKE '{'ä' * n}%'") for n in range(1, 30)))
    for n in range(32):
        assert matching(members, a="ä" * n) == list(range(min(n, 29)))
    for n in range(29):
        members.remove(n)
    assert matching(members, a="ä" * 30) == []
    assert members.add(selector("a LIKE 'b%'")) == 28
    assert matching(members, a="bc") == [28]


def test_a_value_of_another_kind_asks_all_that_are_indexed_there():
    one, other = selector("n = 1"), selector("n = 2")
    members = made_of(one, other, selector("n = 'a'", ROCKETMQ))
    assert asked(members, n="a") == 3
    assert one.type_errors == other.type_errors == 1
    assert members.counts[3] == 2


def test_numbers_of_all_types_are_one_value():
    members = made_of(selector("n = 9007199254740993"), selector("n = 9007199254740992.0"))
    assert matching(members, n=9007199254740993) == [0]
    assert matching(members, n=9007199254740992) == [1]
    assert matching(members, n=9007199254740992.0) == [1]
    assert matching(made_of(selector("n = 0")), n=-0.0) == [0]


def test_what_left_leaves_no_memory_behind():
    members = SelectorSet()
    filters = [selector(f"a{n} = {n} AND b > 5 AND c LIKE '%x%'") for n in range(50)]

    def turn() -> None:
        numbers = [members.add(one) for one in filters] + [members.add(Tags([b"a", b"b"]))]
        for number in numbers:
            members.remove(number)

    turn()
    before = allocated_bytes()
    for _ in range(50):
        turn()
    assert allocated_bytes() - before < 20_000
