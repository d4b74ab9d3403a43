"""Streams as temporary views, for SQL.

Spark takes no catalog and no table-valued function that reads a source in Python, so a view is made
by a call. Its end is that of the stream when it was first queried, or with an archive when it was
made, so that asking it twice gives the same; made again, it has what came since.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from leporid.spark.errors import OptionError
from leporid.spark.pipelines.decoding import decode
from leporid.spark.pipelines.files import REASON
from leporid.spark.pipelines.table import BAD_REASON, table

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
