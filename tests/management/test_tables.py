"""The schema of records, and their encoding."""

import pyarrow as pa
import pytest
from tests.engine.stream_world import World

from leporid.engine.tables.arrow import COLUMNS, columns_of
from leporid.management.arrow_ipc import END_OF_STREAM
from leporid.management.tables import DEFAULT_COLUMNS, Encoder, batch_of, schema_of


def test_the_schema_is_what_spark_expects():
    schema = schema_of(COLUMNS, {"leporid.from": "0"})
    assert schema.names == list(COLUMNS)
    assert all(field.nullable for field in schema)
    assert schema.field("timestamp").type == pa.timestamp("us", "UTC")
    assert schema.field("headers").type == pa.map_(pa.string(), pa.string())
    assert schema.field("properties").type.field("priority").type == pa.int32()
    assert schema.metadata == {b"leporid.from": b"0"}
    assert "headers_json" not in DEFAULT_COLUMNS


def test_columns_stand_in_their_order():
    assert schema_of(["body", "offset"], {}).names == ["offset", "body"]


@pytest.mark.parametrize("compression", ["none", "lz4", "zstd"])
def test_pieces_make_a_stream(compression: str):
    world = World()
    world.send(*[b"%d" % at for at in range(100)])
    world.sync()
    schema = schema_of(DEFAULT_COLUMNS, {})
    encoder = Encoder(schema, compression)
    pieces = [encoder.opening]
    for first in (0, 50):
        with world.stream.window(first, 100, 50, 10**6) as window:
            rows, columns = columns_of(window, schema.names, stream="s")
        pieces.append(bytes(encoder.encode(batch_of(schema, rows, columns))))
    table = pa.ipc.open_stream(b"".join(pieces) + END_OF_STREAM).read_all()
    table.validate(full=True)
    assert table["body"].to_pylist() == [b"%d" % at for at in range(100)]
    assert table["offset"].to_pylist() == list(range(100))
