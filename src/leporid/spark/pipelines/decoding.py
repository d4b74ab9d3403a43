"""Bodies that are JSON, as columns: `value` for those that fit a schema, a reason for the others.

The schema is given, or inferred from a sample. An inferred one is only as wide as what was seen;
what comes later and does not fit is bad, with its reason, and loses nothing: its body is kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from leporid.spark.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from leporid.spark.pipelines.bodies.decoder import Body

# Why a record's body is bad; null if it is good.
REASON = "reason"

# How many bodies are looked at when a schema is inferred.
SAMPLE_ROWS = 1_000

# Where Spark puts the text that did not fit.
CORRUPT = "__leporid_corrupt"

NUMBER_MAX = 2**63 - 1


def decode_bodies(df: DataFrame, body: Body) -> DataFrame:
    """Add `value` and `reason`, as `decode` does, for bodies of any format.

    Args:
        df: has the columns of a stream.
        body: how they are decoded, with their columns.

    Raises:
        OptionError: the columns are none.
    """
    if body.format == "json" and not body.schemas:
        # Spark decodes JSON in Java, before the rows come to Python.
        return decode(df, body.columns)
    from pyspark.sql.types import StringType, StructType

    # A copy: the schema of a DataFrame is kept with it.
    columns = StructType([*df.schema.fields]).add("value", StructType.fromDDL(body.columns))
    return df.mapInArrow(_task(body), columns.add(REASON, StringType()))


Batches = Iterable[pa.RecordBatch]


def _task(body: Body) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """Make what a task does; it goes to executors."""

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        # Imported where it is run: it needs libraries of its own.
        from leporid.spark.pipelines.bodies.decoder import Decoder

        decoder = Decoder(body)
        for batch in batches:
            found = decoder.decode(batch)
            yield pa.RecordBatch.from_arrays(
                [*batch.columns, *found], names=[*batch.schema.names, "value", REASON]
            )

    return run


def decode(df: DataFrame, schema: str) -> DataFrame:
    """Add `value`, the body as a struct, and `reason`, null where the body fits.

    Args:
        df: has a column `body`.
        schema: the struct's fields, as SQL writes them: `id bigint, name string`.

    Raises:
        OptionError: it is no schema.
    """
    from pyspark.sql import functions as f
    from pyspark.sql.types import StringType

    kind = struct_type(schema)
    kind.add(CORRUPT, StringType())
    parsed = f.from_json(
        f.col("body").cast("string"),
        kind,
        # Whatever zone the session has, so that other readers of JSON say the same.
        {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT, "timeZone": "UTC"},
    )
    staged = df.withColumn("value", parsed)
    bad = f.col("value").isNull() | f.col(f"value.{CORRUPT}").isNotNull()
    reason = (
        f.when(f.col("body").isNull() | (f.length("body") == 0), f.lit("the body is empty"))
        .when(f.try_parse_json(f.col("body").cast("string")).isNull(), f.lit("not JSON"))
        .when(bad, f.lit("does not fit the schema"))
    )
    return staged.withColumn(REASON, reason).withColumn("value", f.col("value").dropFields(CORRUPT))


def struct_type(schema: str) -> Any:
    """Return a schema as Spark's StructType.

    Raises:
        OptionError: it is no schema.
    """
    from pyspark.errors import ParseException
    from pyspark.sql.types import StructType

    try:
        return StructType.fromDDL(schema)
    except (ParseException, AssertionError, TypeError, ValueError) as error:
        raise OptionError(
            f"{schema!r} is no schema such as `id bigint, name string`: {error}"
        ) from None


def arrow_columns(schema: str) -> pa.DataType:
    """Return a schema as the Arrow struct that Spark makes of it.

    Raises:
        OptionError: it is no schema.
    """
    from pyspark.sql.pandas.types import to_arrow_type

    return to_arrow_type(struct_type(schema), timezone="UTC")


def infer(bodies: Iterable[bytes | None], *, certain: bool = False) -> str | None:
    """Return the schema that all bodies fit which are JSON objects.

    With `certain`, fields are left out of which nothing but null was seen, or nothing at all.

    A field that is a number here and a text there is a text; a whole number here and a fraction
    there is a double; a field that was never anything but null is a text.
    """
    found: Any = None
    for body in bodies:
        try:
            value = json.loads(body or b"")
        except ValueError:
            continue
        if isinstance(value, dict):
            found = merged(found, kind_of(value))
    if certain:
        found = seen(found)
    return fields(found) if found else None


def seen(kind: Any) -> Any:
    """Return a kind without the fields that were never anything but null, or empty."""
    if isinstance(kind, dict):
        inner = {name: seen(part) for name, part in kind.items()}
        return {name: part for name, part in inner.items() if part is not None} or None
    if isinstance(kind, list):
        part = seen(kind[0])
        return None if part is None else [part]
    return kind


# A kind is a name of Spark SQL, None when only null was seen, a dict of fields, or a list with the
# kind of its elements.
def kind_of(value: object) -> Any:
    """Return the kind of one JSON value."""
    match value:
        case None:
            return None
        case bool():
            return "boolean"
        case int():
            return "bigint" if -NUMBER_MAX <= value <= NUMBER_MAX else "double"
        case float():
            return "double"
        case dict():
            return {name: kind_of(part) for name, part in value.items()}
        case list():
            inner: Any = None
            for part in value:
                inner = merged(inner, kind_of(part))
            return [inner]
    return "string"


def merged(one: Any, other: Any) -> Any:
    """Return the kind of what is either of one kind or of another."""
    if one is None or one == other:
        return other
    if other is None:
        return one
    if isinstance(one, dict) and isinstance(other, dict):
        names = [*one, *(name for name in other if name not in one)]
        return {name: merged(one.get(name), other.get(name)) for name in names}
    if isinstance(one, list) and isinstance(other, list):
        return [merged(one[0], other[0])]
    if (
        {one, other} == {"bigint", "double"}
        if isinstance(one, str) and isinstance(other, str)
        else False
    ):
        return "double"
    return "string"


def fields(kind: dict[str, Any], between: str = " ") -> str:
    """Return a struct's fields as SQL writes them."""
    return ", ".join(
        f"`{name.replace('`', '``')}`{between}{written(part)}" for name, part in kind.items()
    )


def written(kind: Any) -> str:
    """Return a kind as SQL writes it."""
    if isinstance(kind, dict):
        return f"struct<{fields(kind, ': ')}>" if kind else "map<string, string>"
    if isinstance(kind, list):
        return f"array<{written(kind[0])}>"
    return kind or "string"
