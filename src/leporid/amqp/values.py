"""Table values as RabbitMQ sees them: the name of their type, when two are equal, how they print.

Must not know what any key or value means. Invariant: `comparable(a) == comparable(b)` exactly
when RabbitMQ finds the two values equal, and then their hashes are equal too.

RabbitMQ keeps a value as a pair of type and Erlang term. Where two values stand at the top of a
table it compares the terms and not the types, so that a byte 5, a double 5.0 and a timestamp 5
are equal, and so are text and octets. Within arrays and tables the types count too. The terms
become Python values of kinds that never equal each other by accident: atoms `str`, binaries
`bytes`, numbers `int` or `float`, lists and Erlang's tuples `tuple`. (Python's own `True == 1`
would be such an accident.)

Clients choose the values, and Python hashes numbers without a secret: integers that differ by
2**61 - 1, and tuples of these, have one hash. So a compound term has a hash of its own.
"""

import marshal
from collections.abc import Generator, Hashable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

from leporid.amqp.tables import (
    ByteArray,
    Float32,
    Int8,
    Int16,
    Int32,
    Int64L,
    LazyContainer,
    LongString,
    Timestamp,
    UInt8,
    UInt16,
    UInt32,
    Value,
    octets_of,
)

_TYPE_NAMES: Final[dict[type, str]] = {
    type(None): "void",
    bool: "bool",
    Int8: "byte",
    UInt8: "unsignedbyte",
    Int16: "short",
    UInt16: "unsignedshort",
    Int32: "signedint",
    UInt32: "unsignedint",
    int: "long",
    Int64L: "long",
    Timestamp: "timestamp",
    Float32: "float",
    float: "double",
    Decimal: "decimal",
    str: "longstr",
    LongString: "longstr",
    bytes: "binary",
    ByteArray: "binary",
    list: "array",
    dict: "table",
}

# What Erlang escapes in the text form of a binary, and with what.
_ESCAPES: Final[dict[int, str]] = {
    ord("\b"): r"\b",
    ord("\t"): r"\t",
    ord("\n"): r"\n",
    ord("\v"): r"\v",
    ord("\f"): r"\f",
    ord("\r"): r"\r",
    0x1B: r"\e",
    ord('"'): r"\"",
    ord("\\"): r"\\",
}


TERMS_A_STEP: Final = 64
"""Each takes a microsecond or two."""

# Without references and interned strings, which would tell equal values apart.
_MARSHAL_VERSION: Final = 0


class Compound(tuple[Hashable, ...]):  # noqa: SLOT001 - a tuple can have no slot for its hash
    """A term that has parts: a tuple whose hash nobody can foresee who does not know the process.

    Its parts are texts, octets, numbers and plain tuples of these, and no negative zero.
    """

    # Kept only of what has many parts: each binding has a term, and keeping takes 150 octets.
    _hash: int | None = None

    def hashing(self) -> Generator[None, None, int]:
        """Returns its hash, in steps."""
        running, steps = 0, 0
        for octets in _octets(self):
            running = hash((running, octets))
            steps += 1
            yield
        if steps > 1:
            self._hash = running
        return running

    def __hash__(self) -> int:
        """That of its octets; equal for equal ones."""
        if self._hash is not None:
            return self._hash
        steps = self.hashing()
        while True:
            try:
                next(steps)
            except StopIteration as ended:
                return int(ended.value)


def _octets(parts: tuple[Any, ...]) -> Iterator[bytes]:
    """Yields octets that are the same for equal parts only, TERMS_A_STEP of them at most."""
    for at in range(0, len(parts), TERMS_A_STEP):
        flat: list[Any] = []
        for part in parts[at : at + TERMS_A_STEP]:
            if isinstance(part, tuple) and isinstance(part[-1], tuple):
                yield marshal.dumps((*flat, part[:-1], len(part[-1])), _MARSHAL_VERSION)
                yield from _octets(part[-1])
                flat = []
            else:
                flat.append(part)
        yield marshal.dumps(tuple(flat), _MARSHAL_VERSION)


