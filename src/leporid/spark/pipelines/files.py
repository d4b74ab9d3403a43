"""Rows into Parquet files by partition. Must not know Spark, nor where the rows come from.

Nobody reads a file until a table's commit names it, so what writes may fail, run twice or be
killed: it leaves a file that no commit names.

Invariant: a file that `close` returns is whole and on disk, or in its object store.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from leporid.spark.errors import OptionError
from leporid.spark.pipelines.places import Place, sync

# A row group is the unit that readers skip by its least and greatest values.
GROUP_ROWS = 131_072
GROUP_BYTES = 64 * 1024 * 1024
COMPRESSION = "zstd"
# Other columns have mostly different values, or nothing but null.
DICTIONARIES = ["stream", "partition", "exchange", "routing_key"]

# What a table can be partitioned by, besides `value.FIELD`: the first two are the time's.
DATE = "date"
HOUR = "hour"
PARTITIONS = (DATE, HOUR, "partition", "exchange", "routing_key")
# Each partition has an open file in each task.
PARTITIONS_MAX = 500
# What rows may take that wait for the rest of their row groups, in all files of a task.
WAITING_BYTES_MAX = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file with rows of one partition.

    Attributes:
        name: the file's name in its folder.
        partition: what its rows have in common, by column, as a JSON object of texts and nulls.
        rows: how many.
        bytes: the file's size.
        first_us: its least timestamp, in microseconds since 1970.
        last_us: its greatest.
    """

    name: str
    partition: str
    rows: int
    bytes: int
    first_us: int
    last_us: int

    @property
    def values(self) -> dict[str, str | None]:
        """What its rows have in common, by column."""
        found: dict[str, str | None] = json.loads(self.partition)
        return found


class Partitions:
    """A file for each partition, as long as rows come.

    Args:
        folder: where the files go.
        by: what the rows are partitioned by.
    """

    def __init__(self, folder: Place, by: Sequence[str] = (DATE,)) -> None:
        self._folder = folder
        self._by = by
        self._open: dict[tuple[object, ...], FileWriter] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        """Put each row into the file of its partition.

        Raises:
            OptionError: there are too many partitions.
        """
        if not batch.num_rows:
            return
        batch = in_utc(batch)
        keys = [key_of(batch, name) for name in self._by]
        if all(map(is_one_value, keys)):
            self._of(tuple(key[0].as_py() for key in keys), batch.schema).add(batch)
            return
        columns = [str(at) for at in range(len(keys))]
        found = pa.table(keys, names=columns).group_by(columns).aggregate([]).to_pylist()
        for values in (tuple(row[column] for column in columns) for row in found):
            mask = pa.scalar(True)
            for key, value in zip(keys, values, strict=True):
                same = (
                    pc.is_null(key) if value is None else pc.equal(key, pa.scalar(value, key.type))
                )
                mask = pc.and_(mask, pc.fill_null(same, False))
            self._of(values, batch.schema).add(batch.filter(mask))
        if sum(each.waiting_bytes for each in self._open.values()) > WAITING_BYTES_MAX:
            max(self._open.values(), key=lambda each: each.waiting_bytes).flush()

    def _of(self, values: tuple[object, ...], schema: pa.Schema) -> FileWriter:
        if values not in self._open:
            if len(self._open) == PARTITIONS_MAX:
                raise OptionError(
                    f"more than {PARTITIONS_MAX} partitions by {', '.join(self._by)} in one task: "
                    f"choose columns with fewer values, or fewer rows in a commit"
                )
            texts = {
                column_of(name): text_of(value)
                for name, value in zip(self._by, values, strict=True)
            }
            self._open[values] = FileWriter(self._folder, texts, schema)
        return self._open[values]

    def close(self) -> list[DataFile]:
        """Finish all files; when it returns they are on disk."""
        files = [writer.close() for writer in self._open.values()]
        if files and self._folder.path is not None:
            sync(self._folder.path)
        return files


def column_of(name: str) -> str:
    """Return the table's column of a partition.

    It is not one of the records' columns: Delta leaves a column that divides a table out of files
    that it merges, and takes an empty text in it for null.
    """
    if name in {DATE, HOUR}:
        return name
    return f"{name}_partition" if name in PARTITIONS else name.removeprefix("value.")


def key_of(batch: pa.RecordBatch, name: str) -> pa.Array:
    """Return what each row has of a partition."""
    if name in {DATE, HOUR}:
        stamps = batch.column("timestamp")
        return pc.cast(stamps, pa.date32()) if name == DATE else pc.hour(stamps).cast(pa.int32())
    if name in PARTITIONS:
        return batch.column(name)
    return pc.struct_field(batch.column("value"), column_of(name))


def is_one_value(column: pa.Array) -> bool:
    """Return whether all rows have the same."""
    if column.null_count:
        return bool(column.null_count == len(column))
    ends = pc.min_max(column)
    return bool(ends["min"] == ends["max"])


def text_of(value: object) -> str | None:
    """Return a partition's value as tables have it."""
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


class FileWriter:
    """One new file, in row groups of a useful size."""

    def __init__(
        self, folder: Place, partition: Mapping[str, str | None], schema: pa.Schema
    ) -> None:
        day = partition.get(DATE)
        self._place = folder / f"{day + '-' if day else ''}{uuid.uuid4().hex}.parquet"
        self._partition = json.dumps(partition)
        self._schema = schema
        self._files, name = self._place.filesystem()
        self._writer = pq.ParquetWriter(
            name,
            schema,
            compression=COMPRESSION,
            use_dictionary=[each for each in DICTIONARIES if each in schema.names],
            filesystem=self._files,
        )
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = self._rows = 0
        self.waiting_bytes = 0
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
        self.waiting_bytes += batch.nbytes
        if self._waiting_rows >= GROUP_ROWS or self.waiting_bytes >= GROUP_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the rows that wait."""
        if self._waiting:
            table = pa.Table.from_batches(self._waiting, schema=self._schema)
            self._writer.write_table(table, row_group_size=GROUP_ROWS)
            self._rows += table.num_rows
        self._waiting, self._waiting_rows, self.waiting_bytes = [], 0, 0

    def close(self) -> DataFile:
        """Finish the file and sync it."""
        self.flush()
        self._writer.close()
        if self._place.path is not None:
            sync(self._place.path)
        _, name = self._place.filesystem()
        return DataFile(
            self._place.name,
            self._partition,
            self._rows,
            self._files.get_file_info(name).size,
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
