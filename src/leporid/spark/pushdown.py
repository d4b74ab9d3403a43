"""Spark's predicates as less work: fewer partitions, a shorter range, parameters of the request.

Three things can be done with a predicate: narrow the offsets, have the broker leave records out, or
leave them out here before they cross over to the JVM. `push` does what it can and says which
predicates are thereby *exact*; all others Spark checks itself, whether they helped or not.

Invariant: no record is left out for which Spark would find all predicates true.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pyarrow.compute as pc

from leporid.filters.dialects import DEFAULT
from leporid.spark.offsets import Key, Range
from leporid.spark.options import Reading
from leporid.spark.records import Filter
from leporid.spark.selectors import REPLACEMENT, both, kind_of, selector_of

# Columns that every record has, so that asking for them to be there is asking nothing.
ALWAYS_THERE = {"stream", "partition", "offset", "timestamp", "exchange", "routing_key"}

COMPARISONS = {
    "EqualTo",
    "GreaterThan",
    "GreaterThanOrEqual",
    "LessThan",
    "LessThanOrEqual",
}


@dataclass(frozen=True, slots=True)
class Pushed:
    """What predicates came to.

    Attributes:
        streams: only these; None for all.
        partitions: only these numbers; None for all.
        low: only offsets from here on.
        high: only offsets below; None for no bound.
        low_us: only records that are not older (microseconds since 1970).
        high_us: only records that are older than this.
        filter: for each request.
    """

    streams: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    low: int = 0
    high: int | None = None
    low_us: int | None = None
    high_us: int | None = None
    filter: Filter = field(default_factory=Filter)


def push(filters: Iterable[Any], pushed: Pushed) -> tuple[Pushed, list[Any]]:
    """Take in Spark's predicates, all of which must hold.

    Args:
        filters: objects of `pyspark.sql.datasource`'s Filter classes, told apart by name.
        pushed: what is known already, from options.

    Returns:
        What they come to, and the predicates that Spark must still check (the same objects).
    """
    left = []
    for predicate in filters:
        pushed, exact = _push_one(predicate, pushed)
        if not exact:
            left.append(predicate)
    return pushed, left


def _push_one(predicate: Any, pushed: Pushed) -> tuple[Pushed, bool]:
    name = type(predicate).__name__
    path = getattr(predicate, "attribute", ())
    value = getattr(predicate, "value", None)
    column = path[0] if path else ""
    if name == "IsNotNull" and len(path) == 1 and column in ALWAYS_THERE:
        return pushed, True
    if len(path) == 1 and column == "offset":
        return _offset(name, value, pushed)
    if len(path) == 1 and column == "timestamp":
        # Bounds in offsets come from the broker, to the millisecond: Spark looks again.
        return _time(name, value, pushed), False
    if len(path) == 1 and column in {"stream", "partition"}:
        return _place(name, column, value, pushed)
    done = _by_broker(name, path, value, pushed) or _by_selector(predicate, pushed)
    if done is not None:
        return done, True
    done = _here(predicate, pushed)
    return (pushed, False) if done is None else (done, True)


def _offset(name: str, value: Any, pushed: Pushed) -> tuple[Pushed, bool]:
    if name == "In" and isinstance(value, list | tuple):
        numbers = [one for one in value if isinstance(one, int)]
        if not numbers:
            return pushed, False
        # The range around them; which of them, Spark finds out.
        return _between(pushed, min(numbers), max(numbers) + 1), False
    if name not in COMPARISONS or not isinstance(value, int):
        return pushed, False
    low, high = {
        "EqualTo": (value, value + 1),
        "GreaterThan": (value + 1, None),
        "GreaterThanOrEqual": (value, None),
        "LessThan": (0, value),
        "LessThanOrEqual": (0, value + 1),
    }[name]
    return _between(pushed, low, high), True


def _between(pushed: Pushed, low: int, high: int | None) -> Pushed:
    highs = [bound for bound in (pushed.high, high) if bound is not None]
    return replace(pushed, low=max(pushed.low, low), high=min(highs) if highs else None)


def _time(name: str, value: Any, pushed: Pushed) -> Pushed:
    if name not in COMPARISONS or not isinstance(value, datetime) or value.tzinfo is None:
        return pushed
    at = microseconds(value)
    low_us, high_us = pushed.low_us, pushed.high_us
    if name in {"EqualTo", "GreaterThan", "GreaterThanOrEqual"}:
        low_us = at if low_us is None else max(low_us, at)
    if name in {"EqualTo", "LessThan", "LessThanOrEqual"}:
        # One more, so that a record of this very moment is in.
        high_us = at + 1 if high_us is None else min(high_us, at + 1)
    return replace(pushed, low_us=low_us, high_us=high_us)


def microseconds(moment: datetime) -> int:
    """Return microseconds since 1970, without passing through a float."""
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def _place(name: str, column: str, value: Any, pushed: Pushed) -> tuple[Pushed, bool]:
    if name == "EqualTo":
        values = [value]
    elif name == "In" and isinstance(value, list | tuple):
        values = [one for one in value if one is not None]
    else:
        return pushed, False
    if column == "stream":
        wanted = frozenset(str(one) for one in values)
        if pushed.streams is not None:
            wanted &= pushed.streams
        return replace(pushed, streams=wanted), True
    numbers = frozenset(int(one) for one in values)
    if pushed.partitions is not None:
        numbers &= pushed.partitions
    return replace(pushed, partitions=numbers), True


def _by_broker(name: str, path: tuple[str, ...], value: Any, pushed: Pushed) -> Pushed | None:
    """Hand a predicate to the broker, which takes one of each kind; None if it cannot have it."""
    if len(path) != 1 or not isinstance(value, str) or REPLACEMENT in value:
        return None
    parameter = {
        ("EqualTo", "exchange"): "exchange",
        ("EqualTo", "routing_key"): "routing_key",
        ("StringStartsWith", "routing_key"): "routing_key_prefix",
    }.get((name, path[0]))
    taken = pushed.filter.parameters
    if parameter is None or parameter in taken:
        return None
    return replace(pushed, filter=replace(pushed.filter, parameters={**taken, parameter: value}))


def _by_selector(predicate: Any, pushed: Pushed) -> Pushed | None:
    """Add a predicate to the expression that the broker has; None if it cannot be said there."""
    taken = pushed.filter.parameters
    added = selector_of(predicate)
    if added is None or taken.get("dialect", DEFAULT) != DEFAULT:
        return None
    text = both(taken.get("filter"), added)
    if text is None:
        return None
    return replace(pushed, filter=replace(pushed.filter, parameters={**taken, "filter": text}))


# ---------------------------------------------------------------- left out here


def _here(predicate: Any, pushed: Pushed) -> Pushed | None:
    """Check a predicate on the batch before Spark gets it; None if it cannot be done exactly."""
    name = type(predicate).__name__
    if name == "Not":
        inner = predicate.child
        # `not in` a list with null is never true; let Spark say so.
        if type(inner).__name__ not in {
            "EqualTo",
            "In",
            "StringStartsWith",
            "StringEndsWith",
            "StringContains",
        }:
            return None
        if type(inner).__name__ == "In" and None in inner.value:
            return None
        expression = _expression(inner)
        if expression is None:
            return None
        # Of null SQL knows neither that it is so nor that it is not.
        there = _target(inner.attribute).is_valid()
        return _also(pushed, ~expression & there, inner.attribute[0])
    expression = _expression(predicate)
    return None if expression is None else _also(pushed, expression, predicate.attribute[0])


def _expression(predicate: Any) -> pc.Expression | None:
    name, path = type(predicate).__name__, getattr(predicate, "attribute", ())
    value = getattr(predicate, "value", None)
    kind = kind_of(path)
    if kind is None:
        return None
    target = _target(path)
    if name == "IsNull":
        return target.is_null()
    if name == "IsNotNull":
        return target.is_valid()
    if name == "EqualTo" and type(value) is kind:
        return target == value
    if name == "In" and isinstance(value, list | tuple):
        found = [one for one in value if one is not None]
        if not found or not all(type(one) is kind for one in found):
            return None
        return target.isin(found)
    if kind is str and isinstance(value, str):
        match name:
            case "StringStartsWith":
                return pc.starts_with(target, value)
            case "StringEndsWith":
                return pc.ends_with(target, value)
            case "StringContains":
                return pc.match_substring(target, value)
    return None


def _target(path: tuple[str, ...]) -> pc.Expression:
    return pc.field(path[0]) if len(path) == 1 else pc.field(tuple(path))


def _also(pushed: Pushed, expression: pc.Expression, column: str) -> Pushed:
    before = pushed.filter.expression
    columns = tuple(dict.fromkeys([*pushed.filter.columns, column]))
    both = expression if before is None else before & expression
    return replace(pushed, filter=replace(pushed.filter, expression=both, columns=columns))


# ---------------------------------------------------------------- options


def for_options(reading: Reading) -> Pushed:
    """Return what a pattern of keys, a list of tags and an expression leave."""
    pushed = for_pattern(reading.key_pattern)
    given = {
        "tags": reading.filter_tags,
        "filter": reading.filter,
        "dialect": None if reading.filter is None else reading.filter_dialect,
    }
    parameters = {name: text for name, text in given.items() if text is not None}
    together = {**pushed.filter.parameters, **parameters}
    return replace(pushed, filter=replace(pushed.filter, parameters=together))


def for_pattern(pattern: str | None) -> Pushed:
    """Return what a pattern of a topic exchange leaves: `*` is one word, `#` any number of them.

    The broker gets the words before the first wildcard as a prefix; the pattern is checked here.
    """
    if pattern is None:
        return Pushed()
    words = pattern.split(".")
    if all(word == "#" for word in words):
        return Pushed()
    fixed = []
    for word in words:
        if word in {"*", "#"}:
            break
        fixed.append(word)
    if len(fixed) == len(words):
        return Pushed(filter=Filter(parameters={"routing_key": pattern}))
    # The dot after the fixed words may be missing if all that follows may be nothing.
    prefix = ".".join(fixed)
    if fixed and any(word != "#" for word in words[len(fixed) :]):
        prefix += "."
    key = pc.field("routing_key")
    # An empty key has no word, not one empty word.
    expression = pc.match_substring_regex(key, topic_expression(words)) & (key != "")
    parameters = {"routing_key_prefix": prefix} if prefix else {}
    return Pushed(filter=Filter(parameters, expression, ("routing_key",)))


def topic_expression(words: list[str]) -> str:
    """Return a topic pattern as a regular expression (RE2) over the whole key.

    Each word but the first brings its dot along, so that `#` can stand for no word at all.
    """
    if all(word == "#" for word in words):
        return r"\A(?s:.*)\z"
    # Every word is written as ".word", matched against "." + key; the leading dot is left out
    # again at the one place where it can be: before the first word that is there.
    first, *rest = words
    tail = "".join(r"(?:\.[^.]*)*" if word == "#" else rf"\.{_word(word)}" for word in rest)
    if first != "#":
        return rf"\A{_word(first)}{tail}\z"
    # A leading # is nothing, and then the next word has no dot; or words, and then it has.
    return rf"\A(?:{topic_body(rest)}|[^.]*(?:\.[^.]*)*{tail})\z"


def topic_body(words: list[str]) -> str:
    """Return the expression of the words without its anchors."""
    return topic_expression(words).removeprefix(r"\A").removesuffix(r"\z")


def _word(word: str) -> str:
    return "[^.]*" if word == "*" else re.escape(word)


# ---------------------------------------------------------------- ranges


def narrow(ranges: Iterable[Range], pushed: Pushed) -> list[Range]:
    """Cut ranges down to what predicates on stream, partition and offset leave of them."""
    found = []
    for part in ranges:
        if pushed.streams is not None and part.key.stream not in pushed.streams:
            continue
        if pushed.partitions is not None and part.key.partition not in pushed.partitions:
            continue
        end = part.end if pushed.high is None else min(part.end, pushed.high)
        start = max(part.start, pushed.low)
        if end > start:
            found.append(replace(part, start=start, end=end))
    return found


def narrow_by_time(
    ranges: Iterable[Range], lows: Mapping[Key, int] | None, highs: Mapping[Key, int] | None
) -> list[Range]:
    """Cut ranges down to the offsets that the broker named for two moments."""
    found = []
    for part in ranges:
        start = part.start if lows is None else max(part.start, lows.get(part.key, part.start))
        end = part.end if highs is None else min(part.end, highs.get(part.key, part.end))
        if end > start:
            found.append(replace(part, start=start, end=end))
    return found
