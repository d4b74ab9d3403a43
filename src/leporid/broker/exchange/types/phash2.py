"""Erlang's `phash2` of a list of binaries, on top of Bob Jenkins' hash of 1996 (public domain).

Responsible for giving a message's routing keys the number that RabbitMQ gives them: Erlang promises
that the function never changes. Plain Python is fast enough: a route is kept, so a key is hashed
once. Invariant: a hash has 27 bits, Erlang's default range.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from leporid.broker.registry import StepsTo

_BITS: Final = 0xFFFFFFFF
_GOLDEN: Final = 0x9E3779B9
_RANGE: Final = 1 << 27

# Erlang starts each kind of term from another multiple of the same constant.
_LIST_END: Final = 2 * _GOLDEN & _BITS
_BINARY: Final = 13 * _GOLDEN & _BITS

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
