"""Required texts of expressions, and that none rules out a message that matches."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.filters.trees import expressions, messages

from leporid.amqp.properties import Properties
from leporid.filters.dialects import Dialect
from leporid.filters.interpreter import Outcome, evaluate
from leporid.filters.messages import FilteredMessage
from leporid.filters.nodes import Header, Property, RoutingKey, Tag
from leporid.filters.parser import parse
from leporid.filters.required_texts import RequiredTexts, required_texts

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
def test_required_texts_of_a_name(dialect, text, name, texts):
    expected = RequiredTexts(name, frozenset(one.encode() for one in texts.split()))
    assert expected in required_texts(parse(text, dialect))


def test_required_texts_of_the_tag():
    found = required_texts(parse("TAGS IN ('A', 'B')", ROCKETMQ))
    assert found == (RequiredTexts(Tag(), frozenset((b"A", b"B"))),)


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
def test_expressions_that_require_no_text(dialect, text):
    assert required_texts(parse(text, dialect)) == ()


def test_numbers_in_a_list_are_no_required_texts():
    assert required_texts(parse("a IN (1, 2)")) == ()
    assert required_texts(parse("a IN (1, 'x')")) == (RequiredTexts(A, frozenset((b"x",))),)


def rules_out(required: RequiredTexts, message: FilteredMessage) -> bool:
    value = message.value_of(required.name)
    return (value is None or isinstance(value, bytes)) and value not in required.texts


def test_values_that_are_no_text_may_match():
    number = FilteredMessage(Properties(headers={"a": 5}))
    tree = parse("a = '5'", ROCKETMQ)
    assert not any(rules_out(each, number) for each in required_texts(tree))
    assert evaluate(tree, ROCKETMQ, number) is Outcome.MATCH


@settings(max_examples=25)
@given(expressions, st.lists(messages, min_size=1, max_size=8))
def test_what_is_ruled_out_does_not_match(expression, some):
    dialect, tree = expression
    for message in some:
        if any(rules_out(each, message) for each in required_texts(tree)):
            assert evaluate(tree, dialect, message) is not Outcome.MATCH
