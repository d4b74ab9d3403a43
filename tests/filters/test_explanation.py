"""Outcomes explained to a person."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from tests.filters.trees import expressions, messages, text_of

from leporid.amqp.properties import Properties
from leporid.filters.dialects import Dialect
from leporid.filters.explanation import Explanation
from leporid.filters.interpreter import evaluate
from leporid.filters.messages import FilteredMessage
from leporid.filters.parser import parse

JMS, ROCKETMQ = Dialect.JMS, Dialect.ROCKETMQ


def explain(text: str, dialect: Dialect = JMS, **headers: object) -> str:
    message = FilteredMessage(Properties(headers=headers))  # type: ignore[arg-type]
    return str(Explanation(text, parse(text, dialect), dialect, message))


def test_each_part_has_its_value():
    assert explain("dep_delay > 60 AND origin = 'JFK'", dep_delay=75, origin="LGA") == (
        "no match: false\n"
        "\n"
        "false  dep_delay > 60 AND origin = 'JFK'\n"
        "true     dep_delay > 60\n"
        "75         dep_delay\n"
        "false    origin = 'JFK'\n"
        "'LGA'      origin"
    )


def test_what_was_not_looked_at_says_so():
    assert explain("t OR\n\tn = 1", t=True) == (
        "match\n"
        "\n"
        "true         t OR n = 1\n"
        "true           t\n"
        "not reached    n = 1\n"
        "not reached      n"
    )


def test_what_is_missing_is_null_and_a_condition_unknown():
    assert explain("m = 1 AND (m + 1 > 2)") == (
        "no match: unknown\n"
        "\n"
        "unknown  m = 1 AND (m + 1 > 2)\n"
        "unknown    m = 1\n"
        "NULL         m\n"
        "unknown    m + 1 > 2\n"
        "NULL         m + 1\n"
        "NULL           m"
    )


def test_text_in_double_quotes_is_noted_where_there_is_no_such_header():
    assert explain('origin = "JFK"', origin="JFK") == (
        "no match: unknown\n"
        "\n"
        'unknown  origin = "JFK"\n'
        "'JFK'      origin\n"
        'NULL       "JFK"\n'
        "\n"
        "\"JFK\" is the header of that name, which is not there; a text is 'JFK'"
    )
    assert "a text is" not in explain('origin = "JFK"', origin="JFK", JFK="JFK")
    assert "a text is" not in explain('"x-tag" IS NULL')


@pytest.mark.parametrize(("dialect", "whole"), [(JMS, "unknown   "), (ROCKETMQ, "not reached")])
def test_a_type_error_is_shown_where_it_happened(dialect, whole):
    explained = explain("n <> 60 AND t", dialect, n="abc", t=True).splitlines()
    assert explained[0] == "no match, for a type error"
    assert explained[2] == f"{whole}  n <> 60 AND t"
    assert explained[3].split("  ")[0] == "type error"
    assert explained[4].split() == ["'abc'", "n"]


def test_a_name_that_is_no_condition_shows_both():
    assert explain("n", n=5) == "no match, for a type error\n\ntype error  n\n5             n"
    assert explain("n", ROCKETMQ, n=5) == "no match: false\n\nfalse  n\n5        n"


def test_values_are_short_and_printable():
    explained = explain("s = 'x'", s="\x1b[2J" + "x" * 500)
    assert "\x1b" not in explained
    assert all(len(line) < 60 for line in explained.splitlines())


@settings(max_examples=20)
@given(expressions, messages)
def test_the_verdict_is_the_outcome(expression, message):
    dialect, tree = expression
    text = text_of(tree)
    read = parse(text, dialect)
    explanation = Explanation(text, read, dialect, message)
    assert explanation.outcome is evaluate(tree, dialect, message)
    assert str(explanation).isprintable() or "\n" in str(explanation)
