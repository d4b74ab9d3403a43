"""Patterns of LIKE, taken apart.

    %   any number of characters, none included
    _   one character
    and, if there is an escape character, whatever follows it stands for itself

Must not know where patterns are matched fast. A character is a byte that begins one in UTF-8 and
the bytes that continue it; so what is not UTF-8 can be matched, too.
"""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias


class Wild(Enum):
    """What is not itself in a pattern."""

    ONE = "_"
    MANY = "%"


Symbols: TypeAlias = tuple[bytes | Wild, ...]
"""Texts and wildcards; no two texts, and no two MANY, beside each other."""


def symbols_of(pattern: str, escape: str | None) -> Symbols:
    """Take a pattern apart.

    Raises:
        ValueError: nothing follows the escape character.
    """
    symbols: list[bytes | Wild] = []
    text = ""
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            following = next(characters, None)
            if following is None:
                raise ValueError(f"nothing follows the escape character {escape}")
            text += following
        elif character in "%_":
            if text:
                symbols.append(text.encode())
            text = ""
            wild = Wild(character)
            if wild is not Wild.MANY or symbols[-1:] != [wild]:
                symbols.append(wild)
        else:
            text += character
    if text:
        symbols.append(text.encode())
    return tuple(symbols)


def byte_count(symbols: Symbols) -> int:
    """Places in a pattern: bytes that are themselves, and wildcards for one character."""
    return sum(len(one) if isinstance(one, bytes) else one is Wild.ONE for one in symbols)


def matches(symbols: Symbols, text: bytes) -> bool:
    """Whether a text has a pattern, by trying every length of what each symbol may stand for."""
    reached = {0}
    for symbol in symbols:
        if isinstance(symbol, bytes):
            reached = {at + len(symbol) for at in reached if text.startswith(symbol, at)}
        elif symbol is Wild.MANY:
            reached = set(range(min(reached), len(text) + 1)) if reached else reached
        else:
            reached = {end for at in reached for end in _ends_of_character(text, at)}
    return len(text) in reached


def _ends_of_character(text: bytes, at: int) -> range:
    """Where the character at `at` may end: after its first byte, and after each that continues."""
    if at >= len(text) or _continues(text[at]):
        return range(0)
    end = at + 1
    while end < len(text) and _continues(text[end]):
        end += 1
    return range(at + 1, end + 1)


def _continues(byte: int) -> bool:
    return byte & 0xC0 == 0x80
