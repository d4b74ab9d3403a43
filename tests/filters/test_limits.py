"""Expressions up to their limits, and one beyond."""

from __future__ import annotations

import pytest

from leporid.amqp.properties import Properties, encode_properties
from leporid.engine.selectors.selector import Selector
from leporid.filters import compiler, limits
from leporid.filters.compiler import program
from leporid.filters.dialects import Dialect
from leporid.filters.errors import FilterError
from leporid.filters.parser import parse

BOTH = list(Dialect)


@pytest.mark.parametrize("dialect", BOTH)
def test_characters(dialect):
    text = "a = '" + "x" * (limits.CHARACTERS_MAX - 6) + "'"
    assert len(text) == limits.CHARACTERS_MAX
    parse(text, dialect)
    with pytest.raises(FilterError, match="4097 characters; at most 4096"):
        parse(text + " ", dialect)


def test_a_text_of_many_megabytes_is_not_looked_at():
    with pytest.raises(FilterError, match="at most 4096") as caught:
        parse("'" * 50_000_000)
    assert caught.value.position == limits.CHARACTERS_MAX


@pytest.mark.parametrize("dialect", BOTH)
def test_tokens(dialect):
    text = " OR ".join(["a = 1"] * 50)
    assert text.count(" ") + 1 == limits.TOKENS_MAX - 1
    parse(text, dialect)
    parse(f"NOT {text}", Dialect.JMS)
    with pytest.raises(FilterError, match="more than 200 words") as caught:
        parse(f"{text} OR b", dialect)
    assert caught.value.position == len(text) + 4
    with pytest.raises(FilterError, match="more than 200 words"):
        parse("a " * 2000, dialect)


def test_comments_are_no_tokens():
    parse("a = 1 " + "/* */" * 300)


@pytest.mark.parametrize("dialect", BOTH)
@pytest.mark.parametrize(
    ("before", "after"), [("(", ")"), ("NOT ", ""), ("NOT (", ")"), ("(NOT ", ")")]
)
def test_nesting(dialect, before, after):
    depth = limits.NESTING_MAX // (2 if len(before.replace(" ", "")) == 4 else 1)
    parse(before * depth + "a" + after * depth, dialect)
    depth += 1
    with pytest.raises(FilterError, match="more than 50 levels deep"):
        parse(before * depth + "a" + after * depth, dialect)


def test_signs_are_nested_too():
    parse("- " * limits.NESTING_MAX + "1 = a")
    with pytest.raises(FilterError, match="more than 50 levels deep"):
        parse("- " * (limits.NESTING_MAX + 1) + "1 = a")


def test_what_is_beside_each_other_is_not_nested():
    parse(" OR ".join(["(a)"] * (limits.NESTING_MAX - 1)))


@pytest.mark.parametrize(
    "text",
    [
        "{} LIKE '{}_%'",
        "{} CONTAINS '{}é'",
    ],
)
def test_patterns(text):
    fill = "x" * (limits.PATTERN_BYTES_MAX - text.count("é") * 2 - text.count("_"))
    parse(text.format("a", fill))
    with pytest.raises(FilterError, match="256 bytes; at most 255") as caught:
        parse(text.format("a", fill + "x"))
    assert caught.value.position == text.format("a", "").index("'")


def test_a_prefix_or_suffix_may_be_longer():
    parse(f"a STARTSWITH '{'x' * 1000}' OR a ENDSWITH '{'x' * 1000}'")


def test_the_largest_expressions_are_compiled_and_loaded():
    names = " OR ".join(f"header{number} = {number}" for number in range(50))
    deep = "(a=" * 49 + "b" + ")" * 49
    wide = "a IN (" + ",".join(str(number) for number in range(97)) + ")"
    right = "".join(f"a + {number} * (" for number in range(32)) + "1" + ")" * 32 + " > 0"
    for text in (names, deep, wide, right):
        selector = Selector(program(text).code)
        assert selector.outcome("", "", encode_properties(Properties())) == 0


def test_programs_are_kept_but_not_for_ever():
    assert program("kept = 1") is program("kept = 1")
    assert program("kept = 1", Dialect.ROCKETMQ) is not program("kept = 1")
    first = program("n = -1")
    for number in range(limits.PROGRAMS_MAX):
        compiler.program(f"n = {number}")
    assert program("n = -1") is not first
    assert compiler.program.cache_info().currsize == limits.PROGRAMS_MAX
