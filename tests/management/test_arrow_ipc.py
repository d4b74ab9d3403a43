"""IPC streams that lie about themselves, and the limits of those that do not.

The streams are pyarrow's own, with words of them overwritten.
"""

from __future__ import annotations

import struct
import tracemalloc

import pyarrow as pa
import pytest
from tests.management.arrows import overwritten, stream_of, table_of

from leporid.management import arrow_ipc as module
from leporid.management.arrow_ipc import (
    END_OF_STREAM,
    BadTable,
    Batch,
    Field,
    TableTooLarge,
    read_stream,
)
from leporid.management.tables import HEADERS_TYPE

END = END_OF_STREAM


def fields_of(data: bytes) -> list[Field]:
    found: list[Field] = []
    read_stream(data, found.append)
    return found


def batches_of(data: bytes) -> list[Batch]:
    return read_stream(data, lambda field: None)


def without_batches(*fields: tuple[str, pa.DataType]) -> bytes:
    sink = pa.BufferOutputStream()
    pa.ipc.new_stream(sink, pa.schema(fields)).close()
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def full() -> pa.RecordBatch:
    """A small batch of every column that can be published."""
    return pa.record_batch(
        {
            "body": pa.array([b"one", None, b"three"]),
            "routing_key": pa.array(["k", "", None], pa.string_view()),
            "exchange": pa.array([b"ab", b"cd", None], pa.binary(2)),
            "headers": pa.array([[("a", "b"), ("c", None)], None, []], HEADERS_TYPE),
            "properties": pa.array([{"message_id": "m", "priority": 1}, None, {}]),
            "delay_ms": pa.nulls(3),
            "deliver_at": pa.array([1, None, 2], pa.timestamp("us", "UTC")),
        }
    )


