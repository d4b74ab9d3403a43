"""Field tables, in RabbitMQ's reading of the type letters.

    table  = size:uint32 (key:shortstr letter:octet value)*
    array  = size:uint32 (letter:octet value)*

    t bool      b int8    B uint8    s int16   u uint16   I int32   i uint32
    l int64     L int64   f float32  d float64 T uint64, seconds since 1970
    D scale:uint8 unscaled:int32     S size:uint32 octets (text)
    V nothing   x size:uint32 octets F table   A array

Letters as in RabbitMQ's errata to AMQP 0-9-1, which every client follows.
Must not know what any key means. Invariant: `encode_table(decode_table(data)[0])` gives `data`
again, but for a key that stands twice (the first one counts, as in RabbitMQ) and a bool that is
neither 0 nor 1. Keys that are not UTF-8 survive as surrogate escapes.
"""

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from math import isfinite
from typing import Final, TypeAlias

from leporid.amqp.constants import SHORTSTR_BYTES_MAX
from leporid.amqp.errors import SyntaxFault

MAX_TABLE_DEPTH: Final = 32
"""Tables and arrays within each other. RabbitMQ's own deepest header, x-death, needs 3; each level
costs two Python frames, so this stays far from the interpreter's limit of 1000."""

MAX_TABLE_BYTES: Final = 256 * 1024
"""Twice the usual frame_max of 131072, so only an unusual one lets a table meet this limit. The
worst table takes 30 times its size when decoded (int8s in an array), so this is about 8 MiB."""


class LongString(bytes):
    """Text (letter S) that is not UTF-8."""

    __slots__ = ()


class ByteArray(bytes):
    """Octets (letter x)."""

    __slots__ = ()


class Timestamp(int):
    """Seconds since 1970 (letter T)."""

    __slots__ = ()


class Int8(int):
    """A signed octet (letter b)."""

    __slots__ = ()


class UInt8(int):
    """An unsigned octet (letter B)."""

    __slots__ = ()


class Int16(int):
    """A signed 16-bit number (letter s)."""

    __slots__ = ()


class UInt16(int):
    """An unsigned 16-bit number (letter u)."""

    __slots__ = ()


class Int32(int):
    """A signed 32-bit number (letter I)."""

    __slots__ = ()


class UInt32(int):
    """An unsigned 32-bit number (letter i)."""

    __slots__ = ()


class Int64L(int):
    """A signed 64-bit number that came under the letter L; a plain int is one under l."""

    __slots__ = ()


class Float32(float):
    """A 32-bit float (letter f); a plain float is one of 64 bits (letter d)."""

    __slots__ = ()


Value: TypeAlias = (
    None | bool | int | float | str | bytes | Decimal | dict[str, "Value"] | list["Value"]
)
"""What may stand in a table. The classes above count as int, float and bytes; bytes alone are x."""

_NUMBERS: Final[tuple[tuple[str, str, type[int] | type[float]], ...]] = (
    ("t", ">B", bool),
    ("b", ">b", Int8),
    ("B", ">B", UInt8),
    ("s", ">h", Int16),
    ("u", ">H", UInt16),
    ("I", ">i", Int32),
    ("i", ">I", UInt32),
    ("l", ">q", int),
    ("L", ">q", Int64L),
    ("f", ">f", Float32),
    ("d", ">d", float),
    ("T", ">Q", Timestamp),
)
_READERS: Final = {ord(letter): (struct.Struct(form), make) for letter, form, make in _NUMBERS}
_WRITERS: Final[dict[type, Callable[..., bytes]]] = {
    make: struct.Struct(">c" + form[1:]).pack for _, form, make in _NUMBERS
}
# Made once: `int | float` takes longer to make than to ask for.
_NUMBER_TYPES: Final = (int, float)
_LETTERS: Final[dict[type, bytes]] = {make: letter.encode() for letter, _, make in _NUMBERS}
_SIZE: Final = struct.Struct(">I")
_DECIMAL: Final = struct.Struct(">Bi")
_S, _X, _F, _A, _D, _V = (ord(letter) for letter in "SxFADV")
_FIXED_BYTES: Final = {_D: _DECIMAL.size} | {
    letter: form.size for letter, (form, _) in _READERS.items()
}


def text_of(octets: bytes) -> str:
    """Returns octets as text: those that are not UTF-8, which clients may send, as surrogates."""
    return octets.decode("utf-8", "surrogateescape")


def octets_of(text: str) -> bytes:
    """Returns the octets that `text_of` made a text of."""
    return text.encode("utf-8", "surrogateescape")


