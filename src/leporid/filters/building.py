"""From a tree of words to the tree of an expression: names resolved, constants read.

Must not know what an expression comes to; what a dialect refuses is in `checks`. Invariant: every
constant is one that the engine has too: 64-bit integers, finite doubles, text in UTF-8.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from lark.lexer import Token

from leporid.filters import checks, names
from leporid.filters.dialects import Dialect
from leporid.filters.errors import FilterError, quoted
from leporid.filters.grammar import Tree
from leporid.filters.nodes import (
    And,
    Arithmetic,
    Between,
    Comparison,
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
    Span,
    SubstringOperator,
)

INTEGER_MAX: Final = 2**63 - 1
INTEGER_MIN: Final = -(2**63)

_ORDERS: Final = {
    "LESS": Order.LESS,
    "LESS_OR_EQUAL": Order.LESS_OR_EQUAL,
    "GREATER": Order.GREATER,
    "GREATER_OR_EQUAL": Order.GREATER_OR_EQUAL,
}


class Builder:
    """Makes the nodes of one expression."""

    def __init__(self, text: str, dialect: Dialect) -> None:
        self._text = text
        self._dialect = dialect
        self._rules = checks.of(dialect, text)

    def build(self, tree: Tree | Token) -> Node:
        """Make the whole tree, a condition."""
        return self._rules.condition(self._node(tree))

    def _node(self, part: Tree | Token) -> Node:
        assert not isinstance(part, Token), "words stand in rules"
        return _MAKERS[part.data](self, part.children, _span(part))

    def _fail(self, reason: str, position: int) -> FilterError:
        return FilterError(reason, self._text, position)

    # ------------------------------------------------------------------ conditions

    def _either(self, parts: list[Tree | Token], span: Span) -> Node:
        left, right = self._node(parts[0]), self._node(parts[2])
        return Or(self._rules.condition(left), self._rules.condition(right), span=span)

    def _both(self, parts: list[Tree | Token], span: Span) -> Node:
        left, right = self._node(parts[0]), self._node(parts[2])
        return And(self._rules.condition(left), self._rules.condition(right), span=span)

    def _negation(self, parts: list[Tree | Token], span: Span) -> Node:
        return Not(self._rules.condition(self._node(parts[1])), span=span)

    def _comparison(self, parts: list[Tree | Token], span: Span) -> Node:
        left, word, right = self._node(parts[0]), _word(parts[1]), self._node(parts[2])
        if word.type in _ORDERS:
            self._rules.ordered(left, right)
            return Comparison(_ORDERS[word.type], left, right, span=span)
        self._rules.equal(left, right)
        equal = Comparison(Order.EQUAL, left, right, span=span)
        return equal if word.type == "EQUAL" else Not(equal, span=span)

    def _between(self, parts: list[Tree | Token], span: Span) -> Node:
        negated, (value, _, low, _, high) = _without_not(parts)
        node = Between(self._node(value), self._node(low), self._node(high), span=span)
        self._rules.between(node, negated=negated)
        return Not(node, span=span) if negated else node

    def _within(self, parts: list[Tree | Token], span: Span) -> Node:
        negated, (value, _, _, *rest) = _without_not(parts)
        items = [
            self._literal(one.children, _span(one)) for one in rest if not isinstance(one, Token)
        ]
        node = In(self._node(value), tuple(items), span=span)
        self._rules.within(node)
        return Not(node, span=span) if negated else node

    def _like(self, parts: list[Tree | Token], span: Span) -> Node:
        negated, (value, _, pattern, *rest) = _without_not(parts)
        escape = self._string(_word(rest[1])) if rest else None
        if escape is not None and len(escape) != 1:
            raise self._fail("ESCAPE takes one character", _span(rest[1])[0])
        node = Like(self._node(value), self._string(_word(pattern)), escape, span=span)
        self._rules.like(node, _span(pattern)[0])
        return Not(node, span=span) if negated else node

    def _search(self, parts: list[Tree | Token], span: Span) -> Node:
        negated, (value, operator, text) = _without_not(parts)
        node = Search(
            SubstringOperator(_word(operator).type),
            self._node(value),
            self._string(_word(text)),
            negated,
            span=span,
        )
        self._rules.search(node, _span(text)[0])
        return node

    def _is_null(self, parts: list[Tree | Token], span: Span) -> Node:
        operand = self._node(parts[0])
        self._rules.null(operand)
        node = IsNull(operand, span=span)
        return Not(node, span=span) if _word(parts[2]).type == "NOT" else node

    # ------------------------------------------------------------------ values

    def _parentheses(self, parts: list[Tree | Token], _span: Span) -> Node:
        return self._node(parts[1])

    def _arithmetic(self, parts: list[Tree | Token], span: Span) -> Node:
        left, right = self._node(parts[0]), self._node(parts[2])
        node = Arithmetic(Operator(str(parts[1])), left, right, span=span)
        self._rules.arithmetic(node)
        return node

    def _sign(self, parts: list[Tree | Token], span: Span) -> Node:
        minus = _word(parts[0]).type == "MINUS"
        number = _number_of(parts[1])
        if minus and number is not None:
            return Literal(self._number(number, -1), span=span)
        operand = self._node(parts[1])
        self._rules.signed(operand)
        if not minus:
            # RocketMQ drops the sign. In JMS, only a number may have one.
            checked = self._dialect is Dialect.JMS and checks.kind_of(operand) != checks.NUMBER
            return Positive(operand, span=span) if checked else operand
        if isinstance(operand, Literal) and _is_number(operand.value):
            value = operand.value
            assert isinstance(value, int | float)
            if value > INTEGER_MIN:
                return Literal(-value, span=span)
        return Negative(operand, span=span)

    def _literal(self, parts: list[Tree | Token], span: Span) -> Literal:
        """A constant; in a list, a number may have a sign."""
        word = _word(parts[-1])
        if word.type == "STRING":
            return Literal(self._string(word), span=span)
        if word.type in ("TRUE", "FALSE"):
            return Literal(word.type == "TRUE", span=span)
        if word.type == "NULL":
            return Literal(None, span=span)
        return Literal(self._number(word, -1 if parts[0] == "-" else 1), span=span)

    def _name(self, parts: list[Tree | Token], span: Span) -> Node:
        word = _word(parts[0])
        try:
            if word.type == "QUOTED":
                return names.header(word[1:-1].replace('""', '"'), span)
            return names.resolve(str(word), self._dialect, span)
        except ValueError as error:
            raise self._fail(str(error), span[0]) from None

    def _string(self, word: Token) -> str:
        return word[1:-1].replace("''", "'")

    def _number(self, word: Token, sign: int) -> int | float:
        position = _span(word)[0]
        if word.type == "FLOAT":
            number = float(word)
            self._rules.decimal(number, position)
            if not math.isfinite(number):
                raise self._fail(f"{quoted(word)} is too large for a number", position)
            return sign * number
        digits = word.rstrip("lL")
        if word.type == "HEX":
            value = sign * int(digits, 16)
        elif digits[0] == "0" and len(digits) > 1:
            raise self._fail(
                f"{quoted(word)} begins with 0: there are no octal numbers here", position
            )
        else:
            value = sign * int(digits)
        self._rules.integer(value, word, position)
        if not INTEGER_MIN <= value <= INTEGER_MAX:
            raise self._fail(f"{quoted(word)} does not fit into 64 bits", position)
        return value


# Of functions, not of methods: these would refer to the builder, and the builder to them.
_MAKERS: Final[dict[str, Callable[[Builder, list[Tree | Token], Span], Node]]] = {
    "either": Builder._either,
    "both": Builder._both,
    "negation": Builder._negation,
    "comparison": Builder._comparison,
    "between": Builder._between,
    "within": Builder._within,
    "like": Builder._like,
    "search": Builder._search,
    "is_null": Builder._is_null,
    "arithmetic": Builder._arithmetic,
    "sign": Builder._sign,
    "parentheses": Builder._parentheses,
    "literal": Builder._literal,
    "item": Builder._literal,
    "name": Builder._name,
}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _word(part: Tree | Token) -> Token:
    assert isinstance(part, Token)
    return part


def _without_not(parts: list[Tree | Token]) -> tuple[bool, list[Tree | Token]]:
    """Whether NOT stands after the first part, and the parts without it."""
    if isinstance(parts[1], Token) and parts[1].type == "NOT":
        return True, [parts[0], *parts[2:]]
    return False, parts


def _number_of(part: Tree | Token) -> Token | None:
    """The number that a rule consists of, if it does."""
    if isinstance(part, Token) or part.data != "literal":
        return None
    word = _word(part.children[0])
    return word if word.type in ("INTEGER", "FLOAT", "HEX") else None


def _span(part: Tree | Token) -> Span:
    first: Tree | Token = part
    while not isinstance(first, Token):
        first = first.children[0]
    last: Tree | Token = part
    while not isinstance(last, Token):
        last = last.children[-1]
    assert first.start_pos is not None
    assert last.end_pos is not None
    return first.start_pos, last.end_pos
