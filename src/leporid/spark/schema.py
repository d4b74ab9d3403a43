"""The columns of a stream, as Arrow and as Spark see them: one place for both.

Spark compares the schema of the first batch with its own to the last detail, so what goes to Spark
is always made by `project` from these constants. Must not know how records are fetched.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from leporid.spark.errors import OptionError

TIMESTAMP = pa.timestamp("us", tz="UTC")

PROPERTIES = pa.struct(
    [
        ("content_type", pa.string()),
        ("content_encoding", pa.string()),
        ("delivery_mode", pa.int32()),
        ("priority", pa.int32()),
        ("correlation_id", pa.string()),
        ("reply_to", pa.string()),
        ("expiration", pa.string()),
        ("message_id", pa.string()),
        ("timestamp", TIMESTAMP),
        ("type", pa.string()),
        ("user_id", pa.string()),
        ("app_id", pa.string()),
        ("cluster_id", pa.string()),
    ]
)

HEADERS = pa.map_(pa.string(), pa.string())

# What a stream is read as, in this order.
COLUMNS = pa.schema(
    [
        ("stream", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP),
        ("exchange", pa.string()),
        ("routing_key", pa.string()),
        ("properties", PROPERTIES),
        ("headers", HEADERS),
        ("body", pa.binary()),
    ]
)

# On request only (option headersJson): the headers with their types, as JSON.
HEADERS_JSON = pa.field("headers_json", pa.string())

READABLE = COLUMNS.append(HEADERS_JSON)

# What a queue is read as: `offset` is the message's number in it.
QUEUE_COLUMNS = COLUMNS.append(pa.field("redelivered", pa.bool_())).append(
    pa.field("state", pa.string())
)
QUEUE_READABLE = QUEUE_COLUMNS.append(HEADERS_JSON)

# What can be published, by column. `properties` may have some of the fields only, and body may be
# a string as well.
WRITABLE = pa.schema(
    [
        ("body", pa.binary()),
        ("exchange", pa.string()),
        ("routing_key", pa.string()),
        ("headers", HEADERS),
        ("properties", PROPERTIES),
        ("delay_ms", pa.int64()),
        ("deliver_at", TIMESTAMP),
    ]
)

_DDL = {
    pa.string(): "string",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.binary(): "binary",
    pa.bool_(): "boolean",
    TIMESTAMP: "timestamp",
    HEADERS: "map<string,string>",
}


def spark_type(kind: pa.DataType) -> str:
    """Return the Spark SQL name of an Arrow type used here."""
    if pa.types.is_struct(kind):
        fields = (
            f"{kind.field(at).name}:{spark_type(kind.field(at).type)}"
            for at in range(kind.num_fields)
        )
        return f"struct<{','.join(fields)}>"
    return _DDL[kind]


def ddl(schema: pa.Schema) -> str:
    """Return a schema as Spark SQL writes one."""
    return ", ".join(f"`{field.name}` {spark_type(field.type)}" for field in schema)


def default_schema(*, headers_json: bool = False, queue: bool = False) -> pa.Schema:
    """Return the columns of a stream or a queue when the user names none."""
    columns = QUEUE_COLUMNS if queue else COLUMNS
    return columns.append(HEADERS_JSON) if headers_json else columns


def projection(asked: Iterable[tuple[str, str, bool]], readable: pa.Schema = READABLE) -> pa.Schema:
    """Return the Arrow schema of the columns that a user's `.schema(…)` names.

    Args:
        asked: name, Spark SQL type and nullability of each column.
        readable: the columns that there are.

    Raises:
        OptionError: no such column, another type, or `not null`.
    """
    fields: list[Any] = []
    for name, kind, nullable in asked:
        at = readable.get_field_index(name)
        if at < 0:
            known = ", ".join(readable.names)
            near = nearest(name, readable.names)
            raise OptionError(f"there is no column {name!r}{near}; the columns are {known}")
        expected = spark_type(readable.field(at).type)
        if kind != expected:
            raise OptionError(
                f"column {name!r} is {expected}, not {kind}: "
                f"give .schema() this type, and cast afterwards"
            )
        if not nullable:
            raise OptionError(f"column {name!r} may be null: leave NOT NULL out of .schema()")
        if name in {field.name for field in fields}:
            raise OptionError(f"column {name!r} is named twice in .schema()")
        fields.append(readable.field(at))
    if not fields:
        raise OptionError(f".schema() names no column; choose from {', '.join(readable.names)}")
    return pa.schema(fields)


def project(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the batch with exactly the columns of `schema`, in its order.

    Raises:
        OptionError: the broker sent another type than agreed.
    """
    arrays = []
    for field in schema:
        at = batch.schema.get_field_index(field.name)
        if at < 0 or batch.schema.field(at).type != field.type:
            sent = "nothing" if at < 0 else str(batch.schema.field(at).type)
            raise OptionError(
                f"the broker sent {sent} for column {field.name!r}, expected {field.type}: "
                f"use the same version of leporid on both sides"
            )
        arrays.append(batch.column(at))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def publishing(asked: Mapping[str, str], extra: Sequence[str] = ()) -> pa.Schema:
    """Return the Arrow schema under which a data frame's columns are published.

    Args:
        asked: Spark SQL type of each column, by name.
        extra: columns that are used here and not sent.

    Raises:
        OptionError: `body` is missing, or a column cannot be published.
    """
    if "body" not in asked:
        near = difflib.get_close_matches("body", list(asked), n=1)
        hint = f'; did you mean "{near[0]}"?' if near else ""
        raise OptionError(
            f"there is no column 'body' to publish{hint}; the data frame has {', '.join(asked)}"
        )
    fields = []
    for name, kind in asked.items():
        if name in extra:
            continue
        at = WRITABLE.get_field_index(name)
        if at < 0:
            raise OptionError(
                f"column {name!r} cannot be published{nearest(name, WRITABLE.names)}; "
                f"drop it, or name it one of {', '.join(WRITABLE.names)}"
            )
        fields.append(pa.field(name, _published_type(name, kind)))
    return pa.schema(fields)


