"""Trees into programs, and the programs that are kept.

Must not know values or the engine; the dialect goes into the program and decides there. Invariant:
a program comes to what `interpreter` says for the same tree, on every message.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from leporid.filters.dialects import DEFAULT, Dialect
from leporid.filters.like import Wild, symbols_of
from leporid.filters.limits import PROGRAMS_MAX
from leporid.filters.messages import TAG_HEADERS
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
    Operator,
    Or,
    Order,
    Positive,
    Property,
    RoutingKey,
    Search,
    SubstringOperator,
    Tag,
)
from leporid.filters.parser import parse
from leporid.filters.program import Assembler, Opcode, Program

# The bit of each property in a content header's flags.
PROPERTY_BITS: Final = {
    "content_type": 15,
    "content_encoding": 14,
    "delivery_mode": 12,
    "priority": 11,
    "correlation_id": 10,
    "reply_to": 9,
    "expiration": 8,
    "message_id": 7,
    "timestamp": 6,
    "type": 5,
    "user_id": 4,
    "app_id": 3,
    "cluster_id": 2,
}

_ORDERS: Final = {
    Order.EQUAL: Opcode.EQUAL,
    Order.LESS: Opcode.LESS,
    Order.LESS_OR_EQUAL: Opcode.LESS_OR_EQUAL,
    Order.GREATER: Opcode.GREATER,
    Order.GREATER_OR_EQUAL: Opcode.GREATER_OR_EQUAL,
}

_OPERATORS: Final = {
    Operator.ADD: Opcode.ADD,
    Operator.SUBTRACT: Opcode.SUBTRACT,
    Operator.MULTIPLY: Opcode.MULTIPLY,
    Operator.DIVIDE: Opcode.DIVIDE,
    Operator.REMAINDER: Opcode.REMAINDER,
}


@lru_cache(maxsize=PROGRAMS_MAX)
def program(text: str, dialect: Dialect = DEFAULT) -> Program:
    """Return the program of an expression.

    Raises:
        FilterError: it is no expression of that dialect.
    """
    return compile_tree(parse(text, dialect), dialect, text)


def compile_tree(tree: Node, dialect: Dialect, text: str = "") -> Program:
    """Make a program of a tree."""
    compiler = _Compiler(dialect)
    compiler.add(tree)
    return compiler.assembler.finish(text)


class _Compiler:
    """Adds the instructions of each part after those of its operands."""

    def __init__(self, dialect: Dialect) -> None:
        self.assembler = Assembler(dialect)
        self._jms = dialect is Dialect.JMS

    def add(self, node: Node) -> None:
        if (plain := _PLAIN.get(type(node))) is not None:
            self.assembler.emit(plain)
        else:
            _METHODS[type(node)](self, node)

    def _literal(self, node: Literal) -> None:
        value = node.value.encode() if isinstance(node.value, str) else node.value
        self.assembler.emit(Opcode.CONSTANT, self.assembler.constant(value))

    def _header(self, node: Header) -> None:
        self.assembler.emit(Opcode.HEADER, self.assembler.header(node.name))

    def _property(self, node: Property) -> None:
        self.assembler.emit(Opcode.PROPERTY, PROPERTY_BITS[node.name])

    def _tag(self, _node: Tag) -> None:
        first, second = (self.assembler.header(name) for name in TAG_HEADERS)
        self.assembler.emit(Opcode.TAG, first, second)

    def _unary(self, node: Condition | Not | Negative | IsNull) -> None:
        self.add(node.operand)
        self.assembler.emit(_UNARY[type(node)])

    def _positive(self, node: Positive) -> None:
        # Multiplied by the integer 1, a number is itself and the rest a type error.
        self.add(node.operand)
        self.assembler.emit(Opcode.CONSTANT, self.assembler.constant(1))
        self.assembler.emit(Opcode.MULTIPLY)

    def _and(self, node: And) -> None:
        self._either(node, Opcode.UNLESS_FALSE, Opcode.AND)

    def _or(self, node: Or) -> None:
        self._either(node, Opcode.UNLESS_TRUE, Opcode.OR)

    def _either(self, node: And | Or, jump: Opcode, join: Opcode) -> None:
        self.add(node.left)
        enough = self.assembler.emit(jump)
        self.add(node.right)
        self.assembler.emit(join)
        self.assembler.land(enough)

    def _comparison(self, node: Comparison) -> None:
        self.add(node.left)
        self.add(node.right)
        self.assembler.emit(_ORDERS[node.order])

    def _arithmetic(self, node: Arithmetic) -> None:
        self.add(node.left)
        self.add(node.right)
        self.assembler.emit(_OPERATORS[node.operator])

    def _between(self, node: Between) -> None:
        self.add(node.value)
        self.add(node.low)
        self.add(node.high)
        self.assembler.emit(Opcode.BETWEEN)

    def _in(self, node: In) -> None:
        self.add(node.value)
        values: list[bytes | int | float] = []
        for item in node.items:
            assert item.value is not None
            values.append(item.value.encode() if isinstance(item.value, str) else item.value)
        self.assembler.emit(Opcode.IN, self.assembler.constants(values), len(values))

    def _like(self, node: Like) -> None:
        self.add(node.value)
        symbols = symbols_of(node.pattern, node.escape)
        match symbols:
            case ():
                self._equal_text(b"")
            case (bytes() as text,):
                self._equal_text(text)
            case (bytes() as text, Wild.MANY):
                self.assembler.emit(Opcode.STARTSWITH, self.assembler.constant(text))
            case (Wild.MANY, bytes() as text):
                self.assembler.emit(Opcode.ENDSWITH, self.assembler.constant(text))
            case _:
                self.assembler.emit(Opcode.LIKE, self.assembler.constant(symbols))

    def _equal_text(self, text: bytes) -> None:
        self.assembler.emit(Opcode.CONSTANT, self.assembler.constant(text))
        self.assembler.emit(Opcode.EQUAL)

    def _search(self, node: Search) -> None:
        self.add(node.value)
        text = node.text.encode()
        if not text and not self._jms:
            # Never found, and never not found either; the operand may still be a type error.
            self.assembler.emit(Opcode.IS_NULL)
            self.assembler.emit(Opcode.CONSTANT, self.assembler.constant(False))
            self.assembler.emit(Opcode.AND)
            return
        if node.operator is SubstringOperator.CONTAINS:
            pattern = (Wild.MANY, text, Wild.MANY) if text else (Wild.MANY,)
            self.assembler.emit(Opcode.LIKE, self.assembler.constant(pattern), node.negated)
        else:
            opcode = Opcode[node.operator.name]
            self.assembler.emit(opcode, self.assembler.constant(text), node.negated)


_PLAIN: Final[dict[type, Opcode]] = {
    RoutingKey: Opcode.ROUTING_KEY,
    Exchange: Opcode.EXCHANGE,
    JmsDeliveryMode: Opcode.DELIVERY_MODE,
    JmsTimestamp: Opcode.MILLISECONDS,
}

_UNARY: Final[dict[type, Opcode]] = {
    Condition: Opcode.CONDITION,
    Not: Opcode.NOT,
    Negative: Opcode.NEGATIVE,
    IsNull: Opcode.IS_NULL,
}

_METHODS: Final[dict[type, Callable[[_Compiler, Any], None]]] = {
    Literal: _Compiler._literal,
    Header: _Compiler._header,
    Property: _Compiler._property,
    Tag: _Compiler._tag,
    Condition: _Compiler._unary,
    Not: _Compiler._unary,
    Negative: _Compiler._unary,
    Positive: _Compiler._positive,
    IsNull: _Compiler._unary,
    And: _Compiler._and,
    Or: _Compiler._or,
    Comparison: _Compiler._comparison,
    Arithmetic: _Compiler._arithmetic,
    Between: _Compiler._between,
    In: _Compiler._in,
    Like: _Compiler._like,
    Search: _Compiler._search,
}
