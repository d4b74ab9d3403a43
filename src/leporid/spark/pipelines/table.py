"""Archive and live stream as one DataFrame: everything that was ever in a stream, up to now.

The archive says at which offset it ends; from there on the records come from the broker. Both
borders are fixed when the DataFrame is made, so that asking it twice gives the same rows, however
much is archived or published in between.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from leporid.spark.checks import moment_ms
from leporid.spark.errors import DataLossError
from leporid.spark.offsets import BatchLimits, Offsets, advance
from leporid.spark.options import BATCH_ROWS
from leporid.spark.pipelines.bodies.decoder import Body, body_of, with_reader
from leporid.spark.pipelines.decoding import REASON, decode_bodies
from leporid.spark.pipelines.origin import Origin
from leporid.spark.pipelines.places import Place, place_of
from leporid.spark.pipelines.reprocess import paths_of
from leporid.spark.pipelines.store import StoreError, bad_place, existing, select_of, settings_of
from leporid.spark.schema import COLUMNS, ddl

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

log = logging.getLogger(__name__)

# Files of an object store are read by so many tasks at most.
READ_TASKS_MAX = 200

# Why a record does not fit the archive's schema; the tables of bad records call it `reason`, which
# in dead letters is something else.
BAD_REASON = "bad_reason"


def table(
    spark: SparkSession,
    stream: str,
    archive: str | Path | Place | None = None,
    *,
    options: Mapping[str, str] | None = None,
    since: datetime | str | None = None,
    until: datetime | str | None = None,
    include_bad: bool = False,
) -> DataFrame:
    """Return archive and live stream as one DataFrame: no gap, no duplicate.

    An archive that was made with a schema has a column `value`; so has then the live part. Records
    that do not fit the schema are left out, and those of the archive are counted in the log.

    Args:
        spark: the session.
        stream: its name.
        archive: the folder of its archive; without one there is only the live stream.
        options: how to reach the broker.
        since: leave out what is older; files and offsets before it are not read.
        until: leave out what is not older.
        include_bad: have the records that do not fit the schema as well: without a `value`, and
            with a reason in `bad_reason`, which is null in all others.

    Raises:
        StoreError: it is the archive of another stream.
        DataLossError: there are records that the archive does not have yet and the stream not any
            more.
    """
    first, last = moment_us(since), moment_us(until)
    origin = Origin(stream, options or {})
    return joined(spark, origin, archive, first, last, include_bad=include_bad)[0]


def joined(
    spark: SparkSession,
    origin: Origin,
    archive: str | Path | Place | None,
    first_us: int | None = None,
    last_us: int | None = None,
    *,
    include_bad: bool = False,
    after: Offsets | None = None,
) -> tuple[DataFrame, Offsets]:
    """Return archive and live stream as one DataFrame, and the position that it reaches.

    Args:
        spark: the session.
        origin: the live stream.
        archive: as in `table`.
        first_us: leave out what is older.
        last_us: leave out what is not older.
        include_bad: as in `table`.
        after: leave out what is before this position.
    """
    if archive is None:
        start, end = _now(origin, after or origin.begin())
        df = origin.records(spark, start, end)
        return within(with_reason(df) if include_bad else df, first_us, last_us), end
    origin = replace(origin, select=select_of(settings_of(archive)))
    stored, ends, schema = archived(
        spark, archive, origin.stream, first_us, last_us, include_bad=include_bad
    )
    if after:
        if stored is not None:
            stored = stored.where(~_before(after)) if _beyond(ends, after) else None
        ends = {**ends, **{key: at for key, at in after.items() if not _beyond(ends, {key: at})}}
    start, end = _now(origin, ends)
    live = origin.records(spark, start, end)
    if schema:
        live = decode_bodies(live, kept_body(archive, schema)).withColumnRenamed(REASON, BAD_REASON)
    if include_bad:
        live = with_reason(live)
    elif schema:
        live = live.where(live[BAD_REASON].isNull()).drop(BAD_REASON)
        _warn_of_bad(archive, first_us, last_us)
    df = live if stored is None else stored.unionByName(live)
    return within(df, first_us, last_us), end


def _beyond(ends: Offsets, after: Offsets) -> bool:
    """Return whether one position is beyond another one, in any partition of the latter."""
    return any(
        key in ends and ends[key].incarnation == at.incarnation and ends[key].offset > at.offset
        for key, at in after.items()
    )


def archived(
    spark: SparkSession,
    archive: str | Path | Place,
    stream: str | None = None,
    first_us: int | None = None,
    last_us: int | None = None,
    *,
    include_bad: bool = False,
) -> tuple[DataFrame | None, Offsets, str]:
    """Return an archive's rows, where it ends, and the schema of its bodies.

    There are no rows when it has no file for the time that is asked for. `include_bad` adds the
    records that did not fit the schema, and the column `bad_reason`.
    """
    store, settings = existing(archive)
    whose = settings["stream"]
    if stream is not None and whose != stream:
        raise StoreError(f"{archive} is the archive of stream {whose!r}, not of {stream!r}")
    schema = settings["schema"]
    while True:
        note = store.note()
        # The files and the position they reach, of one commit.
        paths, ends = store.state(first_us, last_us)
        # Asked after the archive, so that it is not behind it.
        bad_paths = _bad_paths(archive, first_us, last_us) if include_bad else []
        if store.note() == note:
            break
        # Meanwhile records went from the bad ones to the archive.
    value = f"struct<{_struct(schema)}>" if schema else ""
    columns = ddl(COLUMNS) + (f", value {value}" if schema else "")
    if "bad" in settings:
        columns += f", {REASON} string"
    rows = read_files(spark, paths, columns) if paths else None
    if include_bad:
        rows = None if rows is None else with_reason(rows)
        if bad_paths:
            bad = read_files(spark, bad_paths, f"{ddl(COLUMNS)}, {REASON} string")
            # The table of bad records may be ahead of the archive.
            bad = bad.where(_before(ends)).withColumnRenamed(REASON, BAD_REASON)
            bad = bad.selectExpr("*", f"cast(null as {value}) as value")
            rows = bad if rows is None else rows.unionByName(bad)
    return rows, ends, schema


def kept_body(archive: str | Path | Place, columns: str) -> Body:
    """Return how the bodies of an archive are decoded into columns."""
    return replace(with_reader(body_of(settings_of(archive))), columns=columns)


def read_files(spark: SparkSession, paths: Sequence[str], columns: str) -> DataFrame:
    """Return the rows of Parquet files; a column that a file does not have is null in its rows.

    Spark reads an object store with jars of Hadoop's only, which are not here. So its tasks read
    from there by pyarrow, whole files and all columns.
    """
    if place_of(paths[0]).path is not None:
        return spark.read.schema(columns).parquet(*paths)
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    wanted = to_arrow_schema(StructType.fromDDL(columns), timezone="UTC")

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        # Half a second, as below.
        import pyarrow.dataset as ds

        for batch in batches:
            for path in batch.column("path").to_pylist():
                files, name = place_of(path).filesystem()
                found = ds.dataset(name, schema=wanted, filesystem=files, format="parquet")
                yield from found.to_batches(batch_size=BATCH_ROWS)

    names = spark.createDataFrame([(path,) for path in paths], "path string")
    return names.repartition(min(len(paths), READ_TASKS_MAX)).mapInArrow(read, columns)


def with_reason(df: DataFrame) -> DataFrame:
    """Return the rows with a column `bad_reason`; it is null if they had none."""
    if BAD_REASON in df.columns:
        return df
    return df.selectExpr("*", f"cast(null as string) as {BAD_REASON}")


def _bad_paths(
    archive: str | Path | Place, first_us: int | None = None, last_us: int | None = None
) -> list[str]:
    """Return the files with the records that did not fit the archive's schema."""
    if not settings_of(bad_place(archive)):
        return []
    bad, _ = existing(bad_place(archive))
    return paths_of(existing(archive)[0], bad, bad.state(first_us, last_us)[0])


