"""Tables that clients send to be published: checked, and taken apart for the engine.

Responsible for refusing what is not an Arrow IPC stream of the right columns, before anything is
published, and for casting what means the same into the types the engine reads. Must not know HTTP,
exchanges or who sends.

Invariant: what `read_table` returns was validated in full, and no compression makes a request
larger in memory than `DECODED_BYTES_MAX`.
"""

from __future__ import annotations

import difflib
import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from leporid.management.tables import END_OF_STREAM, HEADERS_TYPE, PROPERTIES_TYPE

# A request of 64 MiB that was compressed; who has more to say sends more requests.
DECODED_BYTES_MAX: Final = 256 * 1024 * 1024

_SIMPLE: Final[Mapping[str, pa.DataType]] = {
    "body": pa.binary(),
    "routing_key": pa.string(),
    "exchange": pa.string(),
}
_MOMENTS: Final[Mapping[str, pa.DataType]] = {
    "delay_ms": pa.int64(),
    "deliver_at": PROPERTIES_TYPE.field("timestamp").type,
}
PUBLISH_COLUMNS: Final = (*_SIMPLE, "headers", "properties", *_MOMENTS)

# A column as `rows.encode` takes it: number of rows, buffers.
Parts = dict[str, tuple[int, list[pa.Buffer | None]]]


class BadTable(ValueError):
    """A table that cannot be published; the message says why, and what can be."""


class TableTooLarge(BadTable):
    """It would take more memory than a request may."""


def read_table(data: bytes) -> list[tuple[int, Parts]]:
    """Read an IPC stream: the number of rows and the columns of each batch.

    Raises:
        BadTable: it is not one, or not one that can be published.
    """
    if data.lstrip().startswith((b"{", b"[")):
        raise BadTable("the body is JSON: an Arrow IPC stream is needed")
    if not data.endswith(END_OF_STREAM):
        raise BadTable("the body is not a whole Arrow IPC stream: its end mark is missing")
    buffer = pa.py_buffer(data)
    try:
        _check_size(buffer)
        with pa.ipc.open_stream(buffer) as reader:
            _check_schema(reader.schema)
            batches = list(reader)
        for batch in batches:
            batch.validate(full=True)
        return [(batch.num_rows, _parts_of(batch)) for batch in batches if batch.num_rows]
    except (pa.ArrowException, struct.error, OSError) as error:
        raise BadTable(f"the body is not a sound Arrow IPC stream: {error}") from None


def _check_schema(schema: pa.Schema) -> None:
    seen: set[str] = set()
    for field in schema:
        if field.name not in PUBLISH_COLUMNS:
            raise BadTable(_unknown("column", field.name, PUBLISH_COLUMNS))
        if field.name in seen:
            raise BadTable(f"column {field.name!r} stands there twice")
        seen.add(field.name)
        if pa.types.is_dictionary(field.type):
            raise BadTable(f"column {field.name!r} is dictionary-encoded; cast it to string")
    if "body" not in seen:
        raise BadTable("column 'body' is missing")


def _unknown(what: str, name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    hint = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(known)}"
    return f"unknown {what} {name!r}{hint}"


# ------------------------------------------------------------------ columns


def _parts_of(batch: pa.RecordBatch) -> Parts:
    parts: Parts = {}
    for name in batch.schema.names:
        column = _whole(batch.column(name))
        if name in _SIMPLE:
            parts[name] = _part(_cast(name, column, _SIMPLE[name]))
        elif name in _MOMENTS:
            parts[name] = _part(_cast(name, column, _MOMENTS[name]))
        elif name == "headers" and not pa.types.is_null(column.type):
            headers = _cast(name, column, HEADERS_TYPE)
            parts[name] = len(headers), headers.buffers()[:2]
            parts["headers.key"] = _part(_whole(headers.keys))
            parts["headers.value"] = _part(_whole(headers.items))
        elif name == "properties" and not pa.types.is_null(column.type):
            parts |= _properties(column)
    return parts


def _properties(column: pa.Array) -> Parts:
    if not pa.types.is_struct(column.type):
        raise BadTable(f"column 'properties' must be a struct, not {column.type}")
    parts: Parts = {"properties": (len(column), column.buffers()[:1])}
    known = [field.name for field in PROPERTIES_TYPE]
    for at, field in enumerate(column.type):
        if field.name not in known:
            raise BadTable(_unknown("property", field.name, known))
        name = f"properties.{field.name}"
        if name in parts:
            raise BadTable(f"property {field.name!r} stands there twice")
        parts[name] = _part(
            _cast(name, _whole(column.field(at)), PROPERTIES_TYPE.field(field.name).type)
        )
    return parts


