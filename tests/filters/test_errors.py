"""What a FilterError says, and where."""

from __future__ import annotations

import pytest

from leporid.filters.errors import (
    QUOTED_CHARACTERS_MAX,
    SHOWN_CHARACTERS_MAX,
    FilterError,
    quoted,
)


@pytest.mark.parametrize(
    ("text", "position", "line", "column", "where"),
    [
        ("a = ?", 4, 1, 5, "character 5: "),
        ("", 0, 1, 1, "character 1: "),
        ("a =", 3, 1, 4, "character 4: "),
        ("a = 1\nOR b ? 2", 11, 2, 6, "line 2, character 6: "),
        ("\n\n?", 2, 3, 1, "line 3, character 1: "),
    ],
)
def test_says_where(text, position, line, column, where):
    error = FilterError("what is wrong", text, position)
    assert (error.line, error.column) == (line, column)
    assert str(error) == f"{where}what is wrong"
    assert (error.reason, error.text, error.position) == ("what is wrong", text, position)


def test_points_at_the_character():
    assert FilterError("", "a = ?", 4).pointer() == "a = ?\n    ^"
    assert FilterError("", "a = 1\nOR b ? 2", 11).pointer() == "OR b ? 2\n     ^"
    assert FilterError("", "a =", 3).pointer() == "a =\n   ^"
    assert FilterError("", "a\t= \x1b[2J?", 8).pointer() == "a =  [2J?\n        ^"


def test_of_a_long_line_it_shows_what_is_around_the_character():
    shown, caret = FilterError("", "a" * 500 + "?" + "b" * 500, 500).pointer().split("\n")
    assert shown[caret.index("^")] == "?"
    assert (shown[0], shown[-1]) == ("…", "…")
    assert len(shown) <= SHOWN_CHARACTERS_MAX
    shown, caret = FilterError("", "a" * 500, 500).pointer().split("\n")
    assert shown == "…" + "a" * (len(shown) - 1)
    assert len(caret) == len(shown) + 1 <= SHOWN_CHARACTERS_MAX
    shown, caret = FilterError("", "?" + "a" * 500, 0).pointer().split("\n")
    assert (shown[0], shown[-1], caret) == ("?", "…", "^")


def test_a_quotation_is_short_and_printable():
    assert quoted("dep_delay") == "dep_delay"
    assert quoted("x" * QUOTED_CHARACTERS_MAX) == "x" * QUOTED_CHARACTERS_MAX
    assert len(quoted("x" * 1000)) == QUOTED_CHARACTERS_MAX
    assert quoted("x" * 1000).endswith("x…")
    assert quoted("a\x1b[2J\n") == "a\ufffd[2J\ufffd"
