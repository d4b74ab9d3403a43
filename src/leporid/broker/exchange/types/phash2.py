"""Erlang's `phash2`, on top of the hash of bytes and words that the engine has.

Responsible for giving a message's routing keys, and the arguments of a binding, the number that
RabbitMQ gives them: Erlang promises that the function never changes. Invariants: the hash of keys
has 27 bits, Erlang's default range; that of arguments has 32.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Final

from leporid.amqp.tables import Value, octets_of
from leporid.amqp.values import type_name
from leporid.broker.registry import StepsTo
from leporid.engine.routing.key_hashes import jenkins_of_bytes, jenkins_of_words

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


def phash2_of_binary(binary: bytes) -> int:
    """Return the hash of a list that has only this in it."""
    return _ended(jenkins_of_bytes(binary, _BINARY)) % _RANGE


def phash2_of_binaries(binaries: Iterable[bytes]) -> StepsTo[int]:
    """Return the hash of a list that is not empty, in steps of one binary."""
    value = 0
    for each in binaries:
        value = jenkins_of_bytes(each, _BINARY + value & _BITS)
        yield None
    return _ended(value) % _RANGE


def phash2_of_table(table: Mapping[str, Value]) -> int:
    """Return the hash of a table as RabbitMQ keeps it: a list of names, types and values."""
    if not table:
        return _EMPTY_LIST
    return _table(table, 0)


def _table(table: Mapping[str, Value], value: int) -> int:
    for name in sorted(table):
        value = _word(3, 0, _TUPLE, value)
        value = jenkins_of_bytes(octets_of(name), _BINARY + value & _BITS)
        value = _typed(table[name], value)
    return _ended(value)


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
        return _ended(value)
    if isinstance(term, bytes):
        octets = bytes(term)
    else:
        octets = octets_of(str(term))
    return jenkins_of_bytes(octets, _BINARY + value & _BITS)


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


def _ended(value: int) -> int:
    """The hash of a list whose elements have that one."""
    return _word(_END_OF_LIST, 0, _LIST_END, value)


def _word(first: int, second: int, start: int, value: int) -> int:
    return jenkins_of_words(start + first & _BITS, start + second & _BITS, value)
