"""Tables that clients send: kinds of columns that mean the same, and memory that is not spent."""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from tests.management.arrows import batches_in, overwritten, stream_of, table_of

from leporid.engine.tables.rows import BadRow, encode
from leporid.management import arrow_ipc
from leporid.management import incoming as module
from leporid.management.arrow_ipc import BadTable, TableTooLarge
from leporid.management.incoming import plan_table, read_table
from leporid.management.tables import HEADERS_TYPE


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
    ((rows, parts),) = batches_in(table_of(body=pa.array(["one", "two"]).cast(kind)))
    assert parts["body"][1][2] is not None
    assert parts["body"][1][2].to_pybytes()[:6] == b"onetwo"
    assert len(encode(rows, parts, exchange=b"", body_bytes_max=3)) == 2


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Rome"])
def test_times_of_every_unit(unit: str, zone: str | None):
    at = datetime(2026, 11, 21, 6, 0, tzinfo=UTC if zone else None)
    times = pa.array([at], pa.timestamp(unit, zone))
    struct = pa.StructArray.from_arrays([times], ["timestamp"])
    ((_, parts),) = batches_in(table_of(body=["x"], properties=struct))
    value = parts["properties.timestamp"][1][1]
    assert value is not None
    expected = datetime(2026, 11, 21, 6, 0, tzinfo=UTC).timestamp() * 1_000_000
    assert int.from_bytes(value.to_pybytes()[:8], "little") == expected


def test_columns_that_are_nothing():
    columns: dict[str, Any] = {
        name: pa.nulls(2)
        for name in ("routing_key", "exchange", "headers", "properties", "delay_ms", "deliver_at")
    }
    ((rows, parts),) = batches_in(table_of(body=["x", "y"], **columns))
    assert encode(rows, parts, exchange=b"e", body_bytes_max=9).exchanges == {b"e"}


def test_a_slice_is_read_where_it_begins():
    batch = pa.record_batch({"body": ["a", "b", "c"]}).slice(1)
    ((rows, parts),) = batches_in(stream_of(batch))
    assert rows == 2
    assert parts["body"][1][2].to_pybytes()[:2] == b"bc"  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["routing_key", "priority"])
def test_a_name_that_is_not_utf8_is_refused(name: str):
    properties = pa.array([{"priority": 1}], pa.struct([("priority", pa.int32())]))
    data = table_of(body=["x"], routing_key=["k"], properties=properties)
    with pytest.raises(BadTable, match="the name of a column, or of a property, is not UTF-8"):
        batches_in(data.replace(name.encode(), b"\xff" + name[1:].encode()))


def test_a_table_without_its_end_is_refused():
    data = table_of(body=["x"])
    with pytest.raises(BadTable, match="its end mark is missing"):
        batches_in(data[:-8])
    with pytest.raises(BadTable):
        batches_in(b"")
    with pytest.raises(BadTable, match="the body is JSON: an Arrow IPC stream is needed"):
        batches_in(b'{"routing_key": "q", "payload": "x"}')
    with pytest.raises(BadTable, match="not a sound Arrow IPC stream"):
        batches_in(b"not a table" + data[-8:])


def test_a_column_twice():
    batch = pa.RecordBatch.from_arrays([pa.array(["x"])] * 2, ["body", "body"])
    with pytest.raises(BadTable, match="twice"):
        batches_in(stream_of(batch))


# A buffer gives its memory back to its pool, which must outlive it.
POOLS: list[pa.MemoryPool] = []


@contextlib.contextmanager
def counting() -> Iterator[pa.MemoryPool]:
    """Count all memory that pyarrow takes."""
    before = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(before)
    POOLS.append(pool)
    pa.set_memory_pool(pool)
    try:
        yield pool
    finally:
        pa.set_memory_pool(before)


# pyarrow rounds up.
PADDING = 64


def taken_by(data: bytes, exchange: bytes = b"") -> tuple[int, int]:
    """What a table was to take at most, and what it took of pyarrow and of the engine.

    Raises:
        BadTable: it is refused.
        BadRow: a row is no message.
    """
    all_of_it = pa.default_memory_pool()
    before = all_of_it.bytes_allocated()
    elsewhere = 0
    rows = []
    with counting() as pool:
        plan = plan_table(data, len(exchange))
        assert pool.max_memory() == 0
        for count, parts in read_table(plan):
            # pyarrow decompresses into memory that no other pool can be had for.
            now = all_of_it.bytes_allocated() - before - pool.bytes_allocated()
            elsewhere = max(elsewhere, now)
            rows.append(encode(count, parts, exchange=exchange, body_bytes_max=2**40))
    batch = plan.batches[0]
    buffers = sum(len(part.sizes) for column in batch.columns for part in column.with_parts())
    return (
        plan.bytes + (buffers + 2) * 2 * PADDING,
        pool.max_memory() + elsewhere + sum(each.bytes for each in rows),
    )


