"""Lists of tags, `"A || B"`, and the hash that RocketMQ gives a tag.

Must not know messages. Invariant: what is read is either everything or at least one tag, none of
them twice.
"""

from __future__ import annotations

import struct
from typing import Final

from leporid.filters.errors import FilterError
from leporid.filters.limits import CHARACTERS_MAX, TAGS_MAX

EVERYTHING: Final = "*"
SEPARATOR: Final = "||"


def parse_tags(text: str) -> tuple[str, ...] | None:
    """Read a list of tags; None is every message, with a tag or without.

    Raises:
        FilterError: it is none; it says what is wrong with it, and where.
    """
    if len(text) > CHARACTERS_MAX:
        raise FilterError(
            f"the list of tags has {len(text)} characters; at most {CHARACTERS_MAX}",
            text,
            CHARACTERS_MAX,
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise FilterError("this is not a character of Unicode", text, error.start) from None
    if text.strip() in ("", EVERYTHING):
        return None
    tags: list[str] = []
    start = 0
    for part in text.split(SEPARATOR):
        tag = part.strip()
        position = start + len(part) - len(part.lstrip())
        start += len(part) + len(SEPARATOR)
        if tag == EVERYTHING:
            raise FilterError("* stands alone: it is every message", text, position)
        if tag and tag not in tags:
            if len(tags) == TAGS_MAX:
                raise FilterError(f"there are more than {TAGS_MAX} tags", text, position)
            tags.append(tag)
    if not tags:
        raise FilterError("there is no tag beside ||; * is every message", text, 0)
    return tuple(tags)


def java_hash(tag: str) -> int:
    """What Java's `String.hashCode` says, a signed number of 32 bits."""
    result = 0
    for (unit,) in struct.iter_unpack("<H", tag.encode("utf-16-le")):
        result = (31 * result + unit) & 0xFFFFFFFF
    return result - (1 << 32) if result >= 1 << 31 else result
