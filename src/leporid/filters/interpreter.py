"""Evaluates a tree over a decoded message, slowly and in plain sight.

It is what the compiled program is checked against, and what explains an outcome to a person. Must
not know the program. Invariant: it never raises, and calls an outcome what the engine calls it.

`x AND y`, `x OR y` and `x BETWEEN low AND high` go from left to right and stop where the rest does
not count; so what stands there is no type error either.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from leporid.filters import like
from leporid.filters.dialects import Dialect
from leporid.filters.messages import FilteredMessage, Other, Value
from leporid.filters.nodes import (
    And,
    Arithmetic,
    Between,
    Comparison,
    Condition,
    In,
    IsNull,
    Like,
    Literal,
    Negative,
    Node,
    Not,
    Or,
    Order,
    Positive,
    Search,
    SubstringOperator,
)
from leporid.filters.values import (
    BadType,
    calculate,
    compare_jms,
    equal_rocketmq,
    is_number,
    negative,
    order_rocketmq,
)


class Outcome(Enum):
    """What an expression comes to for one message."""

    MATCH = 1
    NO_MATCH = 0
    """False or unknown."""
    TYPE_ERROR = -1
    """No match, and on the way there an operator met values that it has no result for."""


@dataclass(frozen=True, slots=True)
class Step:
    """The value of one part; `bad_type` when it has none."""

    node: Node
    value: Value
    bad_type: bool


class _Skipped(Exception):
    """A type error ended the evaluation (rocketmq)."""


class Evaluation:
    """One expression over one message.

    Attributes:
        steps: each part that was looked at, with its value, operands before operators.
        outcome: what it came to.
    """

    def __init__(self, tree: Node, dialect: Dialect, message: FilteredMessage) -> None:
        self.steps: list[Step] = []
        self._jms = dialect is Dialect.JMS
        self._message = message
        self._bad_type = False
        try:
            matched = self._value(tree) is True
        except _Skipped:
            matched = False
        self.outcome = Outcome.TYPE_ERROR if self._bad_type else Outcome.NO_MATCH
        if matched:
            self.outcome = Outcome.MATCH

    def _value(self, node: Node) -> Value:
        method = _METHODS.get(type(node))
        bad = False
        value: Value = None
        try:
            value = method(self, node) if method else self._message.value_of(node)
        except BadType:
            self._bad_type = bad = True
        self.steps.append(Step(node, value, bad))
        if bad and not self._jms:
            raise _Skipped
        return value

    # ------------------------------------------------------------------ conditions

    def _condition(self, node: Condition) -> Value:
        value = self._value(node.operand)
        if value is None or isinstance(value, bool):
            return value
        if self._jms:
            raise BadType
        return False

    def _not(self, node: Not) -> Value:
        value = self._value(node.operand)
        return None if value is None else not value

    def _and(self, node: And) -> Value:
        left = self._value(node.left)
        if left is False:
            return False
        right = self._value(node.right)
        if right is False:
            return False
        return None if left is None or right is None else True

    def _or(self, node: Or) -> Value:
        left = self._value(node.left)
        if left is True:
            return True
        right = self._value(node.right)
        if right is True:
            return True
        return None if left is None or right is None else False

    # ------------------------------------------------------------------ comparisons

    def _compare(self, order: Order, left: Value, right: Value) -> bool | None:
        if self._jms:
            return compare_jms(order, left, right)
        if order is Order.EQUAL:
            return equal_rocketmq(left, right)
        return order_rocketmq(order, left, right)

    def _comparison(self, node: Comparison) -> Value:
        return self._compare(node.order, self._value(node.left), self._value(node.right))

    def _between(self, node: Between) -> Value:
        value, low, high = (self._value(one) for one in (node.value, node.low, node.high))
        results: list[bool | None] = []
        bad = False
        for order, bound in ((Order.GREATER_OR_EQUAL, low), (Order.LESS_OR_EQUAL, high)):
            try:
                results.append(self._compare(order, value, bound))
            except BadType:
                if not self._jms:
                    raise
                self._bad_type = bad = True
                results.append(None)
            if results[-1] is False:
                return False
        if bad:
            raise BadType
        return None if None in results else True

    def _in(self, node: In) -> Value:
        value = self._value(node.value)
        if not self._jms:
            if not isinstance(value, bytes):
                return None
            return any(value == _constant(item) for item in node.items)
        if value is None:
            return None
        bad = False
        for item in node.items:
            try:
                if compare_jms(Order.EQUAL, value, _constant(item)):
                    return True
            except BadType:
                # As `value = item OR …`: an item of another kind is not skipped, but unknown.
                self._bad_type = bad = True
        if bad:
            raise BadType
        return False

    def _like(self, node: Like) -> Value:
        value = self._value(node.value)
        if value is None:
            return None
        if not isinstance(value, bytes):
            raise BadType
        return like.matches(like.symbols_of(node.pattern, node.escape), value)

    def _search(self, node: Search) -> Value:
        value = self._value(node.value)
        text = node.text.encode()
        if self._jms:
            if value is None:
                return None
            if not isinstance(value, bytes):
                raise BadType
        elif not isinstance(value, bytes) or not text:
            return False
        match node.operator:
            case SubstringOperator.CONTAINS:
                found = text in value
            case SubstringOperator.STARTSWITH:
                found = value.startswith(text)
            case SubstringOperator.ENDSWITH:
                found = value.endswith(text)
        return found is not node.negated

    def _is_null(self, node: IsNull) -> Value:
        return self._value(node.operand) is None

    # ------------------------------------------------------------------ values

    def _literal(self, node: Literal) -> Value:
        return _constant(node)

    def _negative(self, node: Negative) -> Value:
        value = self._value(node.operand)
        if is_number(value):
            return negative(value)
        if self._jms and value is not None:
            raise BadType
        return None

    def _positive(self, node: Positive) -> Value:
        value = self._value(node.operand)
        if value is None or is_number(value):
            return value
        raise BadType

    def _arithmetic(self, node: Arithmetic) -> Value:
        return calculate(node.operator, self._value(node.left), self._value(node.right))


_METHODS: dict[type, Callable[[Evaluation, Any], Value]] = {
    Literal: Evaluation._literal,
    Condition: Evaluation._condition,
    Not: Evaluation._not,
    And: Evaluation._and,
    Or: Evaluation._or,
    Comparison: Evaluation._comparison,
    Between: Evaluation._between,
    In: Evaluation._in,
    Like: Evaluation._like,
    Search: Evaluation._search,
    IsNull: Evaluation._is_null,
    Negative: Evaluation._negative,
    Positive: Evaluation._positive,
    Arithmetic: Evaluation._arithmetic,
}


def _constant(node: Literal) -> Value:
    return node.value.encode() if isinstance(node.value, str) else node.value


def evaluate(tree: Node, dialect: Dialect, message: FilteredMessage) -> Outcome:
    """What an expression comes to for a message."""
    return Evaluation(tree, dialect, message).outcome


def said(value: Value) -> str:
    """A value as an explanation shows it."""
    match value:
        case None:
            return "unknown"
        case bool():
            return str(value).lower()
        case bytes():
            return "'" + value.decode("utf-8", "replace").replace("'", "''") + "'"
        case Other():
            return value.value
    return repr(value)
