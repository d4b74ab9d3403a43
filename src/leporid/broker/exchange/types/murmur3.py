"""MurmurHash3 with 32 bits (Austin Appleby, public domain), as far as routing needs it.

Responsible for giving every broker and client the same number for the same key. Plain Python is
fast enough: a route is kept, so a key is hashed once. Invariant: a hash has 32 bits and no sign.
"""

from __future__ import annotations

from typing import Final

_BITS: Final = 0xFFFFFFFF


def murmur3_32(data: bytes, seed: int) -> int:
    """Return the hash of some bytes."""
    value = seed
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        value ^= _scramble(int.from_bytes(data[at : at + 4], "little"))
        value = (_rotated(value, 13) * 5 + 0xE6546B64) & _BITS
    if whole < len(data):
        value ^= _scramble(int.from_bytes(data[whole:], "little"))
    value ^= len(data)
    value = ((value ^ value >> 16) * 0x85EBCA6B) & _BITS
    value = ((value ^ value >> 13) * 0xC2B2AE35) & _BITS
    return value ^ value >> 16


def _scramble(block: int) -> int:
    return _rotated(block * 0xCC9E2D51 & _BITS, 15) * 0x1B873593 & _BITS


def _rotated(value: int, by: int) -> int:
    return (value << by | value >> 32 - by) & _BITS
