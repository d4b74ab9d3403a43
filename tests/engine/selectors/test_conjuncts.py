"""Conjuncts: which selectors can be indexed by a value that they require, and by which."""

from __future__ import annotations

import pytest
from tests.engine.selectors.test_selector_set import (
    JMS,
    ROCKETMQ,
    asked,
    made_of,
    matching,
    selector,
)


@pytest.mark.parametrize(
    ("text", "headers", "dialect"),
    [
        ("origin IN ('x', 'O{n}', 'x')", {"origin": "O5"}, JMS),
        ("'O{n}' = origin", {"origin": "O5"}, JMS),
        ("n = {n}", {"n": 5.0}, JMS),
        ("n = {n}.0 AND TRUE", {"n": 5}, JMS),
        ("n > 0 AND (m < 3 AND n = {n}.5)", {"n": 5.5, "m": 1}, JMS),
        ("o LIKE 'O{n}'", {"o": "O5"}, JMS),
        ("o STARTSWITH 'O{n}.'", {"o": "O5.x"}, ROCKETMQ),
        ("NOT (origin <> 'O{n}' OR n > 5)", {"origin": "O5", "n": 0}, JMS),
        ("NOT NOT (n NOT BETWEEN 1 AND 2 AND n = {n})", {"n": 5}, JMS),
        ("NOT (o NOT LIKE 'O{n}' OR n = 1)", {"o": "O5", "n": 0}, JMS),
        ("TAGS = 'O{n}' AND a IS NULL", {"x-tag": "O5"}, ROCKETMQ),
        ("TAGS = 'O{n}'", {"x-stream-filter-value": "O5"}, ROCKETMQ),
    ],
)
def test_how_an_equality_may_be_written(text, headers, dialect):
    members = made_of(*(selector(text.format(n=n), dialect) for n in range(100)))
    assert members.indexed == 100
    assert matching(members, **headers) == [5]
    assert asked(members, **headers) == 1


def test_an_equality_that_need_not_hold_does_not_count():
    for text in (
        "origin = 'a' OR n > 1",
        "NOT (origin = 'a')",
        "NOT (origin <> 'a' OR n > 1) OR n > 2",
        "origin LIKE '%a'",
        "origin NOT LIKE 'a%'",
        "NOT (origin LIKE 'a%')",
        "origin STARTSWITH ''",
        "origin <> 'a'",
        "origin NOT IN ('a')",
        "origin IN ('a', 5)",
        "(origin = 'a') IS NULL",
    ):
        assert made_of(selector(text)).indexed == 0, text


@pytest.mark.parametrize(
    "headers", [{"a": "A5"}, {"b": 5}, {"c": "C5"}, {"a": "x", "b": 5.0}, {"b": 500, "c": "D5"}]
)
def test_what_may_be_met_in_several_ways_is_found_by_each(headers):
    texts = [f"a = 'A{n}' OR (b = {n} AND c IS NULL) OR c IN ('C{n}', 'D{n}')" for n in range(100)]
    members = made_of(*map(selector, texts))
    assert members.indexed == 100
    assert matching(members, **headers) == [5]
    assert asked(members, **headers) == 1


@pytest.mark.parametrize("written", ["a LIKE '{}%'", "a LIKE '{}_%'", "a STARTSWITH '{}'"])
def test_beginnings_are_looked_up(written):
    members = made_of(*(selector(written.format(f"{n}.") + " OR b = 1") for n in range(2000)))
    assert members.indexed == 2000
    assert matching(members, a="17.x") == [17]
    assert asked(members, a="17.x") == 1
    assert asked(members, a="17") == 0
    # What is no text begins with nothing.
    assert asked(members, a=17) == 0


def test_a_member_is_indexed_where_the_fewest_are():
    """All want the same kind of message, each of another place."""
    members = made_of(*(selector(f"kind = 'k' AND place = {n}") for n in range(100)))
    assert asked(members, kind="k", place=50) <= 2
    assert matching(members, kind="k", place=50) == [50]
