"""What is no expression, and what is said of it."""

from __future__ import annotations

import pytest

from leporid.filters.dialects import Dialect
from leporid.filters.errors import FilterError
from leporid.filters.grammar import parse_tokens
from leporid.filters.tokens import tokenize

JMS, ROCKETMQ = Dialect.JMS, Dialect.ROCKETMQ

# Expression, position, what is said; the same in both dialects.
BOTH = [
    ("", 0, "the expression is empty"),
    ("  -- nothing", 0, "the expression is empty"),
    ("a = ", 4, "the expression ends here; expected a value"),
    ("a AND", 5, "the expression ends here; expected a value or a condition"),
    ("(a = 1", 6, "the expression ends here; expected .*AND, \\) or OR"),
    ("a = 1)", 5, "unexpected \\); expected .*the end, AND or OR"),
    ("a b", 2, "unexpected b; expected a comparison, the end, AND or OR"),
    ("a = 'x' 'y'", 8, "unexpected 'y'"),
    ("= 1", 0, "unexpected =; expected a value or a condition"),
    ("a < > 1", 4, "unexpected >; expected a value"),
    ("a IN", 4, "expected \\($"),
    ("a IN (", 6, "expected a text"),
    ("a IN ()", 6, "unexpected \\); expected a text"),
    ("a IN ('x',)", 10, "unexpected \\); expected a text"),
    ("a IN ('x' 'y')", 10, "expected \\) or ,"),
    ("a IN 'x'", 5, "unexpected 'x'; expected \\($"),
    ("a IS 5", 5, "unexpected 5; expected NOT or NULL"),
    ("a IS NOT TRUE", 9, "unexpected TRUE; expected NULL"),
    ("a BETWEEN 1 OR 2", 12, "unexpected OR; expected .*AND"),
    ("a BETWEEN 1", 11, "the expression ends here; expected .*AND"),
    ("a NOT 5", 6, "unexpected 5; expected BETWEEN, CONTAINS, ENDSWITH, IN"),
    ("a CONTAINS b", 11, "unexpected b; expected a text in single quotes"),
    ('a CONTAINS "b"', 11, "a text is in single quotes; double quotes are for names"),
    ("between = 5", 0, 'between is a keyword; a header of that name is "between"'),
    ("a = AND", 4, 'AND is a keyword; a header of that name is "AND"'),
    ("a, b", 1, "unexpected ,"),
    ("a = 1\nAND\nOR b", 10, "line 3, character 1: OR is a keyword"),
]

OF_JMS = [
    ("a = NULL", 4, "nothing is equal to NULL: write IS NULL or IS NOT NULL"),
    ("NULL", 0, "write IS NULL"),
    ("a = 1 = 2", 6, "unexpected =; expected an operator, the end, AND or OR"),
    ("a > 1 > 2", 6, "unexpected >"),
    ("a LIKE 5", 7, "unexpected 5; expected a text in single quotes"),
    ("a LIKE 'x' ESCAPE", 17, "expected a text in single quotes"),
    ("a IN (TRUE)", 6, "unexpected TRUE; expected a text or a number"),
    ("a IN (-'x')", 7, "unexpected 'x'; expected a number"),
    ("a IN (b)", 6, "unexpected b; expected a text or a number"),
    ("like = 5", 0, 'like is a keyword; a header of that name is "like"'),
    ("a * / b", 4, "unexpected /; expected a value"),
]

OF_ROCKETMQ = [
    ("a LIKE 'x'", 2, "the dialect rocketmq has no LIKE, but CONTAINS, STARTSWITH and ENDSWITH"),
    ("a != 5", 2, "the dialect rocketmq has <>, not !="),
    ("a + 1 > 2", 2, "no arithmetic"),
    ("a - 1 > 2", 2, "no arithmetic"),
    ("a * 2 > 2", 2, "no arithmetic"),
    ("a / 2 > 2", 2, "no arithmetic"),
    ("a % 2 = 0", 2, "no arithmetic"),
    ("a = 0x1F", 4, "no hexadecimal numbers"),
    ("a IN (1)", 6, "expected a text in single quotes: '1'"),
    ("a IN (b)", 6, "unexpected b; expected a text in single quotes"),
    ("a > NOT", 7, "expected a value"),
]

CASES = [
    *((dialect, *case) for dialect in Dialect for case in BOTH),
    *((JMS, *case) for case in OF_JMS),
    *((ROCKETMQ, *case) for case in OF_ROCKETMQ),
]


@pytest.mark.parametrize(("dialect", "text", "position", "reason"), CASES)
def test_says_what_was_expected_and_where(dialect, text, position, reason):
    with pytest.raises(FilterError, match=reason) as caught:
        parse_tokens(tokenize(text, dialect), text, dialect)
    assert caught.value.position == position


def test_a_long_word_is_not_repeated_at_length():
    text = f"a = 1 '{'x' * 3000}'"
    with pytest.raises(FilterError) as caught:
        parse_tokens(tokenize(text, JMS), text, JMS)
    assert len(str(caught.value)) < 120
