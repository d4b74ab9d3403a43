"""Any text is an expression or a FilterError, and an expression can be written down again."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.filters.trees import expressions, text_of

from leporid.filters.dialects import KEYWORDS, Dialect
from leporid.filters.errors import FilterError
from leporid.filters.nodes import Condition, Header
from leporid.filters.parser import parse

WORDS = sorted(
    KEYWORDS[Dialect.JMS]
    | {"a", '"b c"', "p.type", "TAGS", "'x'", "'%_'", "''", "5", "-2.5", "0.0", "0x1F", "(", ")"}
    | {",", "=", "<>", "!=", "<", ">=", "+", "-", "*", "/", "%", "--", "/*", "*/", "'", '"', "#"}
)


def test_jms_is_what_is_meant_when_nothing_is_said():
    assert parse("a") == Condition(Header("a"))
    assert parse("a LIKE 'x'") == parse("a LIKE 'x'", Dialect.JMS)


@settings(max_examples=25)
@given(expressions)
def test_an_expression_is_read_as_it_was_meant(expression):
    dialect, tree = expression
    assert parse(text_of(tree), dialect) == tree


def parses(text: str, dialect: Dialect) -> bool:
    """Whether it is an expression; if not, it says so, and where."""
    try:
        parse(text, dialect)
    except FilterError as error:
        text[: error.position].encode("utf-8", "surrogatepass")
        error.pointer()
        return False
    return True


@given(st.text(), st.sampled_from(Dialect))
@example("\ud800", Dialect.JMS)
@example("\x00", Dialect.JMS)
@example("(" * 4096, Dialect.JMS)
@example("-" * 4096, Dialect.ROCKETMQ)
@example("'" * 4096, Dialect.JMS)
@example('"' * 4095, Dialect.JMS)
@example("/*" * 2048, Dialect.JMS)
@example("a.a." * 1024, Dialect.JMS)
@example("1" * 4096, Dialect.JMS)
@example("a = " + "9" * 4000, Dialect.ROCKETMQ)
@example("a = 0x" + "f" * 4000, Dialect.JMS)
@example("a = 1e" + "9" * 4000, Dialect.JMS)
@example("a = ." + "0" * 4000 + "1", Dialect.ROCKETMQ)
def test_any_text(text, dialect):
    parses(text, dialect)


words = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)


@settings(max_examples=50)
@given(words, st.sampled_from(Dialect))
def test_any_words(text, dialect):
    parses(text, dialect)


@settings(max_examples=50)
@given(st.binary(max_size=60), st.sampled_from(Dialect))
def test_any_bytes(raw, dialect):
    parses(raw.decode("utf-8", "surrogateescape"), dialect)
    parses(raw.decode("latin-1"), dialect)


@pytest.mark.slow
@settings(max_examples=1000)
@given(words | st.binary(max_size=60).map(lambda raw: raw.decode("latin-1")))
def test_many_texts(text):
    for dialect in Dialect:
        parses(text, dialect)


@pytest.mark.slow
@settings(max_examples=500)
@given(expressions, st.data())
def test_an_expression_with_something_left_out_or_put_in(expression, data):
    dialect, tree = expression
    text = text_of(tree)
    at = data.draw(st.integers(0, len(text)))
    parses(text[:at], dialect)
    parses(text[:at] + data.draw(st.sampled_from(WORDS)) + text[at:], dialect)
    parses(text[:at] + text[at + 1 :], dialect)


@pytest.mark.parametrize("dialect", list(Dialect))
def test_trailing_bytes(dialect):
    assert parses("a = 1", dialect)
    for rest in ("\x00", "(", "'", "a", "\\"):
        assert not parses("a = 1 " + rest, dialect)
