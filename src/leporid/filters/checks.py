"""What each dialect refuses in an expression that its grammar lets through.

Most refusals are of what could never be true, or always is: found here, a mistake is told to who
made it; found later, it is a consumer that gets nothing. Must not know messages. Invariant: an
expression that passes has a condition wherever a condition is asked for.
"""

from __future__ import annotations

import re
from typing import Final

from leporid.filters.dialects import Dialect
from leporid.filters.errors import FilterError, quoted
from leporid.filters.like import byte_count, symbols_of
from leporid.filters.limits import PATTERN_BYTES_MAX
from leporid.filters.nodes import (
    And,
    Arithmetic,
    Between,
    Comparison,
    Condition,
    Exchange,
    Header,
    In,
    IsNull,
    JmsDeliveryMode,
    JmsTimestamp,
    Like,
    Literal,
    Negative,
    Node,
    Not,
    Or,
    Positive,
    Property,
    RoutingKey,
    Search,
    SubstringOperator,
    Tag,
)

CONDITIONS: Final = (And, Or, Not, Comparison, Between, In, Like, Search, IsNull, Condition)
NAMES: Final = (Header, Property, RoutingKey, Exchange, Tag, JmsDeliveryMode, JmsTimestamp)

# Kinds that are certain whatever the message is.
CONDITION, NUMBER, TEXT, NULL = "a condition", "a number", "a text", "NULL"


def kind_of(node: Node) -> str | None:
    """What a part's value always is; None for what only a message can tell."""
    if isinstance(node, Literal):
        if node.value is None:
            return NULL
        if isinstance(node.value, bool):
            return CONDITION
        return TEXT if isinstance(node.value, str) else NUMBER
    if isinstance(node, CONDITIONS):
        return CONDITION
    return NUMBER if isinstance(node, Arithmetic | Negative | Positive) else None


_HYPHENATED: Final = re.compile(r"[^\W\d][\w$]*(?:-[^\W\d][\w$]*)+")


def hyphenated(node: Node, text: str) -> str | None:
    """The header that a difference looks like: many a header's name has hyphens, as x-tag."""
    start, end = node.span
    found = _HYPHENATED.match(text, start) if isinstance(node, Arithmetic) else None
    return found[0] if found is not None and found.end() >= end else None


class Rules:
    """What both dialects refuse."""

    def __init__(self, text: str) -> None:
        self._text = text

    def fail(self, reason: str, position: int) -> FilterError:
        """The refusal of what stands at a position."""
        return FilterError(reason, self._text, position)

    def refuse(self, node: Node, reason: str, *beside: Node) -> FilterError:
        """The refusal of a part, which is quoted, for what it is or for what is beside it."""
        start, end = node.span
        for each in (node, *beside):
            name = hyphenated(each, self._text)
            if name is not None:
                reason += f'; the header {quoted(name)} is "{quoted(name)}"'
                break
        return self.fail(f"{quoted(self._text[start:end])} {reason}", start)

    def condition(self, node: Node) -> Node:
        """Make a condition of what stands where one is asked for."""
        kind = kind_of(node)
        if kind in (NUMBER, TEXT):
            raise self.refuse(node, f"is {kind}, and no condition: compare it with something")
        return Condition(node, span=node.span) if isinstance(node, NAMES) else node

    def equal(self, left: Node, right: Node) -> None:
        """Check the two sides of = or <>."""
        raise NotImplementedError

    def ordered(self, left: Node, right: Node) -> None:
        """Check the two sides of <, <=, > or >=."""
        raise NotImplementedError

    def between(self, node: Between, *, negated: bool) -> None:
        """Check what BETWEEN compares."""
        raise NotImplementedError

    def within(self, node: In) -> None:
        """Check what IN compares."""
        raise NotImplementedError

    def like(self, node: Like, position: int) -> None:
        """Check a pattern, whose text stands at `position`."""
        raise NotImplementedError

    def search(self, node: Search, position: int) -> None:
        """Check what is looked for, which stands at `position`."""
        size = len(node.text.encode())
        if node.operator is SubstringOperator.CONTAINS and size > PATTERN_BYTES_MAX:
            raise self.fail(
                f"what is looked for has {size} bytes; at most {PATTERN_BYTES_MAX}", position
            )

    def arithmetic(self, node: Arithmetic) -> None:
        """Check an operator of arithmetic."""

    def null(self, node: Node) -> None:
        """Check what is asked whether it is NULL."""

    def signed(self, node: Node) -> None:
        """Check what has a sign."""

    def integer(self, value: int, word: str, position: int) -> None:
        """Check an integer."""

    def decimal(self, value: float, position: int) -> None:
        """Check a number with a point or an exponent, as it is without its sign."""


