"""Trees of expressions: what binds to what, and constants."""

from __future__ import annotations

import pytest

from leporid.filters.building import Builder
from leporid.filters.dialects import Dialect
from leporid.filters.errors import FilterError
from leporid.filters.grammar import parse_tokens
from leporid.filters.nodes import (
    And,
    Arithmetic,
    Between,
    Comparison,
    Condition,
    Header,
    In,
    IsNull,
    Like,
    Literal,
    Negative,
    Node,
    Not,
    Operator,
    Or,
    Order,
    Positive,
    Search,
    SubstringOperator,
    parts_of,
)
from leporid.filters.tokens import tokenize

JMS, ROCKETMQ = Dialect.JMS, Dialect.ROCKETMQ
A, B, C = Header("a"), Header("b"), Header("c")
ONE = Literal(1)


def build(text: str, dialect: Dialect = JMS) -> Node:
    return Builder(text, dialect).build(parse_tokens(tokenize(text, dialect), text, dialect))


def equal(left: Node, right: Node) -> Node:
    return Comparison(Order.EQUAL, left, right)


@pytest.mark.parametrize("dialect", [JMS, ROCKETMQ])
@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a", Condition(A)),
        ("((a))", Condition(A)),
        ("a = 1", equal(A, ONE)),
        ("a <> 1", Not(equal(A, ONE))),
        ("a < 1", Comparison(Order.LESS, A, ONE)),
        ("a >= 1", Comparison(Order.GREATER_OR_EQUAL, A, ONE)),
        ("a OR b AND c", Or(Condition(A), And(Condition(B), Condition(C)))),
        ("a AND b AND c", And(And(Condition(A), Condition(B)), Condition(C))),
        ("a BETWEEN 1 AND 2 AND b", And(Between(A, ONE, Literal(2)), Condition(B))),
        ("a NOT BETWEEN 1 AND 2", Not(Between(A, ONE, Literal(2)))),
        ("a IN ('x', 'y')", In(A, (Literal("x"), Literal("y")))),
        ("a NOT IN ('x')", Not(In(A, (Literal("x"),)))),
        ("a IS NULL", IsNull(A)),
        ("a IS NOT NULL", Not(IsNull(A))),
        ("a CONTAINS 'it''s'", Search(SubstringOperator.CONTAINS, A, "it's")),
        ("a NOT STARTSWITH 'x'", Search(SubstringOperator.STARTSWITH, A, "x", negated=True)),
        ("a endswith ''", Search(SubstringOperator.ENDSWITH, A, "")),
        ('"a""b" = 1', equal(Header('a"b'), ONE)),
        ("(a = 1) = TRUE", equal(equal(A, ONE), Literal(True))),
        ("-5 < a", Comparison(Order.LESS, Literal(-5), A)),
        ("- -5 < a", Comparison(Order.LESS, Literal(5), A)),
    ],
)
def test_trees_of_both_dialects(dialect, text, tree):
    assert build(text, dialect) == tree


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("NOT a = 1", Not(equal(A, ONE))),
        ("NOT a IS NULL", Not(IsNull(A))),
        ("a != 1", Not(equal(A, ONE))),
        ("a + b * c = 1", equal(Arithmetic(
            Operator.ADD, A, Arithmetic(Operator.MULTIPLY, B, C)), ONE)),
        ("(a + b) * c = 1", equal(Arithmetic(
            Operator.MULTIPLY, Arithmetic(Operator.ADD, A, B), C), ONE)),
        ("a - b - c = 1", equal(Arithmetic(
            Operator.SUBTRACT, Arithmetic(Operator.SUBTRACT, A, B), C), ONE)),
        ("a IN (1, -2, +3.5, 'x')", In(A, (ONE, Literal(-2), Literal(3.5), Literal("x")))),
        ("a LIKE 'x%'", Like(A, "x%")),
        ("a NOT LIKE '!%' ESCAPE '!'", Not(Like(A, "!%", "!"))),
        ("-(a) = 1", equal(Negative(A), ONE)),
        ("+a = -a", equal(Positive(A), Negative(A))),
        ("+ + a = - +a", equal(Positive(A), Negative(Positive(A)))),
        ("+ -a = +(b + c)", equal(Negative(A), Arithmetic(Operator.ADD, B, C))),
        ("+1 < a", Comparison(Order.LESS, ONE, A)),
    ],
)  # fmt: skip
def test_trees_of_jms(text, tree):
    assert build(text) == tree


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("NOT a = 1", equal(Not(Condition(A)), ONE)),
        ("NOT a IS NULL", IsNull(Not(Condition(A)))),
        ("a = 1 = TRUE", equal(equal(A, ONE), Literal(True))),
        ("a = 1 IS NULL", IsNull(equal(A, ONE))),
        ("a > 1 = TRUE", equal(Comparison(Order.GREATER, A, ONE), Literal(True))),
        ("a = b > 1", equal(A, Comparison(Order.GREATER, B, ONE))),
        ("NULL", Literal(None)),
        ("+a = -a", equal(A, Negative(A))),
    ],
)
def test_trees_of_rocketmq(text, tree):
    assert build(text, ROCKETMQ) == tree


@pytest.mark.parametrize(
    ("number", "value"),
    [
        ("0", 0),
        ("42L", 42),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("0x7fffffffffffffff", 2**63 - 1),
        ("-0x10", -16),
        ("1.5e3", 1500.0),
        ("-.5", -0.5),
        ("1e-400", 0.0),
    ],
)
def test_numbers(number, value):
    tree = build(f"a = {number}")
    assert tree == equal(A, Literal(value))
    assert isinstance(tree, Comparison)
    assert isinstance(tree.right, Literal)
    assert type(tree.right.value) is type(value)


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        ("9223372036854775808", "does not fit into 64 bits"),
        ("-9223372036854775809", "does not fit into 64 bits"),
        ("0x8000000000000000", "does not fit into 64 bits"),
        ("9" * 400, "does not fit into 64 bits"),
        ("1e309", "too large"),
        ("010", "begins with 0"),
        ("00", "begins with 0"),
    ],
)
def test_numbers_that_are_refused(number, reason):
    with pytest.raises(FilterError, match=reason) as caught:
        build(f"a = {number}")
    assert caught.value.position == 4 + number.startswith("-")


def test_an_escape_is_one_character():
    with pytest.raises(FilterError, match="takes one character") as caught:
        build("a LIKE 'x' ESCAPE 'ab'")
    assert caught.value.position == 18
    with pytest.raises(FilterError, match="takes one character"):
        build("a LIKE 'x' ESCAPE ''")
    assert build("a LIKE 'x' ESCAPE '€'") == Like(A, "x", "€")


def test_each_part_knows_where_it_stood():
    text = "NOT (a + 1 > 2) OR b IN ('x', 'y')"

    def spans(node: Node) -> list[str]:
        start, end = node.span
        return [text[start:end]] + [one for part in parts_of(node) for one in spans(part)]

    assert spans(build(text)) == [
        text,
        "NOT (a + 1 > 2)",
        "a + 1 > 2",
        "a + 1",
        "a",
        "1",
        "2",
        "b IN ('x', 'y')",
        "b",
        "'x'",
        "'y'",
    ]
