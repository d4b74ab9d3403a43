"""The naive interpreter: what it looks at, and in which order."""

from __future__ import annotations

import pytest

from leporid.amqp.properties import Properties
from leporid.filters.dialects import Dialect
from leporid.filters.interpreter import Evaluation, Outcome, evaluate, said
from leporid.filters.messages import FilteredMessage, Other
from leporid.filters.parser import parse

JMS, ROCKETMQ = Dialect.JMS, Dialect.ROCKETMQ


def steps(text: str, dialect: Dialect = JMS, **headers: object) -> list[tuple[str, object]]:
    """Parts in the order in which they got their value; ! where there is none."""
    message = FilteredMessage(Properties(headers=headers))  # type: ignore[arg-type]
    evaluation = Evaluation(parse(text, dialect), dialect, message)
    return [
        (text[slice(*step.node.span)], "!" if step.bad_type else step.value)
        for step in evaluation.steps
    ]


def test_operands_come_before_operators():
    assert steps("a + 1 > b", a=1, b=5) == [
        ("a", 1),
        ("1", 1),
        ("a + 1", 2),
        ("b", 5),
        ("a + 1 > b", False),
    ]


@pytest.mark.parametrize(
    ("text", "reached"),
    [
        ("f AND b", False),
        ("t AND b", True),
        ("m AND b", True),
        ("t OR b", False),
        ("f OR b", True),
        ("m OR b", True),
    ],
)
@pytest.mark.parametrize("dialect", list(Dialect))
def test_what_does_not_count_is_not_looked_at(dialect, text, reached):
    names = [part for part, _ in steps(text, dialect, f=False, t=True, b=True)]
    assert ("b" in names) is reached


def test_a_type_error_ends_an_expression_of_rocketmq():
    assert steps("(a = 5) = TRUE OR b = 1", ROCKETMQ, a="x") == [
        ("a", b"x"),
        ("5", 5),
        ("a = 5", "!"),
    ]


def test_a_type_error_is_unknown_in_jms():
    assert steps("a = 5 OR t", a="x", t=True) == [
        ("a", b"x"),
        ("5", 5),
        ("a = 5", "!"),
        ("t", True),
        ("t", True),
        ("a = 5 OR t", True),
    ]


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("t", Outcome.MATCH),
        ("f", Outcome.NO_MATCH),
        ("m", Outcome.NO_MATCH),
        ("a = 5", Outcome.TYPE_ERROR),
        ("a = 5 AND f", Outcome.TYPE_ERROR),
        ("f AND a = 5", Outcome.NO_MATCH),
    ],
)
@pytest.mark.parametrize("dialect", list(Dialect))
def test_outcomes(dialect, text, outcome):
    message = FilteredMessage(Properties(headers={"t": True, "f": False, "a": "x"}))
    assert evaluate(parse(text, dialect), dialect, message) is outcome


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "unknown"),
        (True, "true"),
        (5, "5"),
        (2.5, "2.5"),
        (b"it's", "'it''s'"),
        ("é".encode(), "'é'"),
        (b"\xff", "'\ufffd'"),
        (Other.VALUE, "a table or an array"),
    ],
)
def test_values_in_words(value, text):
    assert said(value) == text
