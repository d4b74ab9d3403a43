"""Messages as Arrow tables: the schema, and record batches around the engine's buffers.

Responsible for the types of the columns and for Arrow's IPC format. Must not know HTTP or streams.
It is the only module here that imports pyarrow as a whole, so without pyarrow it cannot be
imported: `management.surroundings` answers 501 then.

Invariants: a schema's columns stand in the order of `ORDER`, whatever order they were asked in,
and every batch of an answer has exactly the schema that opened it. What pyarrow does not use any
more is given back: its own pools keep what a large table took.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

# pyarrow's own allocator keeps what a large table took, for as long as nobody else asks it for that
# much. The C library's gives large blocks back to the kernel at once (`server.allocator`). Only
# before it is loaded this can be said to all of it.
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")

import pyarrow as pa

from leporid.engine.tables.arrow import COLUMNS, ENTRY_COLUMNS, PROPERTIES

_INSTANT: Final = pa.timestamp("us", tz="UTC")
_PROPERTY_TYPES: Final = {
    "delivery_mode": pa.int32(),
    "priority": pa.int32(),
    "timestamp": _INSTANT,
}
PROPERTIES_TYPE: Final = pa.struct(
    [pa.field(name, _PROPERTY_TYPES.get(name, pa.string())) for name in PROPERTIES]
)
HEADERS_TYPE: Final = pa.map_(pa.string(), pa.string())
TYPES: Final[Mapping[str, pa.DataType]] = {
    "stream": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": _INSTANT,
    "exchange": pa.string(),
    "routing_key": pa.string(),
    "properties": PROPERTIES_TYPE,
    "headers": HEADERS_TYPE,
    "body": pa.binary(),
    "headers_json": pa.string(),
    # Of queues only.
    "redelivered": pa.bool_(),
    "state": pa.string(),
}
ORDER: Final = (*COLUMNS, *ENTRY_COLUMNS)
# On request only, as it says once more what `headers` says.
DEFAULT_COLUMNS: Final = tuple(name for name in COLUMNS if name != "headers_json")

COMPRESSIONS: Final = ("none", "lz4", "zstd")


def schema_of(columns: Iterable[str], metadata: Mapping[str, str]) -> pa.Schema:
    """Return the schema of an answer that has these columns."""
    wanted = set(columns)
    fields = [pa.field(name, TYPES[name]) for name in ORDER if name in wanted]
    return pa.schema(fields, dict(metadata))


def batch_of(schema: pa.Schema, rows: int, columns: Sequence[Any]) -> pa.RecordBatch:
    """Wrap what `columns_of` built; nothing is copied."""
    arrays = [
        _array(field.type, rows, column) for field, column in zip(schema, columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(kind: pa.DataType, rows: int, column: Any) -> pa.Array:
    missing, buffers, children = column
    wrapped = [None if one is None else pa.py_buffer(one) for one in buffers]
    parts: list[pa.Array] = []
    if pa.types.is_map(kind):
        # The pairs have a length of their own, which only their keys' offsets tell.
        _, _, pairs = children[0]
        count = len(pairs[0][1][1]) // 4 - 1
        entry = pa.struct([kind.key_field, kind.item_field])
        parts = [_array(entry, count, children[0])]
    elif pa.types.is_struct(kind):
        parts = [_array(kind[at].type, rows, child) for at, child in enumerate(children)]
    return pa.Array.from_buffers(kind, rows, wrapped, missing, 0, parts)


class Encoder:
    """Writes batches of one schema in the IPC stream format, each as bytes of its own."""

    def __init__(self, schema: pa.Schema, compression: str = "none") -> None:
        self.schema = schema
        self.opening: bytes = schema.serialize().to_pybytes()
        self._options = None
        if compression != "none":
            self._options = pa.ipc.IpcWriteOptions(compression=compression)

    def without_rows(self) -> memoryview:
        """Return the message of a batch that has none."""
        return self.encode(pa.RecordBatch.from_pylist([], schema=self.schema))

    def encode(self, batch: pa.RecordBatch) -> memoryview:
        """Return one batch's message; any thread may."""
        if self._options is None:
            # Its size is known before, so it is written to its place at once.
            return memoryview(batch.serialize())
        sink = pa.BufferOutputStream()
        # A writer always writes the schema first; what comes after it is the message. Not closed,
        # because that would end the stream.
        writer = pa.ipc.new_stream(sink, self.schema, options=self._options)
        writer.write_batch(batch)
        return memoryview(sink.getvalue())[len(self.opening) :]