def test_types_are_named_as_in_pyarrow():
    kinds = [
        *(pa.null(), pa.int8(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.bool_()),
        *(pa.binary(), pa.string(), pa.large_binary(), pa.large_string(), pa.binary(7)),
        *(pa.string_view(), pa.binary_view(), pa.timestamp("ns"), pa.map_(pa.string(), pa.int8())),
    ]
    columns = [(f"c{at}", kind) for at, kind in enumerate(kinds)]
    found = fields_of(without_batches(*columns))
    assert [str(field) for field in found] == [str(kind) for kind in kinds]
    assert [field.name for field in found] == [name for name, _ in columns]
    names = {
        pa.date32(): "date32",
        pa.date64(): "date64",
        pa.list_(pa.int8()): "list",
        pa.list_(pa.list_(pa.null())): "list",
        pa.list_(pa.int8(), 3): "fixed_size_list",
        pa.large_list(pa.int8()): "large_list",
        pa.list_view(pa.int8()): "list_view",
        pa.struct([("x", pa.null())]): "struct",
        pa.run_end_encoded(pa.int16(), pa.null()): "run_end_encoded",
        pa.dense_union([pa.field("x", pa.null())]): "union",
        pa.decimal128(5): "decimal",
        pa.duration("s"): "duration",
        pa.time64("us"): "time",
    }
    for kind, name in names.items():
        (field,) = fields_of(without_batches(("c", kind)))
        assert field.kind == name
    (field,) = fields_of(without_batches(("c", pa.timestamp("us", "Europe/Rome"))))
    assert field.zoned


def test_sizes_of_buffers():
    (batch,) = batches_of(stream_of(full()))
    assert batch.rows == 3
    body, key, exchange, headers, properties, delay, deliver = batch.columns
    assert body.sizes == [1, 16, 8]
    assert key.sizes[:2] == [1, 48]
    assert exchange.sizes == [1, 6]
    assert [part.rows for part in headers.with_parts()] == [3, 2, 2, 2]
    assert [part.field.name for part in properties.with_parts()][1:] == ["message_id", "priority"]
    assert delay.sizes == []
    assert deliver.sizes == [1, 24]


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_sizes_of_compressed_buffers_are_those_in_memory(codec: str):
    data = stream_of(pa.record_batch({"body": [b"\0" * 100_000], "x": ["y"]}), compression=codec)
    (batch,) = batches_of(data)
    assert len(data) < 2000
    assert batch.codec == codec
    assert [column.sizes for column in batch.columns] == [[0, 8, 100_000], [0, 8, 1]]


def test_batches_without_rows_are_left_out():
    batch = full()
    data = stream_of(batch.slice(0, 0), batch, batch.slice(0, 0), batch)
    found = batches_of(data)
    assert [each.rows for each in found] == [3, 3]
    for each in found:
        message = pa.ipc.read_message(data[each.start : each.end])
        assert pa.ipc.read_record_batch(message, batch.schema).equals(batch)


@pytest.mark.slow
def test_whatever_a_word_says_it_is_read_or_refused_within_bounds():
    """Each word is once a length, a place, a type, a count, for somebody."""
    data = stream_of(full().slice(0, 2))
    refused = 0
    tracemalloc.start()
    try:
        for changed in overwritten(data, (-1, 2**31 - 1, 2**63 - 1)):
            tracemalloc.reset_peak()
            before, _ = tracemalloc.get_traced_memory()
            try:
                batches_of(changed)
            except BadTable:
                refused += 1
            _, peak = tracemalloc.get_traced_memory()
            assert peak - before < 200_000
    finally:
        tracemalloc.stop()
    assert refused > 500


def test_a_field_that_is_its_own_child_is_followed_to_a_depth():
    data = without_batches(("x", pa.struct([("y", pa.null())])))
    for changed in overwritten(data, range(4, 200, 4)):
        try:
            for field in fields_of(changed):
                assert depth_of(field) <= module.DEPTH_MAX
        except BadTable:
            continue


def depth_of(field: Field) -> int:
    return 1 + max(map(depth_of, field.children), default=0)


def message(metadata: bytes, body: bytes = b"") -> bytes:
    return b"\xff\xff\xff\xff" + struct.pack("<i", len(metadata)) + metadata + body


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (END, "it has no schema"),
        (b"\0" * 8 + END, "there is no message at octet 0"),
        (message(b"")[:4] + struct.pack("<i", -8) + END, "-8 octets of metadata"),
        (message(b"")[:4] + struct.pack("<i", 2**31 - 1) + END, "2147483647 octets of metadata"),
        (message(b"\0" * 12) + END, "12 octets of metadata"),
        (message(b"\0" * 16) + END, "has no header"),
        (message(struct.pack("<Iq", 2**32 - 1, 0) + b"\0" * 4) + END, "leads out of its metadata"),
        (END + b"\0" * 8 + END, "goes on for 16 octets after its end mark"),
    ],
)
def test_what_is_no_stream(data: bytes, says: str):
    with pytest.raises(BadTable, match=says):
        batches_of(data)


def test_a_cut_stream_is_refused_wherever_it_is_cut():
    data = stream_of(full(), full())
    (_, second) = batches_of(data)
    for at in range(len(data)):
        with pytest.raises(BadTable):
            batches_of(data[:at])
        if at % 8 == 0 and second.start < at < second.end:
            with pytest.raises(BadTable):
                batches_of(data[:at] + END)


def schema_message(byte_order: int) -> bytes:
    """A schema without columns, as a flatbuffer by hand: layouts before their tables."""
    header = struct.pack("<HHHxxihxxxxxx", 6, 8, 4, 8, byte_order)
    return message(struct.pack("<IHHHHHHihBxI", 16, 12, 12, 4, 6, 8, 0, 12, 4, 1, 12) + header)