def decode_table(data: bytes, at: int = 0) -> tuple[dict[str, Value], int]:
    """Decodes the table whose size field stands at `at`.

    Returns:
        The table, and the position after it.

    Raises:
        SyntaxFault: It is malformed, cut short, too deep or too large.
    """
    start, end = _block(data, at, len(data))
    if end - start > MAX_TABLE_BYTES:
        raise SyntaxFault(f"table of {end - start} bytes exceeds the limit of {MAX_TABLE_BYTES}")
    return _read_table(data, start, end, 1), end


class LazyContainer:
    """A table or an array that is encoded: its values are read one by one, as they are asked for.

    A client chooses how many there are. Those that have values themselves are given likewise.

    Args:
        data: Has its values from `at` to `end`.
        keyed: Whether it is a table.
        depth: In how many tables and arrays it stands, with itself.
    """

    __slots__ = ("_at", "_data", "_depth", "_end", "keyed")

    def __init__(self, data: bytes, at: int, end: int, *, keyed: bool, depth: int) -> None:
        _check_depth(depth)
        self._data, self._at, self._end, self._depth = data, at, end, depth
        self.keyed = keyed

    def __repr__(self) -> str:
        return (
            f"<LazyContainer {'table' if self.keyed else 'array'} of {self._end - self._at} bytes>"
        )

    def __iter__(self) -> Iterator[tuple[str, "Value | LazyContainer"]]:
        """Goes through keys and values; the key of an element of an array is empty.

        Raises:
            SyntaxFault: What comes next is malformed.
        """
        data, at, end = self._data, self._at, self._end
        keys: set[str] = set()
        value: Value | LazyContainer
        while at < end:
            key = ""
            if self.keyed:
                key_end = at + 1 + data[at]
                if key_end >= end:
                    raise SyntaxFault("table field reaches past the end")
                key, at = text_of(data[at + 1 : key_end]), key_end
            if data[at] in (_F, _A):
                start, stop = _block(data, at + 1, end)
                keyed, at = data[at] == _F, stop
                value = LazyContainer(data, start, stop, keyed=keyed, depth=self._depth + 1)
            else:
                value, at = _read_value(data, at, end, self._depth)
            if self.keyed:
                if key in keys:
                    continue
                keys.add(key)
            yield key, value


def lazy_table(data: bytes) -> LazyContainer:
    """Returns the table whose size field `data` begins with, to be read in steps.

    Raises:
        SyntaxFault: It is cut short.
    """
    start, end = _block(data, 0, len(data))
    return LazyContainer(data, start, end, keyed=True, depth=1)


def check_count(data: bytes, at: int, values_max: int) -> None:
    """Refuses a table of too many values, at a small part of what it costs to decode it.

    Args:
        data: Where the table's size field stands at `at`. Whether the rest can be decoded is left
            to `decode_table`.
        at: The position.
        values_max: How many values there may be, with those in tables and arrays within it.

    Raises:
        SyntaxFault: There are more.
    """
    left = values_max
    at, end = _block(data, at, len(data))
    # Where the tables and arrays around `at` end, and whether their values have keys.
    around = [(end, True)]
    while around:
        end, keyed = around[-1]
        at += 1 + data[at] if keyed and at < end else 0
        if at >= end:
            around.pop()
            at = end
            continue
        if not left:
            raise SyntaxFault(f"table has more values than the limit of {values_max}")
        left -= 1
        letter = data[at]
        at += 1
        if letter in (_F, _A):
            start, end = _block(data, at, end)
            around.append((end, letter == _F))
            at = start
        elif letter in (_S, _X):
            at = _block(data, at, end)[1]
        else:
            at += _FIXED_BYTES.get(letter, 0)


