"""Spark's predicates in the language of the broker's filters, where both mean exactly the same.

Both know three values, and a row is kept only if the whole is true. Texts are compared byte by
byte in both; but what was no UTF-8 Spark sees with U+FFFD in it, so a predicate that has that
character is left to others, and so is the order of texts. Headers are texts in Spark, whatever they
were, and are left out too. Must not know where expressions go.
"""

from __future__ import annotations

from typing import Any

from leporid.filters.errors import FilterError
from leporid.filters.names import PROPERTIES as NAMES
from leporid.filters.parser import parse
from leporid.spark.schema import PROPERTIES

# What invalid UTF-8 is shown as: such a value is not what the broker compares with.
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

ORDERS = {
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
}
SEARCHES = {
    "StringStartsWith": "STARTSWITH",
    "StringEndsWith": "ENDSWITH",
    "StringContains": "CONTAINS",
}
# Below NOT, where being unknown and being false are not the same.
NEGATABLE = {"EqualTo", "In", *SEARCHES}


def selector_of(predicate: Any) -> str | None:
    """Return an expression of the dialect jms that is true of the same messages; None if unsure."""
    name = type(predicate).__name__
    if name == "Not":
        inner = predicate.child
        if type(inner).__name__ not in NEGATABLE or (
            type(inner).__name__ == "In" and None in inner.value
        ):
            return None
        text = _plain(inner)
        return None if text is None else f"NOT ({text})"
    return _plain(predicate)


def both(one: str | None, other: str) -> str | None:
    """Return what is true where both are; None if it is more than an expression may be."""
    # The line end, as the first may end in a comment.
    text = other if one is None else f"({one}\n) AND {other}"
    try:
        parse(text)
    except FilterError:
        return None
    return text


def kind_of(path: tuple[str, ...]) -> type | None:
    """Return the Python type of a column that can be compared; None for all others."""
    if tuple(path) in {("exchange",), ("routing_key",)}:
        return str
    if len(path) == 2 and path[0] == "properties":
        at = PROPERTIES.get_field_index(path[1])
        if at >= 0:
            return {"string": str, "int32": int}.get(str(PROPERTIES.field(at).type))
    return None


def _plain(predicate: Any) -> str | None:
    name, path = type(predicate).__name__, tuple(getattr(predicate, "attribute", ()))
    kind, value = kind_of(path), getattr(predicate, "value", None)
    if kind is None or (len(path) == 2 and path[1] not in NAMES):
        return None
    column = path[0] if len(path) == 1 else f"p.{path[1]}"
    if name == "IsNull" or (name == "EqualNullSafe" and value is None):
        return f"{column} IS NULL"
    if name == "IsNotNull":
        return f"{column} IS NOT NULL"
    if name == "In" and isinstance(value, list | tuple):
        constants = [_constant(one, kind) for one in value if one is not None]
        known = [one for one in constants if one is not None]
        if not known or len(known) < len(constants):
            return None
        return f"{column} IN ({', '.join(known)})"
    constant = _constant(value, kind)
    if constant is None:
        return None
    if name in {"EqualTo", "EqualNullSafe"}:
        return f"{column} = {constant}"
    if name in ORDERS and kind is int:
        return f"{column} {ORDERS[name]} {constant}"
    if name in SEARCHES and kind is str:
        return f"{column} {SEARCHES[name]} {constant}"
    return None


def _constant(value: Any, kind: type) -> str | None:
    if type(value) is not kind:
        return None
    if not isinstance(value, str):
        return str(value)
    if REPLACEMENT in value:
        return None
    quoted = value.replace("'", "''")
    return f"'{quoted}'"
