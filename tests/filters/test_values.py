"""Comparisons, conversions and arithmetic, where both dialects meet their edges."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.filters.trees import integers

from leporid.filters.messages import Other
from leporid.filters.nodes import Operator, Order
from leporid.filters.values import (
    NUMBER_BYTES_MAX,
    BadType,
    calculate,
    compare_jms,
    equal_rocketmq,
    is_number,
    negative,
    order_rocketmq,
    read_double,
    read_integer,
)


def test_true_is_no_number():
    assert is_number(1)
    assert is_number(1.5)
    assert not is_number(True)
    assert not is_number(b"1")


@given(integers, st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(Order))
def test_integers_and_doubles_are_compared_exactly(integer, number, order):
    exact = {
        Order.EQUAL: integer == Fraction(number),
        Order.LESS: integer < Fraction(number),
        Order.LESS_OR_EQUAL: integer <= Fraction(number),
        Order.GREATER: integer > Fraction(number),
        Order.GREATER_OR_EQUAL: integer >= Fraction(number),
    }[order]
    assert compare_jms(order, integer, number) is exact


@pytest.mark.parametrize(
    ("left", "right"),
    [(1, b"1"), (True, 1), (True, b"true"), (Other.VALUE, 1), (Other.VALUE, Other.VALUE)],
)
def test_jms_compares_only_like_with_like(left, right):
    for one, other in ((left, right), (right, left)):
        with pytest.raises(BadType):
            compare_jms(Order.EQUAL, one, other)
        assert compare_jms(Order.EQUAL, one, None) is None
        assert compare_jms(Order.EQUAL, None, other) is None


def test_jms_does_not_order_true_and_false():
    assert compare_jms(Order.EQUAL, True, True) is True
    with pytest.raises(BadType):
        compare_jms(Order.LESS, False, True)


@given(integers, integers.filter(bool))
def test_quotient_and_remainder_belong_together(left, right):
    quotient = calculate(Operator.DIVIDE, left, right)
    remainder = calculate(Operator.REMAINDER, left, right)
    if isinstance(quotient, int):
        assert isinstance(remainder, int)
        assert quotient == math.trunc(Fraction(left, right))
        assert quotient * right + remainder == left
    else:
        assert (left, right) == (-(2**63), -1)


@given(integers, integers, st.sampled_from(Operator))
def test_integers_stay_integers_while_they_fit(left, right, operator):
    try:
        result = calculate(operator, left, right)
    except BadType:
        assert right == 0
        return
    assert result is not None
    assert isinstance(result, float) or -(2**63) <= result < 2**63


@pytest.mark.parametrize(
    ("operator", "left", "right"),
    [
        (Operator.ADD, b"1", 1),
        (Operator.ADD, True, 1),
        (Operator.DIVIDE, 1, 0),
        (Operator.REMAINDER, 1.5, 0),
        (Operator.DIVIDE, 1.5, 0.0),
        (Operator.MULTIPLY, 1e300, 1e300),
        (Operator.SUBTRACT, -1.7e308, 1.7e308),
    ],
)
def test_what_has_no_result(operator, left, right):
    with pytest.raises(BadType):
        calculate(operator, left, right)


def test_the_least_integer_has_no_counterpart():
    assert negative(-(2**63)) == 2.0**63
    assert isinstance(negative(-(2**63)), float)
    assert negative(5) == -5
    assert negative(-2.5) == 2.5


@pytest.mark.parametrize("text", [b"0", b"+5", b"-5", b"007", b"9223372036854775807"])
def test_integers_as_java_reads_them(text):
    assert read_integer(text) == int(text)


@pytest.mark.parametrize(
    "text",
    [b"", b"+", b" 5", b"5 ", b"5.0", b"5L", b"0x5", b"1_0", b"9223372036854775808", b"--5",
     b"\xd9\xa5", b"0" * (NUMBER_BYTES_MAX + 1)],
)  # fmt: skip
def test_no_integers(text):
    with pytest.raises(BadType):
        read_integer(text)


@pytest.mark.parametrize("text", [b"0", b"5.", b".5", b" 5.5\t", b"-1e3", b"+1E-3", b"\x001\x1f"])
def test_doubles_as_java_reads_them(text):
    assert read_double(text) == float(text.strip(b" \t\x00\x1f"))


@pytest.mark.parametrize(
    "text",
    [b"", b".", b"e5", b"1e", b"1.5d", b"1f", b"NaN", b"Infinity", b"0x1p3", b"1e309", b"1_0.5",
     b"\xa05", b"5 5", b"0" * (NUMBER_BYTES_MAX + 1)],
)  # fmt: skip
def test_no_doubles(text):
    with pytest.raises(BadType):
        read_double(text)


def test_equality_of_rocketmq_has_two_sides():
    assert equal_rocketmq(None, None) is True
    assert equal_rocketmq(None, 5) is None
    assert equal_rocketmq(5, None) is False
    assert equal_rocketmq(b"TrUe", True) is True
    with pytest.raises(BadType):
        equal_rocketmq(True, b"true")
    assert equal_rocketmq(True, 1) is False
    assert equal_rocketmq(1, True) is False
    assert equal_rocketmq(Other.VALUE, Other.VALUE) is False


def test_order_of_rocketmq_is_of_numbers():
    assert order_rocketmq(Order.LESS, b"9", b"10") is True
    assert order_rocketmq(Order.LESS, b"9", 10) is True
    assert order_rocketmq(Order.LESS, None, b"x") is None
    assert order_rocketmq(Order.LESS, b"x", None) is None
    for left, right in ((b"a", b"b"), (b"9.5", 10), (True, 1), (1, False), (Other.VALUE, 1)):
        with pytest.raises(BadType):
            order_rocketmq(Order.LESS, left, right)