class Jms(Rules):
    """SQL92 as JMS has it; texts may be ordered, too."""

    def equal(self, left: Node, right: Node) -> None:
        """Refuse what is certainly of two kinds."""
        one, other = kind_of(left), kind_of(right)
        if one is not None and other is not None and one != other:
            raise self.refuse(right, f"is {other}, and never equal to {one}", left)

    def ordered(self, left: Node, right: Node) -> None:
        """Refuse conditions, and what is certainly of two kinds."""
        for side in (left, right):
            if kind_of(side) == CONDITION:
                raise self.refuse(side, "is a condition, and neither less nor greater")
        self.equal(left, right)

    def between(self, node: Between, *, negated: bool) -> None:
        """Refuse what could not be ordered."""
        self.ordered(node.value, node.low)
        self.ordered(node.value, node.high)
        self.ordered(node.low, node.high)

    def within(self, node: In) -> None:
        """Refuse constants that are certainly of another kind."""
        for item in node.items:
            self.equal(node.value, item)

    def like(self, node: Like, position: int) -> None:
        """Refuse patterns that are not whole, or large, and what is certainly no text."""
        self._text_or_unknown(node.value)
        try:
            symbols = symbols_of(node.pattern, node.escape)
        except ValueError as error:
            raise self.fail(str(error), position) from None
        if byte_count(symbols) > PATTERN_BYTES_MAX:
            raise self.fail(
                f"the pattern has {byte_count(symbols)} bytes; at most {PATTERN_BYTES_MAX}",
                position,
            )

    def search(self, node: Search, position: int) -> None:
        """Refuse what is certainly no text."""
        self._text_or_unknown(node.value)
        super().search(node, position)

    def arithmetic(self, node: Arithmetic) -> None:
        """Refuse what is certainly no number, and x-tag: no selector means x without tag."""
        self.signed(node.left)
        self.signed(node.right)
        name = hyphenated(node, self._text)
        if name is not None and name.startswith("x-"):
            raise self._no_difference(name, node)

    def null(self, node: Node) -> None:
        """Refuse differences that look like a header: they are NULL whether it is there or not."""
        name = hyphenated(node, self._text)
        if name is not None:
            raise self._no_difference(name, node)

    def _no_difference(self, name: str, node: Node) -> FilterError:
        meant = quoted(name)
        difference = meant.replace("-", " minus ")
        return self.fail(
            f'{meant} is {difference}; the header of that name is "{meant}"', node.span[0]
        )

    def signed(self, node: Node) -> None:
        """Refuse what is certainly no number."""
        if kind_of(node) not in (None, NUMBER):
            raise self.refuse(node, f"is {kind_of(node)}, and no number")

    def _text_or_unknown(self, node: Node) -> None:
        if kind_of(node) not in (None, TEXT):
            raise self.refuse(node, f"is {kind_of(node)}, and no text")


class RocketMq(Rules):
    """As RocketMQ's own parser, whose refusals these are."""

    def condition(self, node: Node) -> Node:
        """Let NULL pass, as RocketMQ does."""
        if isinstance(node, Literal) and node.value is None:
            return node
        return super().condition(node)

    def equal(self, left: Node, right: Node) -> None:
        """Refuse NULL, and TRUE or FALSE before another constant."""
        for side in (left, right):
            if kind_of(side) == NULL:
                raise self.refuse(side, "is equal to nothing: write IS NULL or IS NOT NULL")
        if (
            isinstance(left, Literal)
            and isinstance(right, Literal)
            and isinstance(left.value, bool)
            and not isinstance(right.value, bool)
        ):
            raise self.refuse(right, f"is {kind_of(right)}, and never equal to a condition")

    def ordered(self, left: Node, right: Node) -> None:
        """Refuse constants but numbers, and conditions."""
        for side in (left, right):
            kind = kind_of(side)
            if kind == NULL:
                raise self.refuse(side, "is neither less nor greater than anything")
            if kind not in (None, NUMBER):
                raise self.refuse(
                    side, f"is {kind}; only numbers are less or greater in this dialect"
                )

    def between(self, node: Between, *, negated: bool) -> None:
        """Refuse what is refused for <= and >=, and constants in the wrong order."""
        self.ordered(node.value, node.low)
        self.ordered(node.low, node.high)
        low, high = node.low, node.high
        if negated or not isinstance(low, Literal) or not isinstance(high, Literal):
            return
        assert isinstance(low.value, int | float)
        assert isinstance(high.value, int | float)
        if low.value > high.value:
            raise self.refuse(high, f"is less than {low.value}: nothing is between them")

    def within(self, node: In) -> None:
        """Refuse all but names."""
        if not isinstance(node.value, NAMES):
            raise self.refuse(node.value, "is not a name: IN takes one in this dialect")

    def integer(self, value: int, word: str, position: int) -> None:
        """Refuse the least of all 64-bit integers."""
        if value == -(2**63):
            raise self.fail(f"-{quoted(word)} cannot be written in this dialect", position)

    def decimal(self, value: float, position: int) -> None:
        """Refuse zero, which is less than the least double that Java names."""
        if value == 0:
            raise self.fail("write 0: a zero with a point is refused in this dialect", position)


def of(dialect: Dialect, text: str) -> Rules:
    """The rules of a dialect, for one expression."""
    return Jms(text) if dialect is Dialect.JMS else RocketMq(text)
