"""Files for the tests of stores: rows of one stream, an offset a second."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from leporid.spark.offsets import Key, Offsets, Position
from leporid.spark.pipelines.files import DataFile, Partitions
from leporid.spark.pipelines.places import place_of
from leporid.spark.pipelines.store import Store

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
KEY = Key("s", 0)
SCHEMA = pa.schema([("offset", pa.int64()), ("timestamp", pa.timestamp("us", "UTC"))])

Made = Callable[[Store, int, int], list[DataFile]]


def ends(offset: int) -> Offsets:
    return {KEY: Position(offset, "i-1", 0)}


def files(store: Store, first: int, count: int, day: int = 0) -> list[DataFile]:
    """Write `count` rows from an offset on; return the files."""
    stamps = [NOON + timedelta(days=day, seconds=at) for at in range(first, first + count)]
    table = pa.table({"offset": range(first, first + count), "timestamp": stamps}, SCHEMA)
    store.folder.make()
    made = Partitions(store.folder, store.layout.partition_by)
    for batch in table.to_batches():
        made.add(batch)
    return made.close()


def committed(store: Store, **time: Any) -> list[int]:
    """Return the offsets that a reader of the table finds."""
    found = []
    for path in store.state(**time)[0]:
        files, name = place_of(path).filesystem()
        rows = pq.ParquetFile(files.open_input_file(name)).read(["offset"])
        found.append(rows.column(0).to_pylist())
    return sorted(offset for each in found for offset in each)