def _before(position: Offsets) -> Column:
    """Return whether a row is before a position."""
    from pyspark.sql import functions as f

    known = f.lit(False)
    for key, at in position.items():
        known = known | ((f.col("partition") == key.partition) & (f.col("offset") < at.offset))
    return known


def _warn_of_bad(archive: str | Path | Place, first_us: int | None, last_us: int | None) -> None:
    """Log how many records of the archive are left out, if any."""
    paths = _bad_paths(archive, first_us, last_us)
    if not paths:
        return
    # pandas comes with it: half a second, which is most of a command that needs no Spark.
    import pyarrow.dataset as ds

    stamps = ds.field("timestamp").cast(pa.int64())
    meant = ds.scalar(True)
    if first_us is not None:
        meant &= stamps >= first_us
    if last_us is not None:
        meant &= stamps < last_us
    places = [place_of(path).filesystem() for path in paths]
    found = ds.dataset([name for _, name in places], filesystem=places[0][0])
    count = found.count_rows(filter=meant)
    if count:
        log.warning(
            "%s records of the archive %s do not fit its schema and are left out; "
            "include_bad=True has them, with the reason",
            f"{count:,}",
            archive,
        )


def _struct(schema: str) -> str:
    """Return fields as they are written inside of a struct."""
    from pyspark.sql.types import StructType

    text: str = StructType.fromDDL(schema).simpleString()
    return text.removeprefix("struct<").removesuffix(">")


def _now(origin: Origin, start: Offsets) -> tuple[Offsets, Offsets]:
    """Return where to go on in the stream, and its end.

    Raises:
        DataLossError: it does not go on where `start` is, and the origin makes that an error.
    """
    parts = origin.parts()
    try:
        current, losses = origin.reconciled(start, parts)
    except DataLossError as error:
        raise DataLossError(
            f"archive and stream do not meet: {error}. Read the archive alone "
            f"(`archived`), or go on in a new one"
        ) from error
    for loss in losses:
        log.warning("%s; going on without that", loss)
    current = {key: at for key, at in current.items() if key in parts}
    return current, advance(current, parts, BatchLimits())


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
