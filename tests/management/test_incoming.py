"""Tables that clients send: kinds of columns that mean the same, and memory that is not spent."""

from __future__ import annotations

import struct
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from tests.management.arrows import stream_of, table_of

from leporid.engine.tables.rows import encode
from leporid.management import incoming as module
from leporid.management.incoming import BadTable, TableTooLarge, read_table


@pytest.mark.parametrize(
    "kind",
    [
        pa.binary(),
        pa.large_binary(),
        pa.binary(3),
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.binary_view(),
    ],
)
def test_bodies_of_every_kind_of_text(kind: pa.DataType):
    ((rows, parts),) = read_table(table_of(body=pa.array(["one", "two"]).cast(kind)))
    assert parts["body"][1][2] is not None
    assert parts["body"][1][2].to_pybytes()[:6] == b"onetwo"
    assert len(encode(rows, parts, exchange=b"", body_bytes_max=3)) == 2


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Rome"])
def test_times_of_every_unit(unit: str, zone: str | None):
    at = datetime(2026, 11, 21, 6, 0, tzinfo=UTC if zone else None)
    times = pa.array([at], pa.timestamp(unit, zone))
    struct = pa.StructArray.from_arrays([times], ["timestamp"])
    ((_, parts),) = read_table(table_of(body=["x"], properties=struct))
    value = parts["properties.timestamp"][1][1]
    assert value is not None
    expected = datetime(2026, 11, 21, 6, 0, tzinfo=UTC).timestamp() * 1_000_000
    assert int.from_bytes(value.to_pybytes()[:8], "little") == expected


def test_columns_that_are_nothing():
    columns: dict[str, Any] = {
        name: pa.nulls(2)
        for name in ("routing_key", "exchange", "headers", "properties", "delay_ms", "deliver_at")
    }
    ((rows, parts),) = read_table(table_of(body=["x", "y"], **columns))
    assert encode(rows, parts, exchange=b"e", body_bytes_max=9).exchanges == {b"e"}


def test_a_slice_is_read_where_it_begins():
    batch = pa.record_batch({"body": ["a", "b", "c"]}).slice(1)
    ((rows, parts),) = read_table(stream_of(batch))
    assert rows == 2
    assert parts["body"][1][2].to_pybytes()[:2] == b"bc"  # type: ignore[union-attr]


def test_a_table_without_its_end_is_refused():
    data = table_of(body=["x"])
    with pytest.raises(BadTable, match="its end mark is missing"):
        read_table(data[:-8])
    with pytest.raises(BadTable):
        read_table(b"")
    with pytest.raises(BadTable, match="the body is JSON: an Arrow IPC stream is needed"):
        read_table(b'{"routing_key": "q", "payload": "x"}')
    with pytest.raises(BadTable, match="not a sound Arrow IPC stream"):
        read_table(b"not a table" + data[-8:])


def test_a_column_twice():
    batch = pa.RecordBatch.from_arrays([pa.array(["x"])] * 2, ["body", "body"])
    with pytest.raises(BadTable, match="twice"):
        read_table(stream_of(batch))


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_a_small_request_does_not_become_a_large_one(
    compression: str, monkeypatch: pytest.MonkeyPatch
):
    zeros = pa.record_batch({"body": [b"\0" * 100_000] * 10})
    data = stream_of(zeros, compression=compression)
    assert len(data) < 50_000
    assert read_table(data)
    monkeypatch.setattr(module, "DECODED_BYTES_MAX", 500_000)

    def never(*_: Any) -> Any:
        pytest.fail("it was decompressed")

    monkeypatch.setattr(pa.ipc, "open_stream", never)
    with pytest.raises(TableTooLarge, match="more than 500000 bytes"):
        read_table(data)


def test_views_of_the_same_bytes_are_not_copied_for_each(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "DECODED_BYTES_MAX", 500_000)
    data = pa.py_buffer(b"x" * 100_000)
    views = pa.py_buffer(struct.pack("<i4sii", 100_000, b"xxxx", 0, 0) * 10)
    many = pa.Array.from_buffers(pa.binary_view(), 10, [None, views, data])
    with pytest.raises(TableTooLarge, match="1000000 bytes"):
        read_table(table_of(body=many))
    headers = pa.map_(pa.string_view(), pa.string_view())
    with pytest.raises(BadTable, match="'headers' is map<string_view"):
        read_table(table_of(body=["x"], headers=pa.array([[("a", "b")]], headers)))