def _part(array: pa.Array) -> tuple[int, list[pa.Buffer | None]]:
    return len(array), array.buffers()


def _whole(array: pa.Array) -> pa.Array:
    """The array without an offset into its buffers."""
    return pa.concat_arrays([array]) if array.offset else array


def _cast(name: str, array: pa.Array, kind: pa.DataType) -> pa.Array:
    if array.type == kind:
        return array
    texts = pa.types.is_string(kind) or pa.types.is_binary(kind)
    if texts and not _is_text(array.type):
        raise BadTable(f"column {name!r} is {array.type} and must be {kind}")
    if _is_view(array.type):
        _check_views(name, array)
    if pa.types.is_map(array.type) and (
        _is_view(array.type.key_type) or _is_view(array.type.item_type)
    ):
        raise BadTable(f"column {name!r} is {array.type} and must be {kind}")
    # Nanoseconds are cut: AMQP has seconds.
    safe = not (pa.types.is_timestamp(array.type) and array.type.unit == "ns")
    try:
        return _whole(array.cast(kind, safe=safe))
    except pa.ArrowException as error:
        raise BadTable(f"column {name!r} is {array.type} and must be {kind}: {error}") from None


def _is_text(kind: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_null(kind)
        or types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
        or types.is_fixed_size_binary(kind)
        or _is_view(kind)
    )


def _is_view(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string_view(kind) or pa.types.is_binary_view(kind))


def _check_views(name: str, array: pa.Array) -> None:
    """Many views may show the same bytes, which a cast would copy for each."""
    views = array.buffers()[1]
    total = (
        0
        if views is None
        else sum(struct.unpack_from("<i12x", views, at)[0] for at in range(0, 16 * len(array), 16))
    )
    if total > DECODED_BYTES_MAX:
        raise TableTooLarge(f"column {name!r} has {total} bytes; at most {DECODED_BYTES_MAX}")


# ------------------------------------------------------------------ compressed buffers

# In Arrow's Message.fbs and Schema.fbs.
_DICTIONARY_BATCH: Final = 2
_RECORD_BATCH: Final = 3
_NOT_COMPRESSED: Final = -1


def _check_size(data: pa.Buffer) -> None:
    """Add up what the buffers say they are without compression, before any is decompressed."""
    total = 0
    for message in _messages(data):
        total += _decoded_bytes(memoryview(message.metadata), message.body)
        if total > DECODED_BYTES_MAX:
            raise TableTooLarge(f"the table has more than {DECODED_BYTES_MAX} bytes")


def _messages(data: pa.Buffer) -> Iterator[Any]:
    reader = pa.ipc.MessageReader.open_stream(data)
    while True:
        try:
            yield reader.read_next_message()
        except StopIteration:
            return


def _decoded_bytes(metadata: memoryview, body: pa.Buffer | None) -> int:
    """What one message's buffers take in memory."""
    if body is None:
        return 0
    content = bytes(body) if body.size < 8 else memoryview(body)
    message = struct.unpack_from("<I", metadata, 0)[0]
    kind_at = _field(metadata, message, 1)
    kind = metadata[kind_at] if kind_at else 0
    batch = _follow(metadata, _field(metadata, message, 2))
    if kind == _DICTIONARY_BATCH:
        batch = _follow(metadata, _field(metadata, batch, 1)) if batch else 0
    elif kind != _RECORD_BATCH:
        return len(content)
    compressed = _field(metadata, batch, 3) if batch else 0
    if not compressed:
        return len(content)
    buffers = _follow(metadata, _field(metadata, batch, 2))
    total = 0
    for at in range(struct.unpack_from("<I", metadata, buffers)[0] if buffers else 0):
        start, size = struct.unpack_from("<qq", metadata, buffers + 4 + 16 * at)
        if size >= 8:
            plain = struct.unpack_from("<q", content, start)[0]
            total += size if plain == _NOT_COMPRESSED else max(plain, 0)
    return total


def _field(data: memoryview, table: int, number: int) -> int:
    """Where a field of a flatbuffers table is; 0: it is not there."""
    vtable = table - struct.unpack_from("<i", data, table)[0]
    if vtable < 0:
        raise struct.error("a table's layout lies outside")
    if 4 + 2 * number >= struct.unpack_from("<H", data, vtable)[0]:
        return 0
    offset: int = struct.unpack_from("<H", data, vtable + 4 + 2 * number)[0]
    return table + offset if offset else 0


def _follow(data: memoryview, at: int) -> int:
    """Where the reference at `at` leads."""
    return at + int(struct.unpack_from("<I", data, at)[0]) if at else 0
