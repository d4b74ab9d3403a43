"""Archive and live stream as one DataFrame: everything that was ever in a stream, up to now.

The archive says at which offset it ends; from there on the records come from the broker. Both
borders are fixed when the DataFrame is made, so that asking it twice gives the same rows, however
much is archived or published in between.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from leporid.spark.checks import moment_ms
from leporid.spark.errors import DataLossError
from leporid.spark.offsets import Limits, Offsets, advance
from leporid.spark.pipelines.decoding import decode
from leporid.spark.pipelines.files import REASON
from leporid.spark.pipelines.origin import Origin
from leporid.spark.pipelines.store import StoreError, existing
from leporid.spark.schema import COLUMNS, ddl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def table(
    spark: SparkSession,
    stream: str,
    archive: str | Path | None = None,
    *,
    options: Mapping[str, str] | None = None,
    since: datetime | str | None = None,
    until: datetime | str | None = None,
) -> DataFrame:
    """Return archive and live stream as one DataFrame: no gap, no duplicate.

    An archive that was made with a schema has a column `value`; so has then the live part, without
    the records that do not fit, as those are not in the archive either.

    Args:
        spark: the session.
        stream: its name.
        archive: the folder of its archive; without one there is only the live stream.
        options: how to reach the broker.
        since: leave out what is older; files and offsets before it are not read.
        until: leave out what is not older.

    Raises:
        StoreError: it is the archive of another stream.
        DataLossError: there are records that the archive does not have yet and the stream not any
            more.
    """
    origin = Origin(stream, options or {})
    first, last = moment_us(since), moment_us(until)
    if archive is None:
        start = origin.begin()
        df = origin.records(spark, start, _now(origin, start))
    else:
        stored, start, schema = archived(spark, archive, stream, first, last)
        live = origin.records(spark, start, _now(origin, start))
        if schema:
            decoded = decode(live, schema)
            live = decoded.where(decoded[REASON].isNull()).drop(REASON)
        df = live if stored is None else stored.unionByName(live)
    return within(df, first, last)


def archived(
    spark: SparkSession,
    archive: str | Path,
    stream: str | None = None,
    first_us: int | None = None,
    last_us: int | None = None,
) -> tuple[DataFrame | None, Offsets, str]:
    """Return an archive's rows, where it ends, and the schema of its bodies.

    There are no rows when it has no file for the time that is asked for.
    """
    store, settings = existing(archive)
    whose = settings["stream"]
    if stream is not None and whose != stream:
        raise StoreError(f"{archive} is the archive of stream {whose!r}, not of {stream!r}")
    schema = settings["schema"]
    # The files and the position they reach, of one commit.
    paths, ends = store.state(first_us, last_us)
    if not paths:
        return None, ends, schema
    columns = ddl(COLUMNS) + (f", value struct<{_struct(schema)}>" if schema else "")
    if "bad" in settings:
        columns += f", {REASON} string"
    return spark.read.schema(columns).parquet(*paths), ends, schema


def _struct(schema: str) -> str:
    """Return fields as they are written inside of a struct."""
    from pyspark.sql.types import StructType

    text: str = StructType.fromDDL(schema).simpleString()
    return text.removeprefix("struct<").removesuffix(">")


def _now(origin: Origin, start: Offsets) -> Offsets:
    """Return the end of the stream.

    Raises:
        DataLossError: it does not go on where `start` is.
    """
    parts = origin.parts()
    try:
        current, _ = origin.reconciled(start, parts)
    except DataLossError as error:
        raise DataLossError(
            f"archive and stream do not meet: {error}. Read the archive alone "
            f"(`archived`), or go on in a new one"
        ) from error
    return advance(current, parts, Limits())


def within(df: DataFrame, first_us: int | None, last_us: int | None) -> DataFrame:
    """Return the rows of a time."""
    from pyspark.sql import functions as f

    if first_us is not None:
        df = df.where(f.col("timestamp") >= f.timestamp_micros(f.lit(first_us)))
    if last_us is not None:
        df = df.where(f.col("timestamp") < f.timestamp_micros(f.lit(last_us)))
    return df


def moment_us(moment: datetime | str | None) -> int | None:
    """Return a time in microseconds since 1970; without a zone it is UTC."""
    if moment is None:
        return None
    text = moment.isoformat() if isinstance(moment, datetime) else moment
    return moment_ms("time", text) * 1000
