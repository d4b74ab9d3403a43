"""Erlang's `phash2`, on top of Bob Jenkins' hash of 1996 (public domain).

Responsible for giving a message's routing keys, and the arguments of a binding, the number that
RabbitMQ gives them: Erlang promises that the function never changes. Plain Python is fast enough: a
route is kept, so a key is hashed once. Invariants: the hash of keys has 27 bits, Erlang's default
range; that of arguments has 32.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Final

from leporid.amqp.tables import Value
from leporid.amqp.values import type_name
from leporid.broker.registry import StepsTo

_BITS: Final = 0xFFFFFFFF
_GOLDEN: Final = 0x9E3779B9
_RANGE: Final = 1 << 27

# Erlang starts each kind of term from another multiple of the same constant.
_NUMBER: Final = _GOLDEN
_LIST_END: Final = 2 * _GOLDEN & _BITS
_ATOM: Final = 3 * _GOLDEN & _BITS
_TUPLE: Final = 9 * _GOLDEN & _BITS
_NEGATIVE: Final = 10 * _GOLDEN & _BITS
_POSITIVE: Final = 11 * _GOLDEN & _BITS
_FLOAT: Final = 12 * _GOLDEN & _BITS
_BINARY: Final = 13 * _GOLDEN & _BITS

_EMPTY_LIST: Final = 3468870702
"""The hash of a list that has nothing in it, by itself."""

_SMALL_BITS: Final = 27
"""Of a number that is hashed as one, beside its sign; larger ones are hashed by their digits."""

_END_OF_LIST: Final = 2
"""What stands for the end of a list, which is hashed as if it were one more element."""

_BLOCK_BYTES: Final = 12


def phash2_of_binaries(binaries: Iterable[bytes]) -> StepsTo[int]:
    """Return the hash of a list that is not empty, in steps of one binary."""
    value = 0
    for each in binaries:
        value = _binary(each, _BINARY + value & _BITS)
        yield None
    return _mixed(_LIST_END + _END_OF_LIST & _BITS, _LIST_END, value)[2] % _RANGE


def phash2_of_table(table: Mapping[str, Value]) -> int:
    """Return the hash of a table as RabbitMQ keeps it: a list of names, types and values."""
    if not table:
        return _EMPTY_LIST
    return _table(table, 0)


def _table(table: Mapping[str, Value], value: int) -> int:
    for name in sorted(table):
        value = _word(3, 0, _TUPLE, value)
        value = _binary(name.encode("utf-8", "surrogateescape"), _BINARY + value & _BITS)
        value = _typed(table[name], value)
    return _word(_END_OF_LIST, 0, _LIST_END, value)


def _typed(term: Value, value: int) -> int:
    """A type, and a value that is of it."""
    value = _word(_atom(type_name(term)), 0, _ATOM, value)
    if term is None or isinstance(term, bool):
        text = "undefined" if term is None else str(term).lower()
        return _word(_atom(text), 0, _ATOM, value)
    if isinstance(term, int):
        return _number(int(term), value)
    if isinstance(term, float):
        low, high = struct.unpack("<II", struct.pack("<d", float(term) or 0.0))
        return _word(high, low, _FLOAT, value)
    if isinstance(term, Mapping):
        return _table(term, value)
    if isinstance(term, list):
        for each in term:
            value = _typed(each, _word(2, 0, _TUPLE, value))
        return _word(_END_OF_LIST, 0, _LIST_END, value)
    if isinstance(term, bytes):
        octets = bytes(term)
    else:
        octets = str(term).encode("utf-8", "surrogateescape")
    return _binary(octets, _BINARY + value & _BITS)


def _number(number: int, value: int) -> int:
    if -(1 << _SMALL_BITS) <= number < 1 << _SMALL_BITS:
        if number < 0:
            value = _word(-number, 0, _NUMBER, value)
        return _word(number, 0, _NUMBER, value)
    size = abs(number)
    return _word(size & _BITS, size >> 32 & _BITS, _NEGATIVE if number < 0 else _POSITIVE, value)


def _atom(name: str) -> int:
    """The number that the table of atoms has for one."""
    value = 0
    for octet in name.encode():
        value = (value << 4) + octet & _BITS
        high = value & 0xF0000000
        value ^= high >> 24 ^ high
    return value


def _word(first: int, second: int, start: int, value: int) -> int:
    return _mixed(start + first & _BITS, start + second & _BITS, value)[2]


def _binary(data: bytes, value: int) -> int:
    if not data:
        return value
    a = b = _GOLDEN
    whole = len(data) - len(data) % _BLOCK_BYTES
    for at in range(0, whole, _BLOCK_BYTES):
        first, second, third = (
            int.from_bytes(data[at + start : at + start + 4], "little") for start in (0, 4, 8)
        )
        a, b, value = _mixed(a + first & _BITS, b + second & _BITS, value + third & _BITS)
    rest = data[whole:]
    # The lowest octet of the third word is the length's.
    a += int.from_bytes(rest[:4], "little")
    b += int.from_bytes(rest[4:8], "little")
    value += len(data) + (int.from_bytes(rest[8:], "little") << 8)
    return _mixed(a & _BITS, b & _BITS, value & _BITS)[2]


def _mixed(a: int, b: int, c: int) -> tuple[int, int, int]:
    for right, left, last in ((13, 8, 13), (12, 16, 5), (3, 10, 15)):
        a = (a - b - c & _BITS) ^ c >> right
        b = (b - c - a & _BITS) ^ (a << left & _BITS)
        c = (c - a - b & _BITS) ^ b >> last
    return a, b, c