def _block(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Reads a size field; returns where its octets begin and end, all of which are there."""
    start = at + 4
    if start <= end:
        (size,) = _SIZE.unpack_from(data, at)
        if size <= end - start:
            return start, start + size
    raise SyntaxFault("table field reaches past the end")


def _read_table(data: bytes, at: int, end: int, depth: int) -> dict[str, Value]:
    _check_depth(depth)
    table: dict[str, Value] = {}
    while at < end:
        key_end = at + 1 + data[at]
        if key_end >= end:
            raise SyntaxFault("table field reaches past the end")
        key = text_of(data[at + 1 : key_end])
        value, at = _read_value(data, key_end, end, depth)
        table.setdefault(key, value)
    return table


def _read_array(data: bytes, at: int, end: int, depth: int) -> list[Value]:
    _check_depth(depth)
    array: list[Value] = []
    while at < end:
        value, at = _read_value(data, at, end, depth)
        array.append(value)
    return array


def _check_depth(depth: int) -> None:
    if depth > MAX_TABLE_DEPTH:
        raise SyntaxFault(f"table is nested deeper than {MAX_TABLE_DEPTH} levels")


def _read_value(data: bytes, at: int, end: int, depth: int) -> tuple[Value, int]:
    """Reads the letter at `at`, which is there, and its value."""
    letter = data[at]
    at += 1
    number = _READERS.get(letter)
    if number is not None:
        form, make = number
        return _finite(make(_unpack(form, data, at, end)[0])), at + form.size
    if letter == _V:
        return None, at
    if letter == _D:
        scale, unscaled = _unpack(_DECIMAL, data, at, end)
        return _decimal(scale, unscaled), at + _DECIMAL.size
    if letter not in (_S, _X, _F, _A):
        reason = "unknown table field type"
        raise SyntaxFault(f"{reason} {letter}", logged=reason)
    start, stop = _block(data, at, end)
    if letter == _F:
        return _read_table(data, start, stop, depth + 1), stop
    if letter == _A:
        return _read_array(data, start, stop, depth + 1), stop
    octets = data[start:stop]
    return ByteArray(octets) if letter == _X else _text(octets), stop


def _unpack(form: struct.Struct, data: bytes, at: int, end: int) -> tuple[int, ...]:
    if form.size > end - at:
        raise SyntaxFault("table field reaches past the end")
    return form.unpack_from(data, at)


def _finite(number: int | float) -> int | float:
    """Refuses NaN and infinities, as RabbitMQ does: a value unequal to itself can't be unbound."""
    if isinstance(number, float) and not isfinite(number):
        raise SyntaxFault("table field is not a finite number")
    return number


def _decimal(scale: int, unscaled: int) -> Decimal:
    """Keeps trailing zeros, and does not depend on the thread's decimal context."""
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))


def _text(octets: bytes) -> str | LongString:
    try:
        return octets.decode("utf-8")
    except UnicodeDecodeError:
        return LongString(octets)


def encode_table(table: Mapping[str, Value]) -> bytes:
    """Encodes a table, with its size in front.

    Raises:
        ValueError: A value has no encoding: out of its range, of another type, nested too deep.
    """
    return _write_table(table, 1)


def _write_table(table: Mapping[str, Value], depth: int) -> bytes:
    _check_encodable(depth)
    parts: list[bytes] = []
    for key, value in table.items():
        octets = octets_of(key)
        if len(octets) > SHORTSTR_BYTES_MAX:
            raise ValueError(f"table key is longer than {SHORTSTR_BYTES_MAX} bytes: {key[:40]!r}…")
        parts += (bytes((len(octets),)), octets, _write_value(value, depth))
    return _sized(b"", b"".join(parts))


def _write_array(values: Iterable[Value], depth: int) -> bytes:
    _check_encodable(depth)
    return _sized(b"", b"".join([_write_value(value, depth) for value in values]))


def _check_encodable(depth: int) -> None:
    if depth > MAX_TABLE_DEPTH:
        raise ValueError(f"table is nested deeper than {MAX_TABLE_DEPTH} levels")


def _sized(letter: bytes, octets: bytes) -> bytes:
    return letter + _SIZE.pack(len(octets)) + octets


def _write_value(value: Value, depth: int) -> bytes:
    if isinstance(value, str):
        return _sized(b"S", value.encode("utf-8"))
    if value is None:
        return b"V"
    if isinstance(value, _NUMBER_TYPES):
        return _write_number(value)
    if isinstance(value, bytes):
        return _sized(b"S" if isinstance(value, LongString) else b"x", value)
    if isinstance(value, Mapping):
        return b"F" + _write_table(value, depth + 1)
    if isinstance(value, list | tuple):
        return b"A" + _write_array(value, depth + 1)
    if isinstance(value, Decimal):
        return b"D" + _write_decimal(value)
    raise ValueError(f"{type(value).__name__} cannot stand in a table")


def _write_number(value: int | float) -> bytes:
    kind = type(value)
    if kind not in _WRITERS:  # Somebody's own subclass, an IntEnum for one.
        kind = int if isinstance(value, int) else float
    try:
        if kind in (float, Float32) and not isfinite(value):
            raise ValueError("not finite")
        return _WRITERS[kind](_LETTERS[kind], value)
    except (struct.error, OverflowError, ValueError) as error:
        raise ValueError(f"{value!r} is out of range for {kind.__name__}") from error


def _write_decimal(value: Decimal) -> bytes:
    sign, digits, exponent = value.as_tuple()
    # An int32 has at most ten digits, so what is larger need not be computed to be refused.
    if isinstance(exponent, int) and -255 <= exponent <= 9 and len(digits) <= 10:
        unscaled = int("".join(map(str, digits))) * 10 ** max(exponent, 0) * (-1 if sign else 1)
        if -(1 << 31) <= unscaled < 1 << 31:
            return _DECIMAL.pack(max(-exponent, 0), unscaled)
    raise ValueError(f"{value!r} is out of range for a decimal")
