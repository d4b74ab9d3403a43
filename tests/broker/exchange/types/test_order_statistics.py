"""Values in order, against a sorted list; and what a change costs, in comparisons."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leporid.broker.exchange.types.order_statistics import OrderStatisticTree


@settings(max_examples=300)
@given(
    changes=st.lists(st.integers(0, 30), max_size=60),
    priorities=st.randoms(use_true_random=False),
)
def test_it_has_what_a_sorted_list_has(changes: list[int], priorities: random.Random) -> None:
    tree: OrderStatisticTree[int, str] = OrderStatisticTree()
    there: set[int] = set()
    for key in changes:
        if key in there:
            there.remove(key)
            tree.remove(key)
        else:
            there.add(key)
            # Few priorities, so that some are equal.
            tree.add(key, str(key), priorities.randrange(5))
        assert len(tree) == len(there)
        assert [tree[at] for at in range(len(tree))] == [str(each) for each in sorted(there)]


def test_there_is_nothing_beyond_the_last():
    tree: OrderStatisticTree[int, str] = OrderStatisticTree()
    tree.add(1, "one", 0)
    assert tree[0] == "one"
    with pytest.raises(IndexError):
        tree[1]


class Counted:
    """A key that counts comparisons."""

    compared = 0

    def __init__(self, number: int) -> None:
        self.number = number

    def __lt__(self, other: Counted) -> bool:
        Counted.compared += 1
        return self.number < other.number


@pytest.mark.parametrize("order", ["ascending", "descending", "any"])
def test_a_change_costs_the_logarithm_of_what_there_is(order: str):
    chance = random.Random(1)
    numbers = list(range(4096))
    if order == "descending":
        numbers.reverse()
    elif order == "any":
        chance.shuffle(numbers)
    tree: OrderStatisticTree[Counted, int] = OrderStatisticTree()
    keys = {}
    most = 0
    for number in numbers:
        keys[number] = Counted(number)
        Counted.compared = 0
        tree.add(keys[number], number, chance.getrandbits(64))
        most = max(most, Counted.compared)
    chance.shuffle(numbers)
    for number in numbers:
        Counted.compared = 0
        tree.remove(keys[number])
        most = max(most, Counted.compared)
    # Twelve levels, and some more, as chance has it.
    assert most < 60
    assert not len(tree)
