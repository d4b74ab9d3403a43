"""Members of a set of filters: whatever they are made of, what they take goes with them."""

from __future__ import annotations

from itertools import count

from tests.engine.allocations import allocated_bytes
from tests.engine.selectors.test_selector_set import encoded, selector

from leporid.engine.bounds.clock import Clock
from leporid.engine.selectors.filter import Conjunction
from leporid.engine.selectors.selector_set import SelectorSet
from leporid.engine.selectors.tags import Tags

MANY = ", ".join(f"'{at}'" for at in range(90))


def test_members_of_all_kinds_leave_no_memory_behind():
    members = SelectorSet()
    filters = [
        selector("a = 1 AND b > 2"),
        selector(f"a NOT IN ({MANY})"),
        selector("a LIKE '%x%' OR b LIKE '%y%'"),
        Conjunction(Tags([b"%d" % at for at in range(50)]), selector("NOT (a LIKE '%x%')")),
    ]

    def turn() -> None:
        for number in [members.add(one) for one in filters]:
            members.remove(number)

    turn()
    before = allocated_bytes()
    for _ in range(200):
        turn()
    assert allocated_bytes() - before < 20_000


def test_a_match_that_nobody_goes_on_with_leaves_no_memory_behind():
    clock = Clock()
    members = SelectorSet()
    for _ in range(50):
        members.add(selector("a LIKE '%x%' OR a LIKE '%y%'"))
    raw = encoded(a="z" * 100_000)

    def turn() -> None:
        clock.monotonic_ns = count(0, 1_000_000).__next__
        assert members.ask("e", "k", raw, clock)[1] is not None

    turn()
    before = allocated_bytes()
    for _ in range(100):
        turn()
    assert allocated_bytes() - before < 20_000
