"""Rows into Parquet files, on the executors: the part of an archive that costs time.

What comes out is a list of files and what is in them. Nobody reads them until a table's commit
names them, so a task may fail, run twice or be killed: it leaves a file that no commit names.

Invariant: a file that is named by `written` is whole and on disk.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# A row group is the unit that readers skip by its least and greatest values.
GROUP_ROWS = 131_072
GROUP_BYTES = 64 * 1024 * 1024
COMPRESSION = "zstd"

# Rows with a reason are bad, and go to a folder of their own.
REASON = "reason"

REPORT = "folder string, name string, date string, rows bigint, bytes bigint, "
REPORT += "first_us bigint, last_us bigint"


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file with rows of one day.

    Attributes:
        name: the file's name in its folder.
        date: the day of all its timestamps, in UTC, as ISO 8601.
        rows: how many.
        bytes: the file's size.
        first_us: its least timestamp, in microseconds since 1970.
        last_us: its greatest.
    """

    name: str
    date: str
    rows: int
    bytes: int
    first_us: int
    last_us: int


def write(df: DataFrame, good: Path, bad: Path | None) -> tuple[list[DataFile], list[DataFile]]:
    """Write a DataFrame's rows into new files, one for each task and day; return the files.

    Args:
        df: has a column `timestamp`; with `bad`, also `reason`, which is null in good rows.
        good: the folder; all executors see it.
        bad: the folder for rows with a reason, whose files keep that column.
    """
    for folder in (good, bad):
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
    task = _task(str(good), None if bad is None else str(bad))
    found = df.mapInArrow(task, REPORT).collect()
    files: dict[str, list[DataFile]] = {"good": [], "bad": []}
    for row in sorted(found, key=lambda row: (row.first_us, row.name)):
        files[row.folder].append(
            DataFile(row.name, row.date, row.rows, row.bytes, row.first_us, row.last_us)
        )
    return files["good"], files["bad"]


def write_empty(df: DataFrame, folder: Path) -> DataFile:
    """Write a file without rows: the columns of a new table that has no good row yet."""
    columns = in_utc(df.drop(REASON).limit(0).toArrow()).schema
    return FileWriter(folder, "1970-01-01", columns).close()


Batches = Iterable[pa.RecordBatch]


def _task(good: str, bad: str | None) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """Make what a task does; it goes to executors, so it holds text only."""

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        kept = Days(Path(good))
        refused = None if bad is None else Days(Path(bad))
        for batch in batches:
            if refused is None:
                kept.add(batch)
                continue
            is_good = pc.is_null(batch.column(batch.schema.get_field_index(REASON)))
            fine = batch.filter(is_good)
            kept.add(fine.drop_columns([REASON]))
            if fine.num_rows < batch.num_rows:
                # What could not be decoded has no value.
                rest = batch.filter(pc.invert(is_good))
                dropped = [name for name in ("value",) if name in rest.schema.names]
                refused.add(rest.drop_columns(dropped))
        for folder, days in (("good", kept), ("bad", refused)):
            if days is not None:
                for file in days.close():
                    yield pa.RecordBatch.from_pylist([{"folder": folder, **asdict(file)}])

    return run


class Days:
    """A file for each day, as long as rows come."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: dict[str, FileWriter] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        """Put each row into the file of its day."""
        if not batch.num_rows:
            return
        batch = in_utc(batch)
        stamps = batch.column(batch.schema.get_field_index("timestamp"))
        days = pc.cast(stamps, pa.date32())
        ends = pc.min_max(days)
        if ends["min"] == ends["max"]:
            self._of(str(ends["min"].as_py()), batch.schema).add(batch)
            return
        for day in pc.unique(days):
            rows = batch.filter(pc.equal(days, day))
            self._of(str(day.as_py()), batch.schema).add(rows)

    def _of(self, day: str, schema: pa.Schema) -> FileWriter:
        if day not in self._open:
            self._open[day] = FileWriter(self._folder, day, schema)
        return self._open[day]

    def close(self) -> list[DataFile]:
        """Finish all files; when it returns they are on disk."""
        files = [writer.close() for writer in self._open.values()]
        if files:
            sync(self._folder)
        return files


class FileWriter:
    """One new file, in row groups of a useful size."""

    def __init__(self, folder: Path, day: str, schema: pa.Schema) -> None:
        self._path = folder / f"{day}-{uuid.uuid4().hex}.parquet"
        self._day = day
        self._schema = schema
        self._writer = pq.ParquetWriter(self._path, schema, compression=COMPRESSION)
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = self._waiting_bytes = self._rows = 0
        self._first: int | None = None
        self._last = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Append rows."""
        stamps = batch.column(batch.schema.get_field_index("timestamp"))
        ends = pc.min_max(stamps.cast(pa.int64()))
        first, last = ends["min"].as_py(), ends["max"].as_py()
        self._first = first if self._first is None else min(self._first, first)
        self._last = max(self._last, last)
        self._waiting.append(batch)
        self._waiting_rows += batch.num_rows
        self._waiting_bytes += batch.nbytes
        if self._waiting_rows >= GROUP_ROWS or self._waiting_bytes >= GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            table = pa.Table.from_batches(self._waiting, schema=self._schema)
            self._writer.write_table(table, row_group_size=GROUP_ROWS)
            self._rows += table.num_rows
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0

    def close(self) -> DataFile:
        """Finish the file and sync it."""
        self._flush()
        self._writer.close()
        sync(self._path)
        return DataFile(
            self._path.name,
            self._day,
            self._rows,
            self._path.stat().st_size,
            self._first or 0,
            self._last,
        )


def in_utc(batch: pa.RecordBatch | pa.Table) -> pa.RecordBatch | pa.Table:
    """Return the batch as a file has it, so that all files have one schema.

    Times are labelled UTC, whatever zone Spark shows, and no column forbids null.
    """
    fields = [pa.field(field.name, _utc(field.type)) for field in batch.schema]
    schema = pa.schema(fields)
    return batch if batch.schema == schema else batch.cast(schema)


def _utc(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp("us", tz="UTC")
    if pa.types.is_struct(kind):
        parts = [kind.field(at) for at in range(kind.num_fields)]
        return pa.struct([pa.field(part.name, _utc(part.type)) for part in parts])
    if pa.types.is_map(kind):
        return pa.map_(_utc(kind.key_type), _utc(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", _utc(kind.value_type)))
    return kind


def sync(path: Path) -> None:
    """Write a file's content, or a folder's names, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
