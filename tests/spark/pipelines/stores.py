"""Files for the tests of stores: rows of one stream, an offset a second."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from leporid.spark.offsets import Key, Offsets, Position
from leporid.spark.pipelines.files import DataFile, Days
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
    store.folder.mkdir(parents=True, exist_ok=True)
    days = Days(store.folder)
    for batch in table.to_batches():
        days.add(batch)
    return days.close()


def committed(store: Store, **time: Any) -> list[int]:
    """Return the offsets that a reader of the table finds."""
    paths = [path.removeprefix("file://") for path in store.state(**time)[0]]
    found = [pq.ParquetFile(path).read(["offset"]).column(0).to_pylist() for path in paths]
    return sorted(offset for each in found for offset in each)
