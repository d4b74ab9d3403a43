"""Columns of bodies: SQL's types as Arrow has them, and Python's values as such columns.

Types are written as SQL writes them; `evolution.read` makes kinds of them, and this module makes
Arrow types of these.

Invariant: a value that a column cannot hold as it is makes the row bad; nothing is rounded, cut or
replaced by null.
"""

from __future__ import annotations

import decimal
import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from leporid.spark.errors import OptionError
from leporid.spark.pipelines.evolution import kind_of_type, read, split_fields
from leporid.spark.schema import nearest

TIMESTAMP = pa.timestamp("us", tz="UTC")

PLAIN = {
    "string": pa.string(),
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP,
    "timestamp_ntz": pa.timestamp("us"),
}
DECIMAL = re.compile(r"decimal(?:\((\d+)(?:,(\d+))?\))?")
MAP = re.compile(r"map<(.*)>", re.DOTALL)

# Of the widest decimal.
DIGITS_MAX = 38

NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
# Removes zeros at the end, and does not round.
EXACT = decimal.Context(
    prec=1000, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX, traps=[decimal.Inexact]
)

# Types of Spark's that bodies in JSON may have besides.
OTHERS = ("decimal", "map", "varchar", "char", "interval", "variant", "void")

# A reason is read by people.
REASON_CHARACTERS_MAX = 300


def struct_of(schema: str) -> pa.StructType:
    """Return the struct that a schema says, as `id bigint, name string`.

    Raises:
        OptionError: it is no schema, or one of its types is not known here.
    """
    return arrow_of(read(schema))


def check_types(kind: Any) -> None:
    """Refuse a kind of `evolution.read` with a type that there is not; it is a typing error.

    Spark has the last word, since it starts later: what is within a map, and how long a text is.

    Raises:
        OptionError: which type.
    """
    if isinstance(kind, dict):
        for part in kind.values():
            check_types(part)
    elif isinstance(kind, list):
        check_types(kind[0])
    elif re.split(r"\W", kind)[0] not in {*PLAIN, *OTHERS}:
        known = [*PLAIN, *OTHERS]
        raise OptionError(
            f"there is no type {kind!r}{nearest(kind, known)}; it may be one of {', '.join(known)}"
        )


def arrow_of(kind: Any) -> pa.DataType:
    """Return the Arrow type of a kind of `evolution.read`."""
    if isinstance(kind, dict):
        return pa.struct([pa.field(name, arrow_of(part)) for name, part in kind.items()])
    if isinstance(kind, list):
        return pa.list_(pa.field("element", arrow_of(kind[0])))
    if kind in PLAIN:
        return PLAIN[kind]
    if (found := DECIMAL.fullmatch(kind)) is not None:
        digits = int(found[1] or 10)
        if not 1 <= digits <= DIGITS_MAX:
            raise OptionError(f"{kind} has too many digits: a decimal has at most {DIGITS_MAX}")
        return pa.decimal128(digits, int(found[2] or 0))
    if (found := MAP.fullmatch(kind)) is not None:
        parts = split_fields(found[1])
        if len(parts) == 2:
            key, item = (arrow_of(kind_of_type(part.strip())) for part in parts)
            return pa.map_(key, item)
    raise OptionError(f"bodies cannot have the type {kind}; it may be one of {', '.join(PLAIN)}")


def shaped(
    rows: Sequence[dict[str, Any] | None], kind: pa.StructType
) -> tuple[pa.Array, dict[int, str]]:
    """Return rows as an array, with null for those that do not fit, and these with the reason.

    Fields that the columns do not have are left out; columns without a field are null.
    """
    bad: dict[int, str] = {}
    return pa.concat_arrays(_pieces(rows, 0, kind, bad)), bad


def _pieces(
    rows: Sequence[dict[str, Any] | None], first: int, kind: pa.StructType, bad: dict[int, str]
) -> list[pa.Array]:
    """Convert rows; halve them as long as one of them does not fit."""
    try:
        return [pa.array(rows, kind)]
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        if len(rows) == 1:
            bad[first] = f"does not fit the columns: {said(error)}"
            return [pa.nulls(1, kind)]
        half = len(rows) // 2
        return [
            *_pieces(rows[:half], first, kind, bad),
            *_pieces(rows[half:], first + half, kind, bad),
        ]


def exact(text: str) -> decimal.Decimal:
    """Return a decimal number as it is written.

    Arrow's own reader of texts, and its reader of Python's decimals, end the process at some
    exponents, so none is given to them that a column could not have.

    Raises:
        ValueError: it is none, or has more digits than any column.
    """
    if NUMBER.fullmatch(text) is None:
        raise ValueError("no number")
    try:
        found = decimal.Decimal(text).normalize(EXACT)
    except decimal.DecimalException:
        raise ValueError("a number of too many digits") from None
    exponent = found.as_tuple().exponent
    if not isinstance(exponent, int) or exponent < -DIGITS_MAX or found.adjusted() > DIGITS_MAX:
        raise ValueError("a number of too many digits")
    return found


def said(error: BaseException) -> str:
    """Return an exception's first line, as long as a reason may be."""
    line = (str(error).strip().splitlines() or [type(error).__name__])[0]
    return line[:REASON_CHARACTERS_MAX]
