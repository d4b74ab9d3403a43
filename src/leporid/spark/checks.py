"""What a single option of the data source may be: one check for each kind of value.

A check takes the option's name and the text that was given, and returns the value to keep.

Invariant: a value is taken as given or refused by a sentence with its option's name, the value and
what is allowed. No message holds a password.
"""

from __future__ import annotations

import json
import re
import urllib.parse
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from leporid.filters.errors import FilterError
from leporid.filters.tags import parse_tags
from leporid.spark.errors import OptionError
from leporid.spark.schema import nearest

Check = Callable[[str, str], Any]

# Offsets that mean an end of the stream, as in Spark's Kafka source.
EARLIEST = -2
LATEST = -1
# What comes after the stored offset of a named reader; a word only, not in JSON.
STORED = -3

# Signed 64 bits, as offsets and limits are kept.
NUMBER_MAX = 2**63 - 1


def refusal(name: str, value: str, allowed: str) -> OptionError:
    """Make the error for one value."""
    shown = value if len(value) <= 80 else value[:80] + "…"
    return OptionError(f"option {name} = {shown!r}: {allowed}")


def text(name: str, value: str) -> str:
    """Allow any text but none."""
    if not value.strip():
        raise refusal(name, value, "must not be empty")
    return value


def tags(name: str, value: str) -> str:
    """Allow a list of tags, as filters have it."""
    try:
        parse_tags(value)
    except FilterError as error:
        raise refusal(name, value, str(error)) from None
    return value


def any_text(name: str, value: str) -> str:
    """Allow any text."""
    return value


def number(least: int, most: int = NUMBER_MAX) -> Check:
    """Allow a whole number within bounds."""

    def check(name: str, value: str) -> int:
        if not re.fullmatch(r"-?[0-9]{1,19}", value) or not least <= int(value) <= most:
            bounds = f"from {least} to {most}" if most < NUMBER_MAX else f"of at least {least}"
            raise refusal(name, value, f"must be a whole number {bounds}")
        return int(value)

    return check


def truth(name: str, value: str) -> bool:
    """Allow true and false."""
    if value.lower() not in {"true", "false"}:
        raise refusal(name, value, "must be true or false")
    return value.lower() == "true"


def one_of(*words: str) -> Check:
    """Allow one of the words."""

    def check(name: str, value: str) -> str:
        if value.lower() not in words:
            near = nearest(value, words)
            raise refusal(name, value, f"must be one of {', '.join(words)}{near}")
        return value.lower()

    return check


def names(name: str, value: str) -> tuple[str, ...]:
    """Allow names with commas between them."""
    found = tuple(part.strip() for part in value.split(","))
    if not all(found):
        raise refusal(name, value, "must be names with commas between them")
    if len(set(found)) < len(found):
        raise refusal(name, value, "names a stream twice")
    return found


def pattern(name: str, value: str) -> str:
    """Allow a regular expression; the broker's dialect (RE2) has the last word."""
    try:
        re.compile(value)
    except re.error as error:
        raise refusal(name, value, f"is not a regular expression: {error}") from None
    return text(name, value)


def size(name: str, value: str) -> int:
    """Allow bytes, with k, m, g (or kb, kib …) as powers of 1024, as Spark has them."""
    found = re.fullmatch(r"([0-9]{1,15})\s*([kmgt]?)(?:i?b)?", value.strip().lower())
    if not found or int(found[1]) == 0:
        raise refusal(name, value, "must be a size such as 64m or 1g")
    return int(found[1]) << 10 * " kmgt".index(found[2] or " ")


def duration_ms(name: str, value: str) -> int:
    """Allow a time such as 500ms, 10s, 15m, 1h."""
    units = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
    found = re.fullmatch(r"([0-9]{1,12})\s*(ms|s|m|h|d)", value.strip().lower())
    if not found:
        raise refusal(name, value, "must be a time such as 500ms, 10s, 15m or 1h")
    return int(found[1]) * units[found[2]]


def duration_or_0_ms(name: str, value: str) -> int:
    """Allow a time, or 0 for no end."""
    return 0 if value.strip() == "0" else duration_ms(name, value)


def moment_ms(name: str, value: str) -> int:
    """Allow milliseconds since 1970, or a time in ISO 8601 (without a zone it is UTC)."""
    if re.fullmatch(r"[0-9]{1,16}", value):
        return int(value)
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        raise refusal(
            name, value, "must be milliseconds since 1970 or a time like 2026-11-21T06:00:00Z"
        ) from None
    if found.tzinfo is None:
        found = found.replace(tzinfo=UTC)
    # Rounded up: the first record not before this moment is the same either way.
    return -int(-found.timestamp() * 1000 // 1)


def url(name: str, value: str) -> str:
    """Allow http://host:port and https://host:port, without credentials and path."""
    try:
        parts = urllib.parse.urlsplit(value)
        usable = parts.scheme in {"http", "https"} and parts.hostname and (parts.port or True)
    except ValueError:
        raise refusal(name, value, "must be like http://host:15672") from None
    if parts.username is not None or parts.password is not None:
        # The value holds a password, so it is not shown.
        raise OptionError(
            f"option {name} holds credentials: give them as user and passwordEnv or passwordFile"
        )
    if not usable or parts.path.strip("/") or parts.query or parts.fragment:
        raise refusal(name, value, "must be like http://host:15672")
    return f"{parts.scheme}://{parts.netloc}"


ByPartition = dict[str, dict[int, int]]


def by_partition(least: int) -> Check:
    """Allow JSON of the form {"stream": {"partition": number}}."""

    def check(name: str, value: str) -> ByPartition:
        form = refusal(name, value, 'must be JSON such as {"orders": {"0": 100}}')
        try:
            table = json.loads(value)
        except json.JSONDecodeError:
            raise form from None
        if not isinstance(table, dict) or not all(isinstance(v, dict) for v in table.values()):
            raise form
        found: ByPartition = {}
        for stream, partitions in table.items():
            for partition, at in partitions.items():
                if not re.fullmatch(r"[0-9]{1,9}", partition) or type(at) is not int:
                    raise form
                if not least <= at <= NUMBER_MAX:
                    raise refusal(
                        name,
                        value,
                        f"partition {partition} of {stream!r} has {at}; the least is {least}",
                    )
                found.setdefault(stream, {})[int(partition)] = at
        return found

    return check


def offsets(*words: int) -> Check:
    """Allow some of `earliest`, `latest`, `stored`, or JSON with offsets, -2 and -1."""
    known = {"earliest": EARLIEST, "latest": LATEST, "stored": STORED}
    allowed = {word: known[word] for word in known if known[word] in words}

    def check(name: str, value: str) -> int | ByPartition:
        if value.strip().lower() in allowed:
            return allowed[value.strip().lower()]
        if not value.lstrip().startswith("{"):
            raise refusal(
                name,
                value,
                f"must be {', '.join(allowed)}, or JSON such as "
                '{"orders": {"0": 100}}' + nearest(value, allowed),
            )
        table: ByPartition = by_partition(max(EARLIEST, min(words)))(name, value)
        return table

    return check
