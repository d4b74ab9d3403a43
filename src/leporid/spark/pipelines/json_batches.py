"""Bodies in JSON as columns, a whole batch at once: by Arrow's reader, where that is certain.

Arrow reads a million bodies in half a second; Spark's `from_json` takes ten times as long, one by
one. But Arrow refuses a batch as a whole, and reads a file of lines, not a list of bodies. So this
module answers only if what it says is what Spark would say of each of the bodies; otherwise it
answers nothing, and somebody else decodes them. Pure: Arrow arrays in and out.

Invariant: an answer has the values of each body in its own row. Each body begins with `{` and ends
with `}`, and a newline is between two: `}`, newline, `{` stands within no JSON value, since a comma
would be missing and texts have no raw newline. So no value begins in one body and ends in another,
and with as many values as bodies each body is one value.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from leporid.spark.errors import OptionError
from leporid.spark.pipelines.bodies.columns import PLAIN as COLUMN_TYPES
from leporid.spark.pipelines.evolution import read

# Types whose values Arrow reads as Spark does.
PLAIN = {
    name: COLUMN_TYPES[name]
    for name in (
        "string", "boolean", "tinyint", "smallint", "int", "bigint", "double", "date", "timestamp",
    )
}  # fmt: skip
# Texts of these are read here, in the one form of them that leaves no doubt.
TEXT_FORMS = {
    PLAIN["date"]: r"^(?:1[6-9]|[2-9]\d)\d\d-\d\d-\d\d$",
    PLAIN["timestamp"]: r"^(?:1[6-9]|[2-9]\d)\d\d-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,6})?Z?$",
}
# Numbers that JSON does not have, and this reader takes.
NO_NUMBERS = (b"NaN", b"Inf")
# Bodies of one kind that are read again, in smaller parts, when one of them is not certain.
PART_ROWS = 500


def struct_of(schema: str) -> pa.StructType | None:
    """Return the struct of a schema; None if one of its types is left to Spark."""
    try:
        kind = _arrow_of(read(schema))
    except (KeyError, OptionError):
        return None
    return kind if kind.num_fields else None


def _arrow_of(kind: Any) -> pa.DataType:
    if isinstance(kind, dict):
        return pa.struct([pa.field(name, _arrow_of(part)) for name, part in kind.items()])
    if isinstance(kind, list):
        inner = _arrow_of(kind[0])
        if pa.types.is_nested(inner) or inner in TEXT_FORMS:
            raise KeyError(inner)
        return pa.list_(pa.field("element", inner))
    return PLAIN[kind]


def decoded(bodies: pa.Array, columns: pa.StructType) -> pa.StructArray | None:
    """Return the columns of bodies, all of which are JSON objects that fit them; None in doubt."""
    if bodies.null_count:
        return None
    try:
        # No other bytes than those of UTF-8: the reader does not look.
        texts = pc.ascii_trim(bodies.cast(pa.string()), " \t\r\n")
        if not _all(pc.and_(pc.starts_with(texts, "{"), pc.ends_with(texts, "}"))):
            return None
        lines = _joined(texts)
        if any(word in lines for word in NO_NUMBERS):
            return None
        table = pj.read_json(
            pa.BufferReader(lines),
            read_options=pj.ReadOptions(use_threads=False, block_size=len(lines) + 1),
            parse_options=pj.ParseOptions(
                explicit_schema=pa.schema([*_as_read(columns)]),
                newlines_in_values=False,
                unexpected_field_behavior="ignore",
            ),
        )
        if table.num_rows != len(bodies):
            return None
        return _typed(table.select(_names(columns)).to_struct_array().combine_chunks(), columns)
    except (pa.ArrowException, ValueError):
        return None


def _joined(texts: pa.Array) -> bytes:
    """Return all texts, each with a newline after it."""
    whole = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts)
    joined: bytes = pc.binary_join(whole, "\n")[0].as_buffer().to_pybytes()
    return joined + b"\n"


def _all(mask: pa.Array) -> bool:
    """Return whether something holds of all values that are not null."""
    return bool(pc.all(mask, min_count=0).as_py())


def _names(columns: pa.StructType) -> list[str]:
    return [columns.field(at).name for at in range(columns.num_fields)]


def _as_read(columns: pa.StructType) -> list[pa.Field]:
    """Return the fields as the reader is to see them."""
    return [pa.field(each.name, _kind_as_read(each.type)) for each in columns]


def _kind_as_read(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct(_as_read(kind))
    return pa.string() if kind in TEXT_FORMS else kind


def _typed(values: pa.StructArray, columns: pa.StructType) -> pa.StructArray:
    """Return the values with the types that the columns have.

    Raises:
        ValueError: a text is not certain to be a value of such a type.
    """
    parts = []
    for at in range(columns.num_fields):
        part, kind = values.field(at), columns.field(at).type
        if pa.types.is_struct(kind):
            part = _typed(part, kind)
        elif kind in TEXT_FORMS:
            if not _all(pc.match_substring_regex(part, TEXT_FORMS[kind])):
                raise ValueError(f"no plain {kind}")
            part = pc.replace_substring(part, "Z", "").cast(pa.timestamp("us")).cast(kind)
        elif pa.types.is_floating(kind) and not _all(pc.is_finite(part)):
            raise ValueError("no number of JSON")
        parts.append(part)
    return pa.StructArray.from_arrays(
        parts, fields=[columns.field(at) for at in range(columns.num_fields)], mask=values.is_null()
    )