def test_what_is_not_read_is_said():
    with pytest.raises(BadTable, match="column 'c' is dictionary-encoded; cast it to string"):
        fields_of(table_of(c=pa.array(["x"]).dictionary_encode()))
    with pytest.raises(BadTable, match="column 'item' is dictionary-encoded"):
        fields_of(table_of(c=pa.array([["x"]], pa.list_(pa.dictionary(pa.int8(), pa.string())))))
    assert fields_of(schema_message(0) + END) == []
    with pytest.raises(BadTable, match="big-endian order: write them in little-endian"):
        fields_of(schema_message(1) + END)


def rows_said(data: bytes, rows: int, said: int) -> bytes:
    """A stream that says another number of rows wherever it says one."""
    return data.replace(struct.pack("<q", rows), struct.pack("<q", said))


def test_rows_of_all_batches_are_limited():
    """Rows take no place in a stream if their columns have no width."""
    batch = pa.record_batch({"body": pa.nulls(777)})
    data = rows_said(stream_of(batch), 777, 2**31 - 1)
    assert len(data) < 400
    for said, limit in ((2**31 - 1, True), (module.ROWS_MAX + 1, True), (module.ROWS_MAX, False)):
        changed = rows_said(stream_of(batch), 777, said)
        if limit:
            with pytest.raises(TableTooLarge, match="http_table_rows = 1000000"):
                batches_of(changed)
        else:
            assert batches_of(changed)[0].rows == said
    half = rows_said(stream_of(batch, batch, batch), 777, module.ROWS_MAX // 2)
    with pytest.raises(TableTooLarge) as caught:
        batches_of(half)
    assert (caught.value.limit, caught.value.value) == ("http_table_rows", module.ROWS_MAX)
    for said in (2**31, 2**63 - 1, -1):
        with pytest.raises(BadTable):
            batches_of(rows_said(stream_of(batch), 777, said))


def test_batches_columns_and_buffers_are_limited(monkeypatch: pytest.MonkeyPatch):
    batch = pa.record_batch({"body": ["x"]})
    assert len(batches_of(stream_of(*[batch] * module.BATCHES_MAX))) == module.BATCHES_MAX
    with pytest.raises(TableTooLarge, match="http_table_batches = 1024"):
        batches_of(stream_of(*[batch] * (module.BATCHES_MAX + 1)))
    many = [(f"c{at}", pa.int8()) for at in range(module.FIELDS_MAX)]
    assert len(fields_of(without_batches(*many))) == module.FIELDS_MAX
    with pytest.raises(TableTooLarge, match="http_table_columns = 64"):
        fields_of(without_batches(*many, ("one more", pa.int8())))
    wide = pa.struct([(f"c{at}", pa.int8()) for at in range(module.FIELDS_MAX)])
    with pytest.raises(TableTooLarge, match="http_table_columns = 64"):
        fields_of(without_batches(("c", wide)))
    monkeypatch.setattr(module, "BUFFERS_MAX", 6)
    assert len(batches_of(stream_of(batch, batch))) == 2
    with pytest.raises(TableTooLarge, match="http_table_buffers = 6"):
        batches_of(stream_of(batch, batch, batch))


def test_what_lies_deep_is_not_followed():
    kind = pa.null()
    for _ in range(60):
        kind = pa.list_(kind)
    (field,) = fields_of(without_batches(("c", kind)))
    assert depth_of(field) == module.DEPTH_MAX


def test_metadata_of_batches_are_limited():
    """pyarrow copies each pair, and many may be at one place."""
    batch = pa.record_batch({"body": ["x"]})

    def noted(notes: dict[str, str]) -> bytes:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch, custom_metadata=notes)
        return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]

    assert batches_of(noted({"a": "b" * 60_000}))
    with pytest.raises(TableTooLarge, match="http_table_notes_bytes = 65536"):
        batches_of(noted({"a": "b" * 66_000}))
    with pytest.raises(TableTooLarge, match="http_table_notes = 64"):
        batches_of(noted({str(at): "" for at in range(65)}))
    # Those of the schema are not read.
    assert batches_of(stream_of(batch.replace_schema_metadata({"a": "b" * 100_000})))