def refused(data: bytes, limit: str | None = None) -> None:
    """A table is refused before anything is taken for it."""
    with counting() as pool, pytest.raises(BadTable, match=limit):
        batches_in(data)
    assert pool.max_memory() == 0


TEXT_KINDS = [
    *(pa.binary(), pa.large_binary(), pa.binary(3), pa.binary_view()),
    *(pa.string(), pa.large_string(), pa.string_view(), pa.null()),
]


def texts(kind: pa.DataType, count: int) -> pa.Array:
    return pa.nulls(count) if kind == pa.null() else pa.array(["abc"] * count).cast(kind)


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
@pytest.mark.parametrize("kind", TEXT_KINDS, ids=str)
def test_a_table_takes_no_more_than_was_counted(kind: pa.DataType, compression: str | None):
    many = 3000
    texts_of = texts(kind, many)
    columns = {
        "body": pa.array([b"x" * 9] * many, pa.binary()) if kind == pa.null() else texts_of,
        "routing_key": texts_of,
        "exchange": texts_of,
        "properties": pa.StructArray.from_arrays(
            [texts_of, texts_of, pa.array([1] * many, pa.uint8())],
            ["message_id", "app_id", "priority"],
        ),
        "delay_ms": pa.array([5.0] * many, pa.float32()),
    }
    if kind not in (pa.string_view(), pa.binary_view()):
        places = pa.array(range(many + 1), pa.int32())
        numbers = pa.array([123456789.25] * many)
        for values in (texts_of, numbers):
            columns["headers"] = pa.MapArray.from_arrays(places, texts(pa.string(), many), values)
            counted, took = taken_by(stream_of(pa.table(columns), compression=compression))
            assert took <= counted
    counted, took = taken_by(stream_of(pa.table(columns), compression=compression), b"e" * 99)
    assert took <= counted
    assert counted <= module.TABLE_BYTES_MAX + 1_000_000


def said(data: bytes, rows: int, instead: int) -> bytes:
    """A stream with another number of rows, and of values in each column."""
    return data.replace(struct.pack("<q", rows), struct.pack("<q", instead))


ROWS = 777


def without_width(kind: pa.DataType) -> pa.Array:
    """A column of so many rows that takes no place."""
    if kind == pa.null():
        return pa.nulls(ROWS)
    if kind == pa.binary(0):
        return pa.Array.from_buffers(kind, ROWS, [None, pa.py_buffer(b"")])
    children = [without_width(kind[at].type) for at in range(kind.num_fields)]
    return pa.Array.from_buffers(kind, ROWS, [None], children=children)


NOTHING = [
    *({"body": kind} for kind in (pa.null(), pa.binary(0))),
    *({"body": pa.binary(0), "routing_key": kind} for kind in (pa.null(), pa.binary(0))),
    *({"body": pa.binary(0), "exchange": kind} for kind in (pa.null(), pa.binary(0))),
    *({"body": pa.binary(0), "delay_ms": pa.null()}, {"body": pa.null(), "headers": pa.null()}),
    {"body": pa.binary(0), "properties": pa.null()},
    {"body": pa.binary(0), "properties": pa.struct([])},
    {"body": pa.binary(0), "properties": pa.struct([("priority", pa.null())])},
    {"body": pa.binary(0), "properties": pa.struct([("message_id", pa.binary(0))])},
]


@pytest.mark.parametrize("kinds", NOTHING, ids=lambda kinds: ",".join(map(str, kinds.values())))
@pytest.mark.parametrize("rows", [arrow_ipc.ROWS_MAX + 1, 8_400_000, 2**31 - 1, 2**62])
def test_rows_without_width_are_counted(kinds: dict[str, pa.DataType], rows: int):
    data = stream_of(pa.record_batch({name: without_width(kind) for name, kind in kinds.items()}))
    assert len(data) < 1000
    refused(said(data, ROWS, rows))
    fewer = said(data, ROWS, 100_000)
    if kinds["body"] == pa.null():
        with pytest.raises(BadRow, match="row 0: body is null"):
            taken_by(fewer)
    else:
        counted, took = taken_by(fewer)
        assert took <= counted <= 100_000 * 200


