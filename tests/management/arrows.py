"""Arrow IPC streams as clients send them."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from leporid.management.incoming import Parts, plan_table, read_table


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


def batches_in(data: bytes) -> list[tuple[int, Parts]]:
    """What the engine is given of an IPC stream."""
    return list(read_table(plan_table(data)))


def overwritten(data: bytes, words: Iterable[int]) -> Iterator[bytes]:
    """A stream with each of its words, of 32 and of 64 bits, overwritten, but for its end mark."""
    forms = [("<q", 8, 2**64), ("<i", 4, 2**32)]
    changes = [
        (size, struct.pack(form, (word + range_ // 2) % range_ - range_ // 2))
        for word in words
        for form, size, range_ in forms
        if -range_ // 2 <= word < range_
    ]
    for at in range(0, len(data) - 8, 4):
        for size, change in changes:
            if at + size <= len(data) - 8:
                yield data[:at] + change + data[at + size :]
