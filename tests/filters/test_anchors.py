"""Anchors: what a message must have, and never a wrong no."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.filters.trees import expressions, messages

from leporid.amqp.properties import Properties
from leporid.filters.anchors import Anchor, anchors_of
from leporid.filters.dialects import Dialect
from leporid.filters.interpreter import Outcome, evaluate
from leporid.filters.messages import FilteredMessage
from leporid.filters.nodes import Header, Property, RoutingKey, Tag
from leporid.filters.parser import parse

JMS, ROCKETMQ = Dialect.JMS, Dialect.ROCKETMQ
A = Header("a")


@pytest.mark.parametrize(
    ("text", "name", "texts"),
    [
        ("a = 'x'", A, "x"),
        ("'x' = a", A, "x"),
        ("a = 'x' AND b > 5", A, "x"),
        ("b > 5 AND (c OR d) AND a = 'x'", A, "x"),
        ("a IN ('x', 'y')", A, "x y"),
        ("a = 'x' OR a = 'y' OR a IN ('z')", A, "x y z"),
        ("a IN ('x', 'y') AND a = 'y'", A, "y"),
        ("(a = 'x' OR a = 'y') AND p.type = 't'", Property("type"), "t"),
        ("a = 'x' AND b > 1 OR a = 'y' AND b > 2", A, "x y"),
        ("routing_key = 'é'", RoutingKey(), "é"),
    ],
)
@pytest.mark.parametrize("dialect", list(Dialect))
def test_anchors(dialect, text, name, texts):
    expected = Anchor(name, frozenset(one.encode() for one in texts.split()))
    assert expected in anchors_of(parse(text, dialect))


def test_an_anchor_at_the_tag():
    found = anchors_of(parse("TAGS IN ('A', 'B')", ROCKETMQ))
    assert found == (Anchor(Tag(), frozenset((b"A", b"B"))),)


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "a = 5",
        "a <> 'x'",
        "NOT (a = 'x')",
        "a NOT IN ('x')",
        "a = b",
        "a > 5",
        "a = 'x' OR b = 'x'",
        "a = 'x' OR b > 5",
        "a CONTAINS 'x'",
        "(a = 'x') = TRUE",
        "'x' = 'x'",
        "a IS NULL",
    ],
)
@pytest.mark.parametrize("dialect", list(Dialect))
def test_no_anchor(dialect, text):
    assert anchors_of(parse(text, dialect)) == ()


def test_numbers_in_a_list_are_no_anchor():
    assert anchors_of(parse("a IN (1, 2)")) == ()
    assert anchors_of(parse("a IN (1, 'x')")) == (Anchor(A, frozenset((b"x",))),)


def test_says_nothing_of_what_is_no_text():
    anchor = Anchor(A, frozenset((b"5",)))
    assert anchor.excludes(FilteredMessage(Properties(headers={"a": "6"})))
    assert anchor.excludes(FilteredMessage())
    assert not anchor.excludes(FilteredMessage(Properties(headers={"a": "5"})))
    assert not anchor.excludes(FilteredMessage(Properties(headers={"a": 5})))
    assert evaluate(
        parse("a = '5'", ROCKETMQ), ROCKETMQ, FilteredMessage(Properties(headers={"a": 5}))
    ) is (Outcome.MATCH)


@settings(deadline=None, max_examples=25)
@given(expressions, st.lists(messages, min_size=1, max_size=8))
def test_never_a_wrong_no(expression, some):
    dialect, tree = expression
    for message in some:
        if any(anchor.excludes(message) for anchor in anchors_of(tree)):
            assert evaluate(tree, dialect, message) is not Outcome.MATCH
