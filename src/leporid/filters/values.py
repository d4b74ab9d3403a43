"""How values are compared, converted and calculated with, dialect by dialect.

Must not know trees or messages. `BadType` is raised for what has no result; what that means for the
whole expression, the interpreter knows. Invariant: integers have 64 bits and doubles are finite,
as in the engine, which does the same.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Final, TypeGuard

from leporid.filters.messages import Other, Value
from leporid.filters.nodes import Operator, Order

NUMBER_BYTES_MAX: Final = 128
"""Of a text that is read as a number: what is longer is none, so that it costs little to see."""

_INTEGER: Final = re.compile(rb"[+-]?[0-9]+")
_DOUBLE: Final = re.compile(rb"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
# What Java takes off both ends of a double, and of nothing else.
_JAVA_SPACE: Final = bytes(range(33))

_INTEGER_MIN: Final = -(2**63)
_INTEGER_MAX: Final = 2**63 - 1


class BadType(Exception):
    """An operator met values that it has no result for."""


def is_number(value: Value) -> TypeGuard[int | float]:
    """Whether a value is a number; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def in_order(order: Order, left: int | float | bytes, right: int | float | bytes) -> bool:
    """Compare two of a kind; numbers exactly, whatever their types, and texts byte by byte."""
    compare: Callable[[object, object], bool] = {
        Order.EQUAL: lambda a, b: a == b,
        Order.LESS: lambda a, b: a < b,
        Order.LESS_OR_EQUAL: lambda a, b: a <= b,
        Order.GREATER: lambda a, b: a > b,
        Order.GREATER_OR_EQUAL: lambda a, b: a >= b,
    }[order]
    return compare(left, right)


# ------------------------------------------------------------------ jms


def compare_jms(order: Order, left: Value, right: Value) -> bool | None:
    """Compare two values; None when one is not there."""
    if left is None or right is None:
        return None
    if is_number(left) and is_number(right):
        return in_order(order, left, right)
    if isinstance(left, bytes) and isinstance(right, bytes):
        return in_order(order, left, right)
    if isinstance(left, bool) and isinstance(right, bool) and order is Order.EQUAL:
        return left == right
    raise BadType


def calculate(operator: Operator, left: Value, right: Value) -> int | float | None:
    """Arithmetic: of integers an integer while it has 64 bits, division towards zero."""
    if left is None or right is None:
        return None
    if not is_number(left) or not is_number(right):
        raise BadType
    if isinstance(left, int) and isinstance(right, int):
        result = _of_integers(operator, left, right)
        if _INTEGER_MIN <= result <= _INTEGER_MAX:
            return result
    return _of_doubles(operator, float(left), float(right))


def _of_integers(operator: Operator, left: int, right: int) -> int:
    match operator:
        case Operator.ADD:
            return left + right
        case Operator.SUBTRACT:
            return left - right
        case Operator.MULTIPLY:
            return left * right
    if right == 0:
        raise BadType
    quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
    return quotient if operator is Operator.DIVIDE else left - quotient * right


def _of_doubles(operator: Operator, left: float, right: float) -> float:
    try:
        match operator:
            case Operator.ADD:
                result = left + right
            case Operator.SUBTRACT:
                result = left - right
            case Operator.MULTIPLY:
                result = left * right
            case Operator.DIVIDE:
                result = left / right
            case Operator.REMAINDER:
                result = math.fmod(left, right)
    except (ZeroDivisionError, ValueError):
        raise BadType from None
    if not math.isfinite(result):
        raise BadType
    return result


def negative(value: int | float) -> int | float:
    """A number with the other sign."""
    return float(-value) if value == _INTEGER_MIN else -value


# ------------------------------------------------------------------ rocketmq


def equal_rocketmq(left: Value, right: Value) -> bool | None:
    """`=`: the other's type decides what a text is read as."""
    if left is None or right is None:
        if left is None and right is None:
            return True
        return None if left is None else False
    if isinstance(left, Other) or isinstance(right, Other):
        return False
    if isinstance(left, bytes) and isinstance(right, bytes):
        return left == right
    if isinstance(left, bool):
        if isinstance(right, bytes):
            raise BadType  # Java's cast fails
        return isinstance(right, bool) and left == right
    if isinstance(right, bool):
        return isinstance(left, bytes) and (left.lower() == b"true") == right
    return _compare_numbers(Order.EQUAL, left, right)


def order_rocketmq(order: Order, left: Value, right: Value) -> bool | None:
    """`<` and its like: numbers, and texts that are some."""
    if left is None or right is None:
        return None
    if isinstance(left, bool | Other) or isinstance(right, bool | Other):
        raise BadType
    if isinstance(left, bytes) and isinstance(right, bytes):
        return in_order(order, read_double(left), read_double(right))
    return _compare_numbers(order, left, right)


def _compare_numbers(order: Order, left: int | float | bytes, right: int | float | bytes) -> bool:
    if isinstance(left, bytes):
        assert is_number(right)
        left = _read_like(right, left)
    elif isinstance(right, bytes):
        right = _read_like(left, right)
    return in_order(order, left, right)


def _read_like(number: int | float, text: bytes) -> int | float:
    return read_double(text) if isinstance(number, float) else read_integer(text)


def read_integer(text: bytes) -> int:
    """A text as Java's Long reads it.

    Raises:
        BadType: it is no integer of 64 bits.
    """
    if len(text) <= NUMBER_BYTES_MAX and _INTEGER.fullmatch(text):
        value = int(text)
        if _INTEGER_MIN <= value <= _INTEGER_MAX:
            return value
    raise BadType


def read_double(text: bytes) -> float:
    """A text as Java's Double reads it, but for its NaN, infinities, suffixes and base 16.

    Raises:
        BadType: it is no finite number.
    """
    if len(text) <= NUMBER_BYTES_MAX and _DOUBLE.fullmatch(bare := text.strip(_JAVA_SPACE)):
        value = float(bare)
        if math.isfinite(value):
            return value
    raise BadType
