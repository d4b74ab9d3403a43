from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq

from leporid.spark.pipelines import files
from leporid.spark.pipelines.files import Partitions, in_utc
from leporid.spark.pipelines.places import place_of

STAMP = pa.timestamp("us", "UTC")


def batch(*moments, zone="UTC"):
    stamps = pa.array(moments, pa.timestamp("us", zone))
    return pa.RecordBatch.from_arrays([stamps, pa.array(range(len(moments)))], ["timestamp", "n"])


def at(day, hour=0, minute=0):
    return datetime(2026, 1, day, hour, minute, tzinfo=UTC)


def test_each_day_has_a_file_and_a_day_begins_at_midnight_utc(tmp_path):
    days = Partitions(place_of(tmp_path))
    days.add(batch(at(1, 23, 59), at(2), at(2, 12), zone="Asia/Tokyo"))
    days.add(batch(at(1, 5)))
    found = {file.values["date"]: file for file in days.close()}
    assert {date: file.rows for date, file in found.items()} == {"2026-01-01": 2, "2026-01-02": 2}
    first = found["2026-01-01"]
    assert first.first_us == int(at(1, 5).timestamp() * 1_000_000)
    assert first.last_us == int(at(1, 23, 59).timestamp() * 1_000_000)
    assert first.bytes == (tmp_path / first.name).stat().st_size
    assert pq.read_schema(tmp_path / first.name).field("timestamp").type == STAMP


def test_nothing_makes_no_file(tmp_path):
    days = Partitions(place_of(tmp_path))
    days.add(batch())
    assert days.close() == []
    assert list(tmp_path.iterdir()) == []


def test_rows_are_gathered_into_groups(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "GROUP_ROWS", 10)
    days = Partitions(place_of(tmp_path))
    for _ in range(25):
        days.add(batch(at(1)))
    (file,) = days.close()
    with pq.ParquetFile(tmp_path / file.name) as found:
        groups = [found.metadata.row_group(index).num_rows for index in range(3)]
    assert groups == [10, 10, 5]


def test_times_within_other_columns_are_utc_as_well():
    inner = pa.struct([pa.field("at", pa.timestamp("us", "Asia/Tokyo"), nullable=False)])
    column = pa.array([{"at": at(1)}], inner)
    found = in_utc(pa.RecordBatch.from_arrays([column], ["properties"]))
    assert found.schema.field(0).type == pa.struct([("at", STAMP)])
