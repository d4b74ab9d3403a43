"""What a dialect refuses although its grammar lets it through."""

from __future__ import annotations

import pytest

from leporid.filters.checks import CONDITION, NULL, NUMBER, TEXT, kind_of
from leporid.filters.dialects import Dialect
from leporid.filters.errors import FilterError
from leporid.filters.nodes import Header, IsNull, Literal, Negative, Property
from leporid.filters.parser import parse

JMS, ROCKETMQ = Dialect.JMS, Dialect.ROCKETMQ

REFUSED = [
    (JMS, "5", 0, "5 is a number, and no condition"),
    (JMS, "'x'", 0, "'x' is a text, and no condition"),
    (JMS, "a + 1", 0, "a [+] 1 is a number, and no condition"),
    (JMS, "-a OR b", 0, "-a is a number, and no condition"),
    (JMS, "a AND 5", 6, "5 is a number, and no condition"),
    (JMS, "NOT 'x'", 4, "'x' is a text, and no condition"),
    (JMS, "a = 1 OR (b + 1)", 10, "is a number, and no condition"),
    (JMS, "'a' = 5", 6, "5 is a number, and never equal to a text"),
    (JMS, "5 <> 'a'", 5, "'a' is a text, and never equal to a number"),
    (JMS, "a + 1 = 'x'", 8, "never equal to a number"),
    (JMS, "TRUE = 1", 7, "1 is a number, and never equal to a condition"),
    (JMS, "(a = 1) = 'x'", 10, "never equal to a condition"),
    (JMS, "TRUE < FALSE", 0, "TRUE is a condition, and neither less nor greater"),
    (JMS, "a < (b = 1)", 5, "neither less nor greater"),
    (JMS, "a < 'x' + 1", 4, "'x' is a text, and no number"),
    (JMS, "+a", 0, "[+]a is a number, and no condition"),
    (JMS, "b = 1 AND NOT +a", 14, "[+]a is a number, and no condition"),
    (JMS, "+a = 'x'", 5, "'x' is a text, and never equal to a number"),
    (JMS, "+'x' < 1", 1, "'x' is a text, and no number"),
    (JMS, "-'x' < 1", 1, "'x' is a text, and no number"),
    (JMS, "a * TRUE = 1", 4, "TRUE is a condition, and no number"),
    (JMS, "a BETWEEN 1 AND 'x'", 16, "never equal to a number"),
    (JMS, "'x' BETWEEN 1 AND 2", 12, "never equal to a text"),
    (JMS, "TRUE BETWEEN a AND b", 0, "neither less nor greater"),
    (JMS, "5 IN ('x')", 6, "never equal to a number"),
    (JMS, "a + 1 IN (1, 'x')", 13, "never equal to a number"),
    (JMS, "5 LIKE 'x'", 0, "5 is a number, and no text"),
    (JMS, "(a = 1) CONTAINS 'x'", 1, "is a condition, and no text"),
    (JMS, "a LIKE 'x!' ESCAPE '!'", 7, "nothing follows the escape character"),
    # Names with hyphens are what headers are often called, and what nobody wants to calculate.
    (JMS, "x-tag = 'a'", 0, 'x-tag is x minus tag; the header of that name is "x-tag"'),
    (JMS, "x-tag IS NULL", 0, 'x-tag is x minus tag; the header of that name is "x-tag"'),
    (JMS, "n = 1 AND x-max-age > 5", 10, 'the header of that name is "x-max-age"'),
    (JMS, "order-id = '5'", 11, 'never equal to a number.* the header order-id is "order-id"'),
    (JMS, "'5' <> order-id", 7, 'never equal to a text.* the header order-id is "order-id"'),
    (JMS, "order-id IN ('5')", 13, "never equal to a number.* the header order-id is"),
    (JMS, "order-id LIKE '5%'", 0, "is a number, and no text.* the header order-id is"),
    (JMS, "order-id", 0, "is a number, and no condition.* the header order-id is"),
    (
        JMS,
        "order-id IS NULL",
        0,
        'order-id is order minus id; the header of that name is "order-id"',
    ),
    (ROCKETMQ, "order-id = 5", 5, "no arithmetic; names with hyphens are in double quotes"),
    (ROCKETMQ, "5", 0, "5 is a number, and no condition"),
    (ROCKETMQ, "'x' OR a", 0, "'x' is a text, and no condition"),
    (ROCKETMQ, "-a", 0, "-a is a number, and no condition"),
    (ROCKETMQ, "NOT 5 = 5", 4, "5 is a number, and no condition"),
    (ROCKETMQ, "a = NULL", 4, "NULL is equal to nothing"),
    (ROCKETMQ, "NULL <> a", 0, "NULL is equal to nothing"),
    (ROCKETMQ, "TRUE = 5", 7, "5 is a number, and never equal to a condition"),
    (ROCKETMQ, "FALSE <> 'x'", 9, "'x' is a text, and never equal to a condition"),
    (ROCKETMQ, "a > 'x'", 4, "'x' is a text; only numbers are less or greater"),
    (ROCKETMQ, "'5' < a", 0, "'5' is a text; only numbers"),
    (ROCKETMQ, "a > TRUE", 4, "TRUE is a condition; only numbers"),
    (ROCKETMQ, "a > NULL", 4, "NULL is neither less nor greater"),
    (ROCKETMQ, "a > 1 > 2", 0, "a > 1 is a condition; only numbers"),
    (ROCKETMQ, "a < (b = 1)", 5, "is a condition; only numbers"),
    (ROCKETMQ, "a BETWEEN 'a' AND 'b'", 10, "'a' is a text; only numbers"),
    (ROCKETMQ, "a BETWEEN NULL AND 5", 10, "NULL is neither less nor greater"),
    (ROCKETMQ, "a NOT BETWEEN 1 AND 'b'", 20, "'b' is a text; only numbers"),
    (ROCKETMQ, "a BETWEEN 5 AND 1", 16, "1 is less than 5: nothing is between them"),
    (ROCKETMQ, "a BETWEEN 1 AND -1.5", 16, "-1.5 is less than 1"),
    (ROCKETMQ, "'x' IN ('x')", 0, "'x' is not a name"),
    (ROCKETMQ, "(a = 1) IN ('x')", 1, "is not a name"),
    (ROCKETMQ, "-a NOT IN ('x')", 0, "is not a name"),
    (ROCKETMQ, "a = 0.0", 4, "write 0"),
    (ROCKETMQ, "a = -0.0", 5, "write 0"),
    (ROCKETMQ, "a = 1e-400", 4, "write 0"),
    (ROCKETMQ, "a = -9223372036854775808", 5, "cannot be written in this dialect"),
]

