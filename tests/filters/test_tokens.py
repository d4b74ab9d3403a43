"""Words of expressions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leporid.filters.dialects import KEYWORDS, Dialect
from leporid.filters.errors import FilterError
from leporid.filters.limits import TOKENS_MAX
from leporid.filters.tokens import tokenize

JMS, ROCKETMQ = Dialect.JMS, Dialect.ROCKETMQ


def types(text: str, dialect: Dialect = JMS) -> list[str]:
    return [token.type for token in tokenize(text, dialect)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        (" \t\r\n\f", ""),
        ("a b_1 $x _y aé", "NAME NAME NAME NAME NAME"),
        ("p.type a.b.c", "NAME NAME"),
        ('"x-tag" "a""b" "\'"', "QUOTED QUOTED QUOTED"),
        ("'' 'a' 'it''s' '\"' 'a\nb'", "STRING STRING STRING STRING STRING"),
        ("0 10 5L 5l 007", "INTEGER INTEGER INTEGER INTEGER INTEGER"),
        ("0x1F 0Xffl", "HEX HEX"),
        ("1.5 1. .5 1e3 1.e-3 .5E+3", "FLOAT FLOAT FLOAT FLOAT FLOAT FLOAT"),
        (
            "= <> != < <= > >=",
            "EQUAL UNEQUAL UNEQUAL_C LESS LESS_OR_EQUAL GREATER GREATER_OR_EQUAL",
        ),
        ("+ - * / % ( ) ,", "PLUS MINUS STAR SLASH PERCENT OPEN CLOSE COMMA"),
        ("a<>b", "NAME UNEQUAL NAME"),
        ("a<-1", "NAME LESS MINUS INTEGER"),
        ("AND and aNd", "AND AND AND"),
        ("ANDY android", "NAME NAME"),
        ("not OR between in is true FALSE null", "NOT OR BETWEEN IN IS TRUE FALSE NULL"),
        ("contains startswith endswith", "CONTAINS STARTSWITH ENDSWITH"),
        ('"AND" ""', "QUOTED QUOTED"),
        ("lıke", "NAME"),
        ("a -- b\n c", "NAME NAME"),
        ("a -- b", "NAME"),
        ("a /* b */ c /**/ d /***/", "NAME NAME NAME"),
        ("a /* b \n * c **/", "NAME"),
        ("a - - b", "NAME MINUS MINUS NAME"),
        ("a--b", "NAME"),
    ],
)
def test_words(text, expected):
    assert types(text) == expected.split()


def test_like_is_a_word_of_jms_only():
    assert types("like ESCAPE", JMS) == ["LIKE", "ESCAPE"]
    assert types("like ESCAPE", ROCKETMQ) == ["NAME", "NAME"]
    assert KEYWORDS[ROCKETMQ] < KEYWORDS[JMS]


@pytest.mark.parametrize(
    ("text", "position", "reason"),
    [
        ("a = 'x", 4, "the text is not closed"),
        ("a = 'it''s", 4, "the text is not closed"),
        ('a = "x', 4, "the name is not closed"),
        ("a /* = 1", 2, "the comment is not closed"),
        ("a = 12ab", 4, "12ab is not a number"),
        ("a = 1.2.3", 4, r"1\.2\.3 is not a number"),
        ("a = 1e", 4, "1e is not a number"),
        ("a = 0x", 4, "0x is not a number"),
        ("a = 5d", 4, "5d is not a number"),
        ("a == 1", 2, "write = for equal"),
        ("a && b", 2, "write AND"),
        ("a || b", 2, "write OR"),
        ("a = #", 4, "# has no meaning"),
        ("a ! b", 2, "! has no meaning"),
        ("a; b", 1, "; has no meaning"),
        ("a\u00a0= 1", 1, r"U\+00A0 \(no-break space\)"),
        ("a = \x00", 4, r"U\+0000 \(a control character\)"),
        ("a = '\ud800'", 5, "not a character of Unicode"),
        ("a = 1 \n AND ]", 12, r"line 2, character 6: \] has no meaning"),
        ('a = "x""', 4, "the name is not closed"),
    ],
)
@pytest.mark.parametrize("dialect", list(Dialect))
def test_what_is_no_word(dialect, text, position, reason):
    with pytest.raises(FilterError, match=reason) as caught:
        tokenize(text, dialect)
    assert caught.value.position == position


@given(st.text() | st.text("a1'\" ()<>=!-/*.eELx\n|&", max_size=40), st.sampled_from(Dialect))
def test_any_text_gives_words_or_a_filter_error(text, dialect):
    try:
        tokens = tokenize(text, dialect)
    except FilterError as error:
        tokens = []
        error.pointer()
    assert len(tokens) <= TOKENS_MAX
    for token in tokens:
        assert text[token.start_pos : token.end_pos] == str(token)
