"""Streams in SQL: as temporary views, and by a table-valued function.

Spark takes no catalog that is written in Python, so a view is made by a call. Its end is that of
the stream when it was first queried, or with an archive when it was made, so that asking it twice
gives the same; made again, it has what came since. The function reads what there is at each call.
Spark gives a function in Python one task and tells it of no predicate, so a view is the way to a
large stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions

from leporid.spark.errors import OptionError, sentence_alone
from leporid.spark.features import HAS_ARROW_FUNCTIONS, VERSION
from leporid.spark.pipelines.decoding import REASON, decode
from leporid.spark.pipelines.table import BAD_REASON, table
from leporid.spark.schema import ddl, default_schema
from leporid.spark.source import DefaultSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def view(
    spark: SparkSession,
    name: str,
    stream: str,
    *,
    schema: str | None = None,
    archive: str | Path | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Make a temporary view of a stream; return its DataFrame.

    Args:
        spark: the session.
        name: of the view; one of that name is replaced.
        stream: its name.
        schema: fields of JSON bodies, as SQL writes them. They are the column `value`; in
            `bad_reason` stands why a body does not fit, null for those that do.
        archive: the folder of the stream's archive: the view has both, and the archive's schema.
        options: of the data source: how to reach the broker, a filter, ….

    Raises:
        OptionError: a schema is given with an archive, which has its own.
    """
    given = dict(options or {})
    if archive is not None:
        if schema is not None:
            raise OptionError("an archive has a schema of its own: give schema or archive")
        df = table(spark, stream, archive, options=given)
    else:
        df = spark.read.format("leporid").options(**given).load(stream)
        if schema is not None:
            df = decode(df, schema).withColumnRenamed(REASON, BAD_REASON)
    df.createOrReplaceTempView(name)
    return df


def table_function(
    spark: SparkSession, name: str = "leporid_table", *, options: Mapping[str, str] | None = None
) -> None:
    """Register a function for SQL: `leporid_table('orders')`, or with a filter as its second.

    Args:
        spark: the session.
        name: of the function.
        options: of the data source, for all calls: how to reach the broker, ….

    Raises:
        OptionError: this PySpark has no functions that give Arrow batches.
    """
    if not HAS_ARROW_FUNCTIONS:
        raise OptionError(
            f"PySpark {VERSION} has no table-valued functions over Arrow batches, 4.1 does: "
            f"make a view"
        )
    given = dict(options or {})

    class Table:
        @sentence_alone
        def eval(
            self, stream: pa.Array, selector: pa.Array | None = None
        ) -> Iterator[pa.RecordBatch]:
            named = {"stream": stream[0].as_py()}
            if selector is not None:
                named["filter"] = selector[0].as_py()
            source = DefaultSource({**given, **named})
            reader = source.reader(source.struct())
            for part in reader.partitions():
                yield from reader.read(part)

    columns = ddl(default_schema())
    spark.udtf.register(name, functions.arrow_udtf(Table, returnType=columns))
