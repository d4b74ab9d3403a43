"""Schemas of archives that change: what is added, and what cannot be taken.

A schema is text, the fields of a struct as SQL writes them. Pure: text in, text out.

Invariant: what is added is new, nullable fields, at the end of their struct; a field that is there
keeps its place, and its type or a wider one that has all values of it, so files that were written
before can be read with the new schema.
"""

from __future__ import annotations

import re
from typing import Any

from leporid.spark.errors import OptionError
from leporid.spark.pipelines.decoding import fields

STRUCT = re.compile(r"struct\s*<(.*)>", re.IGNORECASE | re.DOTALL)
ARRAY = re.compile(r"array\s*<(.*)>", re.IGNORECASE | re.DOTALL)
# Names of one type.
SAME = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint", "real": "float"}
SAME |= {"dec": "decimal", "numeric": "decimal", "timestamp_ltz": "timestamp"}


def read(text: str) -> dict[str, Any]:
    """Return a schema as kinds of fields, by name, as `decoding.kind_of` has them.

    A type that is neither struct nor array is kept as it is written, in lower case.

    Raises:
        OptionError: it is no list of fields.
    """
    found: dict[str, Any] = {}
    for part in split_fields(text):
        field = re.fullmatch(r"\s*(`(?:[^`]|``)+`|\w+)\s*[:\s]\s*(.+?)\s*", part, re.DOTALL)
        if field is None:
            raise OptionError(f"{text!r} is no schema such as `id bigint, name string`: {part!r}")
        name = field[1]
        if name.startswith("`"):
            name = name[1:-1].replace("``", "`")
        if name in found:
            raise OptionError(f"{text!r} is no schema: it has {name!r} twice")
        found[name] = kind_of_type(field[2])
    return found


def kind_of_type(text: str) -> Any:
    """Return a type as `read` has it."""
    if (inner := STRUCT.fullmatch(text)) is not None:
        return read(inner[1])
    if (inner := ARRAY.fullmatch(text)) is not None:
        return [kind_of_type(inner[1].strip())]
    plain = re.sub(r"\s*([<>,:()])\s*", r"\1", " ".join(text.lower().split()))
    return SAME.get(plain, plain)


def split_fields(text: str) -> list[str]:
    """Split fields at the commas that are not within brackets or a quoted name."""
    found, depth, quoted = [""], 0, False
    for one in text:
        if one == "`":
            quoted = not quoted
        elif not quoted and one in "<(":
            depth += 1
        elif not quoted and one in ">)":
            depth -= 1
        elif one == "," and not quoted and not depth:
            found.append("")
            continue
        found[-1] += one
    return found


# Wider types that have all values of a type: those that Iceberg takes ("Schema Evolution").
WIDER = {
    "tinyint": {"smallint", "int", "bigint"},
    "smallint": {"int", "bigint"},
    "int": {"bigint"},
    "float": {"double"},
}
DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")


def widens(narrow: Any, wide: Any) -> bool:
    """Whether a type has all values of another one, and more."""
    if not isinstance(narrow, str) or not isinstance(wide, str):
        return False
    one, other = DECIMAL.fullmatch(narrow), DECIMAL.fullmatch(wide)
    if one is not None and other is not None:
        return int(other[1]) > int(one[1]) and other[2] == one[2]
    return wide in WIDER.get(narrow, set())


def extended(known: str, asked: str, *, only_new: bool = False, wider: bool = False) -> str:
    """Return a schema with the fields of another one that it does not have; itself without any.

    Args:
        known: of the archive.
        asked: of what is to be archived. Fields that it leaves out stay.
        only_new: whether a field of another type is passed over, as one that was inferred is.
        wider: whether the table can give a field a wider type.

    Raises:
        OptionError: a field that is there has another type.
    """
    before, wanted = read(known), read(asked)
    after = _merged(before, wanted, "value", only_new=only_new, wider=wider)
    return known if after == before else fields(after)


def _merged(before: Any, wanted: Any, path: str, *, only_new: bool, wider: bool) -> Any:
    if isinstance(before, dict) and isinstance(wanted, dict):
        found = dict(before)
        for name, kind in wanted.items():
            inner = f"{path}.{name}"
            # An empty struct says nothing of its fields.
            found[name] = (
                _merged(before[name], kind, inner, only_new=only_new, wider=wider)
                if name in before
                else kind
            )
        return found
    if isinstance(before, list) and isinstance(wanted, list):
        return [_merged(before[0], wanted[0], f"{path}[]", only_new=only_new, wider=wider)]
    if widens(wanted, before) or only_new:
        return before
    if widens(before, wanted):
        if wider:
            return wanted
        raise OptionError(
            f"{path} is {before} in the archive and {wanted} in the schema: Delta's library for "
            f"Python cannot widen a type; leave it as it is, or make a new archive, in Iceberg "
            f"(--format iceberg), which can"
        )
    if before != wanted:
        raise OptionError(
            f"{path} is {_said(before)} in the archive and {_said(wanted)} in the schema: only new "
            f"fields and wider types can be taken; leave that one as it is, or make a new archive"
        )
    return before


def _said(kind: Any) -> str:
    """Return a kind in a word."""
    if isinstance(kind, dict):
        return "a struct"
    return "an array" if isinstance(kind, list) else str(kind)