ALLOWED = [
    (JMS, "x - tag IS NULL"),
    (JMS, "x -tag > 5"),
    (JMS, "x-5 > y"),
    (JMS, "a-b > 5"),
    (JMS, "(a - b) IS NULL"),
    (JMS, "a = b"),
    (JMS, "a + 1 = b"),
    (JMS, "a < 'x'"),
    (JMS, "(a = 1) = b"),
    (JMS, "TRUE = (a = 1)"),
    (JMS, "a IN (1, 'x')"),
    (JMS, "a BETWEEN 5 AND 1"),
    (JMS, "p.priority = 'high'"),
    (JMS, "a = 0.0"),
    (ROCKETMQ, "+a"),
    (ROCKETMQ, "+a = 'x'"),
    (ROCKETMQ, "a = 5 = 5"),
    (ROCKETMQ, "5 = TRUE"),
    (ROCKETMQ, "'x' = 5"),
    (ROCKETMQ, "a NOT BETWEEN 5 AND 1"),
    (ROCKETMQ, "a BETWEEN 5 AND 5"),
    (ROCKETMQ, "a BETWEEN b AND 1"),
    (ROCKETMQ, "a > -1"),
    (ROCKETMQ, "a IN ('x') IS NULL"),
    (ROCKETMQ, "(a = 1) CONTAINS 'x'"),
    (ROCKETMQ, "5 CONTAINS '5'"),
]


@pytest.mark.parametrize(("dialect", "text", "position", "reason"), REFUSED)
def test_refused(dialect, text, position, reason):
    with pytest.raises(FilterError, match=reason) as caught:
        parse(text, dialect)
    assert caught.value.position == position


@pytest.mark.parametrize(("dialect", "text"), ALLOWED)
def test_allowed(dialect, text):
    parse(text, dialect)


def test_kinds_are_those_that_are_certain():
    assert kind_of(Literal(5)) == kind_of(Literal(5.0)) == NUMBER
    assert kind_of(Literal(True)) == CONDITION
    assert kind_of(Literal("x")) == TEXT
    assert kind_of(Literal(None)) == NULL
    assert kind_of(Negative(Header("a"))) == NUMBER
    assert kind_of(IsNull(Header("a"))) == CONDITION
    assert kind_of(Header("a")) is kind_of(Property("priority")) is None
