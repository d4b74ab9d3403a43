"""The bytes of a compiled expression, which the engine's `Selector` runs.

    program = version:1 dialect:1 headers:1 constants:1 instructions:2
              header* constant* instruction*                            all big-endian
    header = length:1 name
    constant = 0                        nothing
             | 1 value:1                false, true
             | 2 value:8                an integer
             | 3 value:8                a double
             | 4 length:2 text
             | 5 length:2 pattern       FE: any character, FF: any number of characters
    instruction = opcode:1 count:1 operand:2

A machine with a stack. Jumps lead forward, so a program of n instructions takes at most n steps.
Must not know trees. The engine has the same numbers in `selector.h`, and a test compares them.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from leporid.filters.dialects import Dialect
from leporid.filters.like import Symbols, Wild

VERSION: Final = 1
DIALECTS: Final = {Dialect.JMS: 0, Dialect.ROCKETMQ: 1}
HEADERS_MAX: Final = 128
CONSTANTS_MAX: Final = 255
STACK_MAX: Final = 128

_HEAD: Final = struct.Struct(">BBBBH")
_INSTRUCTION: Final = struct.Struct(">BBH")
_WILD: Final = {Wild.ONE: b"\xfe", Wild.MANY: b"\xff"}


class Opcode(IntEnum):
    """What an instruction does; `count` and `operand` are named where it has them."""

    END = 0
    CONSTANT = 1  # operand: which; pushes it, as all that follow up to TAG push one value
    HEADER = 2  # operand: which
    PROPERTY = 3  # operand: its bit in the flags
    ROUTING_KEY = 4
    EXCHANGE = 5
    DELIVERY_MODE = 6  # JMS's texts
    MILLISECONDS = 7  # of the property timestamp
    TAG = 8  # operand: the header that counts first, count: the other one
    CONDITION = 9
    NOT = 10
    NEGATIVE = 11
    IS_NULL = 12
    UNLESS_FALSE = 13  # operand: where to go on when the top is false, which stays
    AND = 14
    UNLESS_TRUE = 15  # operand: where to go on when the top is true, which stays
    OR = 16
    EQUAL = 17
    LESS = 18
    LESS_OR_EQUAL = 19
    GREATER = 20
    GREATER_OR_EQUAL = 21
    ADD = 22
    SUBTRACT = 23
    MULTIPLY = 24
    DIVIDE = 25
    REMAINDER = 26
    BETWEEN = 27
    IN = 28  # operand: the first constant, count: of constants
    LIKE = 29  # operand: the pattern, count: 1 to negate it
    STARTSWITH = 30  # operand: the text, count: 1 to negate it
    ENDSWITH = 31  # operand: the text, count: 1 to negate it


# How many values an instruction adds to the stack.
_GROWTH: Final = {
    Opcode.END: 0,
    **dict.fromkeys(range(Opcode.CONSTANT, Opcode.TAG + 1), 1),
    **dict.fromkeys(range(Opcode.CONDITION, Opcode.UNLESS_FALSE + 1), 0),
    Opcode.AND: -1,
    Opcode.UNLESS_TRUE: 0,
    **dict.fromkeys(range(Opcode.OR, Opcode.REMAINDER + 1), -1),
    Opcode.BETWEEN: -2,
    **dict.fromkeys(range(Opcode.IN, Opcode.ENDSWITH + 1), 0),
}

Constant = None | bool | int | float | bytes | tuple[bytes | Wild, ...]
"""A pattern is a tuple."""


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled expression.

    Attributes:
        dialect: whose grammar it was in.
        text: of the expression.
        code: for the engine.
    """

    dialect: Dialect
    text: str
    code: bytes = field(repr=False)


class Assembler:
    """Puts a program together, instruction by instruction."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._headers: dict[str, int] = {}
        self._constants: list[bytes] = []
        self._instructions: list[tuple[int, int, int]] = []
        self._depth = self._depth_max = 0

    def emit(self, opcode: Opcode, operand: int = 0, count: int = 0) -> int:
        """Add an instruction and return its number."""
        self._instructions.append((opcode, count, operand))
        self._depth += _GROWTH[opcode]
        self._depth_max = max(self._depth_max, self._depth)
        return len(self._instructions) - 1

    def land(self, jump: int) -> None:
        """Let a jump lead to what is added next."""
        opcode, count, _ = self._instructions[jump]
        self._instructions[jump] = (opcode, count, len(self._instructions))

    def header(self, name: str) -> int:
        """The number of a header."""
        return self._headers.setdefault(name, len(self._headers))

    def constant(self, value: Constant) -> int:
        """The number of a constant."""
        encoded = _encode(value)
        if encoded not in self._constants:
            self._constants.append(encoded)
        return self._constants.index(encoded)

    def constants(self, values: list[bytes | int | float]) -> int:
        """The number of the first of several constants that stand one after another."""
        self._constants += [_encode(value) for value in values]
        return len(self._constants) - len(values)

    def finish(self, text: str) -> Program:
        """End the program, which leaves one value."""
        self.emit(Opcode.END)
        # Limits of expressions keep below these by far.
        assert self._depth == 1, self._depth
        assert self._depth_max <= STACK_MAX, self._depth_max
        assert len(self._headers) <= HEADERS_MAX, len(self._headers)
        assert len(self._constants) <= CONSTANTS_MAX, len(self._constants)
        head = _HEAD.pack(
            VERSION,
            DIALECTS[self._dialect],
            len(self._headers),
            len(self._constants),
            len(self._instructions),
        )
        names = [name.encode() for name in self._headers]
        parts = [bytes((len(name),)) + name for name in names]
        parts += self._constants
        parts += [_INSTRUCTION.pack(*one) for one in self._instructions]
        return Program(self._dialect, text, head + b"".join(parts))


def _encode(value: Constant) -> bytes:
    match value:
        case None:
            return b"\0"
        case bool():
            return struct.pack(">BB", 1, value)
        case int():
            return struct.pack(">Bq", 2, value)
        case float():
            return struct.pack(">Bd", 3, value)
        case bytes():
            return struct.pack(">BH", 4, len(value)) + value
    pattern = _pattern(value)
    return struct.pack(">BH", 5, len(pattern)) + pattern


def _pattern(symbols: Symbols) -> bytes:
    return b"".join(one if isinstance(one, bytes) else _WILD[one] for one in symbols)
