"""Interned names: ids of headers are given as long as a member uses them, and then again."""

from __future__ import annotations

import pytest
from tests.engine.selectors.test_selector_set import made_of, matching, selector

from leporid.engine.selectors.selector_set import SelectorSet


def test_names_that_nobody_uses_any_more_are_forgotten():
    members = SelectorSet()
    for round_ in range(3):
        numbers = [members.add(selector(f"name{round_}{n} > {n}")) for n in range(300)]
        for n in (0, 150, 299):
            assert matching(members, **{f"name{round_}{n}": n + 1}) == [numbers[n]]
        for number in numbers:
            members.remove(number)
    assert len(members) == 0
    assert matching(members, name00=1) == []


@pytest.mark.slow
def test_more_names_than_have_numbers():
    """A member that has no room for its names reads the message itself."""
    headers = 120
    texts = [" OR ".join(f"h{part}x{n} = 1" for n in range(headers // 4)) for part in range(2200)]
    members = made_of(*(selector(text) for text in texts))
    for part in (0, 1000, 2199):
        assert matching(members, **{f"h{part}x3": 1}) == [part]
