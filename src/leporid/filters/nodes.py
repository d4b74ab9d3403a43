"""The tree of an expression, the same for every dialect.

Must not know how a tree is read, compiled or evaluated. Invariant: trees are equal when they mean
the same in the same words; where in the text a part stood (`span`) does not count.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import TypeAlias

Span: TypeAlias = tuple[int, int]
"""First character, and the one after the last."""

Constant: TypeAlias = None | bool | int | float | str


class Order(StrEnum):
    """How two values are compared; `a > b` is `b < a` with the sides as they were written."""

    EQUAL = "="
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="


class Operator(StrEnum):
    """Arithmetic."""

    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    DIVIDE = "/"
    REMAINDER = "%"


class SubstringOperator(StrEnum):
    """Where a text is looked for."""

    CONTAINS = "CONTAINS"
    STARTSWITH = "STARTSWITH"
    ENDSWITH = "ENDSWITH"


@dataclass(frozen=True, slots=True)
class Part:
    """Anything in a tree."""

    span: Span = field(compare=False, repr=False, kw_only=True, default=(0, 0))


@dataclass(frozen=True, slots=True)
class Literal(Part):
    """A constant."""

    value: Constant


@dataclass(frozen=True, slots=True)
class Header(Part):
    """A field of the message's headers."""

    name: str


@dataclass(frozen=True, slots=True)
class Property(Part):
    """A property of class basic, by the name it has in `amqp.properties`."""

    name: str


@dataclass(frozen=True, slots=True)
class RoutingKey(Part):
    """The key a message was published with."""


@dataclass(frozen=True, slots=True)
class Exchange(Part):
    """The name of the exchange a message was published to."""


@dataclass(frozen=True, slots=True)
class Tag(Part):
    """The message's tag: header `x-tag`, else `x-stream-filter-value`."""


@dataclass(frozen=True, slots=True)
class JmsDeliveryMode(Part):
    """The texts PERSISTENT or NON_PERSISTENT."""


@dataclass(frozen=True, slots=True)
class JmsTimestamp(Part):
    """The property timestamp in milliseconds."""


@dataclass(frozen=True, slots=True)
class Condition(Part):
    """A value where a condition is asked for."""

    operand: Node


@dataclass(frozen=True, slots=True)
class Not(Part):
    """True for false, and the other way round."""

    operand: Node


@dataclass(frozen=True, slots=True)
class Negative(Part):
    """A number with the other sign."""

    operand: Node


@dataclass(frozen=True, slots=True)
class Positive(Part):
    """A number as it is; a type error for anything else but NULL. Only `jms` has it."""

    operand: Node


@dataclass(frozen=True, slots=True)
class And(Part):
    """Both are true; the right one does not count when the left one is false."""

    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Or(Part):
    """One is true; the right one does not count when the left one is."""

    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Comparison(Part):
    """Two values compared. `<>` is `Not` of `=`."""

    order: Order
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Arithmetic(Part):
    """Two numbers made into one."""

    operator: Operator
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Between(Part):
    """Not below one value, and not above the other."""

    value: Node
    low: Node
    high: Node


@dataclass(frozen=True, slots=True)
class In(Part):
    """Equal to one of several constants."""

    value: Node
    items: tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class Like(Part):
    """A text that has a pattern; None for `escape` is no escape character."""

    value: Node
    pattern: str
    escape: str | None = None


@dataclass(frozen=True, slots=True)
class Search(Part):
    """A text that has another in it. What `negated` is for other values, the dialect says."""

    operator: SubstringOperator
    value: Node
    text: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class IsNull(Part):
    """A value that is not there."""

    operand: Node


Node: TypeAlias = (
    Literal
    | Header
    | Property
    | RoutingKey
    | Exchange
    | Tag
    | JmsDeliveryMode
    | JmsTimestamp
    | Condition
    | Not
    | Negative
    | Positive
    | And
    | Or
    | Comparison
    | Arithmetic
    | Between
    | In
    | Like
    | Search
    | IsNull
)


def parts_of(node: Node) -> Iterator[Node]:
    """What a node is made of, from left to right."""
    for one in fields(node):
        value = getattr(node, one.name)
        if isinstance(value, Part):
            yield value  # type: ignore[misc] # every part is a node
        elif isinstance(value, tuple) and one.name != "span":
            yield from value
