"""Arrow IPC streams as clients send them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def stream_of(*batches: pa.RecordBatch | pa.Table, compression: str | None = None) -> bytes:
    """Batches of one schema as an IPC stream."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, batches[0].schema, options=options) as writer:
        for batch in batches:
            writer.write(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def table_of(**columns: Any) -> bytes:
    """One batch of these columns."""
    return stream_of(pa.table(columns))