def type_name(value: Value) -> str:
    """Returns RabbitMQ's name for the type of a value, as its error texts have it."""
    return _TYPE_NAMES[type(value)]


def comparable(value: Value) -> Hashable:
    """Returns a value's term, for comparing and for looking it up."""
    term = _term(value)
    return Compound(term) if isinstance(term, tuple) else term


def comparing(container: LazyContainer) -> Generator[None, None, Hashable]:
    """Returns the term of an array or a table, in steps, each of TERMS_A_STEP parts."""
    found = Compound((yield from _compounding(container)))
    yield from found.hashing()
    return found


def _compounding(container: LazyContainer) -> Generator[None, None, tuple[Hashable, ...]]:
    parts: list[Hashable] = []
    for key, value in container:
        if isinstance(value, LazyContainer):
            named = "table" if value.keyed else "array"
            part: tuple[str, Hashable] = named, (yield from _compounding(value))
        else:
            part = typed(value)
        parts.append((key, *part) if container.keyed else part)
        if not len(parts) % TERMS_A_STEP:
            yield
    return tuple(parts)


def comparable_table(table: Mapping[str, Value]) -> Hashable:
    """Returns what is equal for tables with the same names, types and values in any order."""
    return Compound([(name, *typed(table[name])) for name in sorted(table)])


def _term(value: Value) -> Hashable:
    match value:
        case None:
            return "undefined"
        case bool():
            return "true" if value else "false"
        case int():
            return int(value)
        case float():
            return float(value) + 0.0  # zero is equal to negative zero
        case str():
            return value.encode()
        case bytes():
            return bytes(value)
        case Decimal():
            return _scale_and_unscaled(value)
        case list():
            return tuple([typed(element) for element in value])
        case _:
            # In the order of the wire: RabbitMQ sorts only the outermost table.
            return tuple([(key, *typed(element)) for key, element in value.items()])


def typed(value: Value) -> tuple[str, Hashable]:
    """Returns a value's type and term, for where the type counts."""
    return type_name(value), _term(value)


def erlang_text(value: Value) -> str:
    """Returns a value as Erlang prints it, on one line; error texts show values so."""
    match value:
        case None | bool():
            return str(comparable(value))
        case int():
            return str(int(value))
        case float():
            return _float_text(value)
        case str():
            return _binary_text(value.encode())
        case bytes():
            return _binary_text(value)
        case Decimal():
            scale, unscaled = _scale_and_unscaled(value)
            return f"{{{scale},{unscaled}}}"
        case list():
            elements = [f"{{{type_name(each)},{erlang_text(each)}}}" for each in value]
        case _:
            elements = [
                f"{{{_binary_text(octets_of(key))},{type_name(each)},{erlang_text(each)}}}"
                for key, each in value.items()
            ]
    return f"[{','.join(elements)}]"


def _scale_and_unscaled(value: Decimal) -> tuple[int, int]:
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int), "a table holds no infinite decimal"
    unscaled = int("".join(map(str, digits)))
    return -exponent, -unscaled if sign else unscaled


def _float_text(value: float) -> str:
    """Erlang always writes a fraction: 1.0e22, where Python writes 1e+22."""
    mantissa, e, exponent = repr(float(value)).partition("e")
    if not e:
        return mantissa
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}e{int(exponent)}"


def _binary_text(octets: bytes) -> str:
    """Text if every octet is printable in Latin-1, else the octets as numbers."""
    if all(32 <= octet < 127 or octet >= 160 or octet in _ESCAPES for octet in octets):
        # UTF-8 shines through: RabbitMQ sends the octets as they are.
        text = octets.decode("utf-8", "replace").translate(_ESCAPES)
        return f'<<"{text}">>' if text else "<<>>"
    return f"<<{','.join(map(str, octets))}>>"
