"""Arrow in: a table that a client sends to be published.

An input is an IPC stream; its end mark is added, so that what comes before it is reached. One that
begins with COLUMNS has the columns themselves, past pyarrow's checks: the engine trusts no offset.
There follow the number of rows, 8 octets, and for each column, with SEPARATOR between them, which
one it is, its own number of rows, 2 octets, and its buffers with `|||` between them; `-` is none.

The refusals are `BadTable`, `BadRow`, `ValueError`, `MemoryError` and faults. What is published
must be what the columns say: a number of rows that adds up, and messages that the rules can take
apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa
from fuzz.world import MESSAGE_BYTES_MAX, World, defects_raised

from leporid.amqp.errors import Fault
from leporid.broker.settings.values import NUMBER_MAX
from leporid.engine.tables.arrow import PROPERTIES
from leporid.engine.tables.publisher import Publisher
from leporid.engine.tables.rows import BadRow, encode
from leporid.management.arrow_ipc import END_OF_STREAM, BadTable
from leporid.management.incoming import Parts, plan_table, read_table

COLUMNS: Final = b"COLUMNS"
SEPARATOR: Final = b"\xfe\xce"
_NAMES: Final = (
    *("body", "routing_key", "exchange", "delay_ms", "deliver_at", "properties"),
    *("headers", "headers.key", "headers.value"),
    *(f"properties.{name}" for name in PROPERTIES),
)
ROWS_AT_ONCE: Final = 256
# A request may have many rows of nothing; how many are made of one input is looked at, not all.
ROWS_PUBLISHED: Final = 4096


def one(data: bytes) -> None:
    """Read a table, encode it and publish it."""
    if data.startswith(COLUMNS):
        _publish_all([_columns(data[len(COLUMNS) :])])
        return
    if not data.endswith(END_OF_STREAM):
        data += END_OF_STREAM
    try:
        batches = list(read_table(plan_table(data)))
    except (BadTable, MemoryError):
        return
    _publish_all(batches)


def _columns(data: bytes) -> tuple[int, Parts]:
    """Columns of any octets."""
    columns: Parts = {}
    for part in data[8:].split(SEPARATOR):
        if len(part) < 3:
            continue
        name = _NAMES[part[0] % len(_NAMES)]
        # In memory of their own, so that a byte read too many is seen.
        buffers: list[Any] = [
            None if each == b"-" else bytearray(each) for each in part[3:].split(b"|||")
        ]
        columns[name] = int.from_bytes(part[1:3], "little"), buffers
    return int.from_bytes(data[:8], "little"), columns


def _publish_all(batches: list[tuple[int, Parts]]) -> None:
    with defects_raised():
        world = World()
        for name in ("q", "e"):
            world.vhost.create_queue(
                name, durable=False, auto_delete=False, arguments={}, owner=None
            )
        publisher = Publisher(
            world.engine.publishing, lambda name: world.vhost.exchange(name).routes
        )
        for rows, columns in batches:
            _publish(world, publisher, rows, columns)
        world.turn()


def _publish(world: World, publisher: Publisher, rows: int, columns: Any) -> None:
    try:
        encoded = encode(
            rows,
            columns,
            exchange=b"",
            user_id=b"guest",
            body_bytes_max=MESSAGE_BYTES_MAX,
            wall_ms=world.engine.clock.wall_ms,
        )
    except (BadRow, ValueError, MemoryError) as error:
        assert str(error)
        return
    assert len(encoded) == rows
    at = 0
    before = publisher.accepted + publisher.unroutable + publisher.refused
    try:
        while at < min(len(encoded), ROWS_PUBLISHED):
            at = publisher.publish(encoded, at, ROWS_AT_ONCE)
    except (Fault, UnicodeDecodeError):
        return
    assert publisher.accepted + publisher.unroutable + publisher.refused == before + at
    world.turn()


# ------------------------------------------------------------------ seeds


def _stream(*batches: pa.RecordBatch | pa.Table, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(
        sink, batches[0].schema, options=pa.ipc.IpcWriteOptions(**options)
    ) as writer:
        for batch in batches:
            writer.write(batch)
    made: bytes = sink.getvalue().to_pybytes()
    return made.removesuffix(END_OF_STREAM)


def _as_columns(data: bytes) -> bytes:
    """The same table as an input that begins with COLUMNS."""
    ((rows, columns),) = read_table(plan_table(data + END_OF_STREAM))
    parts = []
    for name, (own, buffers) in columns.items():
        octets = (b"-" if each is None else each.to_pybytes() for each in buffers)
        head = bytes((_NAMES.index(name),)) + own.to_bytes(2, "little")
        parts.append(head + b"|||".join(octets))
    return COLUMNS + rows.to_bytes(8, "little") + SEPARATOR.join(parts)


def seeds() -> Iterator[bytes]:
    """Tables with every column, in every type that is cast, with compression and without."""
    bodies = pa.array([b"one", b"two", b""], pa.binary())
    keys = pa.array(["q", "e", None], pa.string())
    headers = pa.array([[("a", "b")], None, [("x", None)]], pa.map_(pa.string(), pa.string()))
    properties = pa.array(
        [{"priority": 5, "message_id": "m"}, None, {"priority": None, "message_id": None}],
        pa.struct([("priority", pa.int32()), ("message_id", pa.string())]),
    )
    moments = pa.array([10**15, None, 2**62], pa.timestamp("us", tz="UTC"))
    columns = {
        "body": bodies,
        "routing_key": keys,
        "exchange": pa.array(["", "amq.fanout", None]),
        "headers": headers,
        "properties": properties,
    }
    whole = pa.table(columns)
    yield _stream(whole)
    yield _as_columns(_stream(whole))
    yield _as_columns(_stream(pa.table({**columns, "delay_ms": pa.array([1, None, 5])})))
    yield _as_columns(_stream(pa.table({**columns, "deliver_at": moments})))
    yield _stream(pa.table({**columns, "delay_ms": pa.array([1, None, NUMBER_MAX])}))
    yield _stream(pa.table({**columns, "deliver_at": moments}))
    for compression in ("lz4", "zstd"):
        yield _stream(whole, compression=compression)
    yield _stream(whole.slice(1), whole)
    for kind in (pa.large_binary(), pa.binary(3), pa.string_view(), pa.large_string(), pa.null()):
        values: list[Any] = [None] * 3 if kind == pa.null() else [b"abc", b"def", b"ghi"]
        if pa.types.is_string_view(kind) or pa.types.is_large_string(kind):
            values = ["abc", "def", "ghi"]
        yield _stream(pa.table({"body": pa.array(values, kind)}))
        yield _stream(pa.table({"body": bodies, "routing_key": pa.array(values, kind)}))
    yield _stream(pa.table({"body": pa.array([], pa.binary())}))
    yield _stream(pa.table({"body": pa.array(["a"]).dictionary_encode()}))
    nothing = pa.RecordBatch.from_arrays([pa.nulls(3)], names=["body"])
    yield _stream(nothing)
    for rows in (1, 100):
        yield _stream(pa.table({"body": pa.array([b""] * rows, pa.binary(0))}))