def test_rows_cost_memory_whatever_they_have(monkeypatch: pytest.MonkeyPatch):
    """The name of the exchange is in each, so that a longer one leaves room for fewer."""
    data = said(stream_of(pa.record_batch({"body": without_width(pa.binary(0))})), ROWS, 1_000_000)
    assert plan_table(data).rows == 1_000_000
    with pytest.raises(TableTooLarge, match=r"http_table_memory = 134217728\): send several"):
        plan_table(data, 255)


def test_headers_without_width_are_counted():
    """A map's pairs may be many more than rows, and take no place either."""
    nothing = pa.Array.from_buffers(pa.binary(0), ROWS, [None, pa.py_buffer(b"")])
    for values in (nothing, pa.nulls(ROWS)):
        headers = pa.MapArray.from_arrays(pa.array([0, ROWS], pa.int32()), nothing, values)
        data = stream_of(pa.record_batch({"body": pa.array(["x"]), "headers": headers}))
        data = data.replace(struct.pack("<ii", 0, ROWS), struct.pack("<ii", 0, 2**31 - 1))
        refused(said(data, ROWS, 2**31 - 1), "http_table_memory")


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.null()),
        pa.list_(pa.list_(pa.null())),
        pa.list_(pa.null(), 2**31 - 1),
        pa.large_list(pa.null()),
        pa.list_view(pa.null()),
        pa.struct([("x", pa.null())]),
        pa.map_(pa.string(), pa.null()),
        pa.map_(pa.string(), pa.struct([("x", pa.null())])),
        pa.map_(pa.string(), pa.list_(pa.null(), 1000)),
        pa.map_(pa.string(), pa.string_view()),
        pa.run_end_encoded(pa.int32(), pa.string()),
        pa.dense_union([pa.field("x", pa.null())]),
        pa.sparse_union([pa.field("x", pa.null())]),
        pa.dictionary(pa.int32(), pa.string()),
        pa.decimal128(5),
        pa.duration("s"),
        pa.time32("s"),
        pa.month_day_nano_interval(),
        pa.uuid(),
        pa.opaque(pa.list_(pa.null()), "type", "vendor"),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["body", "routing_key", "delay_ms", "headers", "properties"])
def test_types_that_no_column_has_are_refused_before_any_of_it_is_read(
    name: str, kind: pa.DataType, monkeypatch: pytest.MonkeyPatch
):
    if name == "headers" and kind == pa.map_(pa.string(), pa.null()):
        return
    fields = [pa.field("body", pa.binary())] if name != "body" else []
    sink = pa.BufferOutputStream()
    pa.ipc.new_stream(sink, pa.schema([*fields, pa.field(name, kind)])).close()
    monkeypatch.setattr(pa.ipc, "read_record_batch", never)
    if kind == pa.uuid() and name in ("body", "routing_key"):
        # An extension is what it is stored as.
        assert plan_table(sink.getvalue().to_pybytes()).rows == 0
        return
    with pytest.raises(BadTable, match=f"{name}|unknown property 'x'"):
        plan_table(sink.getvalue().to_pybytes())


def never(*_: Any) -> Any:
    pytest.fail("it was read")


def test_a_schema_cannot_name_an_extension():
    """What pyarrow makes of extensions' metadata is nothing for strangers."""
    deep = b"[" * 1_000_000
    names = {b"ARROW:extension:name": b"arrow.opaque", b"ARROW:extension:metadata": deep}
    schema = pa.schema([pa.field("body", pa.binary(), metadata=names)])
    batch = pa.record_batch([pa.array([b"x"])], schema=pa.schema([("body", pa.binary())]))
    sink = pa.BufferOutputStream()
    pa.ipc.new_stream(sink, schema).close()
    whole = stream_of(batch)
    opening = len(batch.schema.serialize())
    data = sink.getvalue().to_pybytes()[:-8] + whole[opening:]
    ((rows, parts),) = batches_in(data)
    assert rows == 1
    assert parts["body"][1][2].to_pybytes()[:1] == b"x"  # type: ignore[union-attr]


def small() -> pa.RecordBatch:
    """A row of every kind of column."""
    return pa.record_batch(
        {
            "body": pa.array([b"one", b"two"]),
            "routing_key": pa.array(["k", "a key that is longer than a view"], pa.string_view()),
            "exchange": pa.array([b"ab", None], pa.binary(2)),
            "headers": pa.array([[("a", "b"), ("c", None)], None], HEADERS_TYPE),
            "properties": pa.array([{"message_id": "m", "priority": 1}, None]),
            "delay_ms": pa.array([1.0, None], pa.float16()),
        }
    )


