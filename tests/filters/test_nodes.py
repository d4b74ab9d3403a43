"""Trees as values."""

from __future__ import annotations

from leporid.filters.nodes import (
    And,
    Between,
    Comparison,
    Condition,
    Header,
    In,
    Literal,
    Order,
    parts_of,
)

A, ONE, TWO = Header("a"), Literal(1), Literal(2)


def test_trees_are_equal_wherever_they_stood():
    assert Header("a", span=(0, 1)) == Header("a", span=(5, 6))
    assert Header("a") != Header("b")
    assert Comparison(Order.LESS, A, ONE) != Comparison(Order.GREATER, A, ONE)
    assert hash(Between(A, ONE, TWO)) == hash(Between(A, ONE, TWO, span=(1, 9)))


def test_parts_from_left_to_right():
    assert list(parts_of(A)) == []
    assert list(parts_of(ONE)) == []
    assert list(parts_of(Condition(A))) == [A]
    assert list(parts_of(And(Condition(A), Literal(True)))) == [Condition(A), Literal(True)]
    assert list(parts_of(Between(A, ONE, TWO, span=(3, 4)))) == [A, ONE, TWO]
    assert list(parts_of(In(A, (ONE, TWO)))) == [A, ONE, TWO]