def _published_type(name: str, kind: str) -> pa.DataType:
    target = WRITABLE.field(name).type
    if name == "body" and kind in {"string", "binary"}:
        return pa.string() if kind == "string" else target
    if name == "delay_ms" and kind in {"tinyint", "smallint", "int", "bigint"}:
        return target
    if name == "properties":
        return _published_properties(kind)
    if kind != spark_type(target):
        allowed = "string or binary" if name == "body" else spark_type(target)
        raise OptionError(f"column {name!r} is {kind}; to be published it must be {allowed}")
    return target


def _published_properties(kind: str) -> pa.DataType:
    if not (kind.startswith("struct<") and kind.endswith(">")):
        raise OptionError(f"column 'properties' is {kind}; it must be a struct of properties")
    known = {PROPERTIES.field(at).name: PROPERTIES.field(at) for at in range(PROPERTIES.num_fields)}
    fields = []
    for part in kind[len("struct<") : -1].split(","):
        name, _, given = part.partition(":")
        if name not in known:
            raise OptionError(f"no property is named {name!r}{nearest(name, known)}")
        expected = spark_type(known[name].type)
        if given != expected:
            raise OptionError(f"property {name!r} is {given}; it must be {expected}")
        fields.append(known[name])
    return pa.struct(fields)


def nearest(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean "…"?`, or nothing when no known word is near.

    Case is left aside, as Spark does with options.
    """
    by_lower = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word.lower(), list(by_lower), n=1)
    return f'; did you mean "{by_lower[near[0]]}"?' if near else ""


def cast_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the batch's columns as `schema` has them, types adapted.

    Spark says `not null` of what it knows never to be null, and names its own time zone.
    """
    arrays = []
    for field in schema:
        column = batch.column(batch.schema.get_field_index(field.name))
        arrays.append(column if column.type == field.type else column.cast(field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