@pytest.mark.slow
@pytest.mark.parametrize("compression", [None, "lz4"])
def test_whatever_a_word_says_no_more_is_taken_than_was_counted(compression: str | None):
    data = stream_of(small(), compression=compression)
    assert len(batches_in(data)) == 1
    bad = read = 0
    with counting() as pool:
        for changed in overwritten(data, (0, 1, -1, 2**31 - 1, 2**31, 2**63 - 1)):
            try:
                counted, took = taken_by(changed)
            except (BadTable, BadRow):
                bad += 1
            else:
                read += 1
                assert took <= counted
    assert pool.max_memory() <= module.TABLE_BYTES_MAX
    assert bad > 1000
    assert read > 100


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_a_small_request_does_not_become_a_large_one(
    compression: str, monkeypatch: pytest.MonkeyPatch
):
    zeros = pa.record_batch({"body": [b"\0" * 100_000] * 10})
    data = stream_of(zeros, compression=compression)
    assert len(data) < 50_000
    assert batches_in(data)
    monkeypatch.setattr(module, "TABLE_BYTES_MAX", 500_000)
    monkeypatch.setattr(pa.ipc, "read_record_batch", never)
    with pytest.raises(TableTooLarge, match="http_table_memory = 500000"):
        batches_in(data)


def test_buffers_at_one_place_are_counted_as_often_as_they_are_read(
    monkeypatch: pytest.MonkeyPatch,
):
    """They take no memory, but each of them is looked through."""
    data = stream_of(pa.record_batch({"body": [b"x" * 10_000], "routing_key": ["k" * 10_000]}))
    (batch,) = plan_table(data).batches
    # Relative to the first buffer of the batch that has any bytes.
    starts = sorted(start for one in batch.columns for start, size in one.places if size)
    places = [struct.pack("<qq", start - starts[0], 10_000) for start in (starts[1], starts[3])]
    assert all(place in data for place in places)
    twice = data.replace(places[1], places[0])
    ((_, parts),) = batches_in(twice)
    assert parts["routing_key"][1][2].to_pybytes() == b"x" * 10_000  # type: ignore[union-attr]
    monkeypatch.setattr(module, "TABLE_BYTES_MAX", 19_000)
    refused(twice, "http_table_memory = 19000")


@pytest.mark.parametrize("compression", [None, "lz4"])
@pytest.mark.parametrize("name", ["body", "routing_key", "message_id"])
def test_views_of_the_same_bytes_are_not_copied_for_each(
    name: str, compression: str | None, monkeypatch: pytest.MonkeyPatch
):
    data = pa.py_buffer(b"x" * 100_000)
    views = pa.py_buffer(struct.pack("<i4sii", 100_000, b"xxxx", 0, 0) * 10)
    many = pa.Array.from_buffers(pa.string_view(), 10, [None, views, data])
    columns: dict[str, Any] = {"body": ["x"] * 10, name: many}
    if name == "message_id":
        columns = {"body": ["x"] * 10, "properties": pa.StructArray.from_arrays([many], [name])}
    made = stream_of(pa.record_batch(columns), compression=compression)
    assert len(batches_in(made)) == 1
    monkeypatch.setattr(module, "TABLE_BYTES_MAX", 500_000)
    with counting() as pool, pytest.raises(TableTooLarge, match="http_table_memory = 500000"):
        batches_in(made)
    # Views that are null may have any length.
    lying = struct.pack("<i4sii", -2_000_000, b"xxxx", 0, 0)
    views = pa.py_buffer(struct.pack("<i4sii", 100_000, b"xxxx", 0, 0) * 9 + lying)
    bits = pa.py_buffer(b"\xff\x01")
    many = pa.Array.from_buffers(pa.string_view(), 10, [bits, views, data], null_count=1)
    lying_data = table_of(body=many)
    with counting() as other, pytest.raises(TableTooLarge, match="http_table_memory = 500000"):
        batches_in(lying_data)
    # What was compressed is read to know its views, and no more.
    most = 0 if compression is None else 110_000
    assert pool.max_memory() <= most
    assert other.max_memory() == 0


def test_views_of_headers_are_not_read():
    headers = pa.map_(pa.string_view(), pa.string_view())
    with pytest.raises(BadTable, match="'headers' is map<string_view"):
        batches_in(table_of(body=["x"], headers=pa.array([[("a", "b")]], headers)))
