"""Patterns of LIKE, taken apart and matched by hand."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leporid.filters.like import Wild, byte_count, matches, symbols_of

ONE, MANY = Wild.ONE, Wild.MANY


@pytest.mark.parametrize(
    ("pattern", "escape", "symbols", "count"),
    [
        ("", None, (), 0),
        ("abc", None, (b"abc",), 3),
        ("%", None, (MANY,), 0),
        ("%%%", None, (MANY,), 0),
        ("_", None, (ONE,), 1),
        ("__", None, (ONE, ONE), 2),
        ("a%b_c", None, (b"a", MANY, b"b", ONE, b"c"), 4),
        ("%_%", None, (MANY, ONE, MANY), 1),
        ("é%", None, ("é".encode(), MANY), 2),
        ("a!%b", "!", (b"a%b",), 3),
        ("!!", "!", (b"!",), 1),
        ("!a!b", "!", (b"ab",), 2),
        ("a\\_b", None, (b"a\\", ONE, b"b"), 4),
        ("%%a", "%", (b"%a",), 2),
        ("__a", "_", (b"_a",), 2),
        ("a€_", "€", (b"a_",), 2),
    ],
)
def test_taken_apart(pattern, escape, symbols, count):
    assert symbols_of(pattern, escape) == symbols
    assert byte_count(symbols) == count


@pytest.mark.parametrize("pattern", ["!", "a!", "!!!"])
def test_nothing_follows_the_escape_character(pattern):
    with pytest.raises(ValueError, match="nothing follows the escape character !"):
        symbols_of(pattern, "!")


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("_", b"\xff", True),
        ("_", "é".encode(), True),
        ("__", "é".encode(), False),
        ("_", b"\x80", False),
        ("%", b"\x80\x80", True),
        ("a_", b"a\xff\x80", True),
        ("_b", b"\xc3\xa9b", True),
        ("__", b"\xff\xff", True),
    ],
)
def test_a_character_is_what_begins_one_and_what_continues_it(pattern, text, expected):
    assert matches(symbols_of(pattern, None), text) is expected


@given(st.text("ab_%.é", max_size=8), st.text("ab.é\n", max_size=8))
def test_patterns_are_like_regular_expressions(pattern, text):
    regex = "".join({"%": ".*", "_": "."}.get(one, re.escape(one)) for one in pattern)
    expected = re.fullmatch(regex, text, re.DOTALL) is not None
    assert matches(symbols_of(pattern, None), text.encode()) is expected
