"""Tables that clients send to be published: counted, checked, and taken apart for the engine.

Responsible for which columns there may be, for what a table takes of memory before any of that is
allocated, and for casting what means the same into the types the engine reads. Must not know HTTP,
exchanges or who sends, nor the format of the stream (`arrow_ipc`).

Invariants: pyarrow sees nothing of a stream that `plan_table` has refused, and of the others only
the batches, with a schema made here; what `read_table` yields was validated in full, and together
with the rows that the engine makes of it takes no more than `Plan.bytes`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from leporid.management.arrow_ipc import (
    VIEWS,
    BadTable,
    Batch,
    Column,
    Field,
    TableTooLarge,
    read_stream,
)
from leporid.management.parameters import COMPARED_MAX
from leporid.management.tables import HEADERS_TYPE, PROPERTIES_TYPE

# What one table may take beside its request: without compression, cast, and as encoded rows. Four
# times the largest request.
TABLE_BYTES_MAX: Final = 128 * 1024 * 1024
# Of a row, whatever its columns have: 32 for its place, and all that is not text in its names and
# its content header.
ROW_BYTES: Final = 96
# Of a header, beside its name and value.
HEADER_BYTES: Final = 8
# Of a number as text, which is what headers have.
NUMBER_TEXT_BYTES: Final = 32

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
_PROPERTIES: Final[Mapping[str, pa.DataType]] = {
    field.name: field.type for field in PROPERTIES_TYPE
}

# By their names here, types of one length that are cast.
_FIXED: Final[Mapping[str, pa.DataType]] = {
    **{str(kind): kind for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())},
    **{str(kind): kind for kind in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())},
    **{str(kind): kind for kind in (pa.float16(), pa.float32(), pa.float64())},
    "bool": pa.bool_(),
    "date32": pa.date32(),
    "date64": pa.date64(),
}
_TEXTS: Final[Mapping[str, pa.DataType]] = {
    str(kind): kind
    for kind in (
        *(pa.binary(), pa.string(), pa.large_binary(), pa.large_string()),
        *(pa.binary_view(), pa.string_view()),
    )
}
_WRITTEN: Final = {"null", "string", "large_string"}
_NUMBERS: Final = {*_FIXED, *_WRITTEN} - {"date32", "date64"}
_TIMES: Final = {"timestamp", "date32", "date64", "int64", *_WRITTEN}
_ANY_TEXT: Final = {"null", "fixed_size_binary", *_TEXTS}
_HEADER_TEXT: Final = (_ANY_TEXT - VIEWS) | (_NUMBERS - _WRITTEN)

# A column as `rows.encode` takes it: number of rows, buffers.
Parts = dict[str, tuple[int, list[pa.Buffer | None]]]


@dataclass(frozen=True, slots=True)
class Plan:
    """A table that can be read.

    Attributes:
        data: the IPC stream.
        batches: what it has.
        rows: in all batches.
        bytes: what `read_table` and the engine's rows take at most, beside the stream.
    """

    data: bytes | bytearray
    batches: list[Batch]
    rows: int
    bytes: int


def plan_table(data: bytes | bytearray, exchange_bytes: int = 0) -> Plan:
    """Look at an IPC stream and count what it takes, without making any of it.

    Args:
        data: the stream.
        exchange_bytes: the length of the name of the exchange of rows that name none.

    Raises:
        BadTable: it is no IPC stream, or not one that can be published.
        TableTooLarge: it is over a limit.
    """
    seen: set[str] = set()

    def check(field: Field) -> None:
        _check_column(field)
        if field.name in seen:
            raise BadTable(f"column {field.name!r} stands there twice")
        seen.add(field.name)

    batches = read_stream(data, check)
    if "body" not in seen:
        raise BadTable("column 'body' is missing")
    rows = sum(batch.rows for batch in batches)
    total = rows * (ROW_BYTES + exchange_bytes)
    # Buffers may be at the same place: reading all of them would take longer than their stream.
    stored = 0
    unknown = False
    for batch in batches:
        for column in batch.columns:
            shown = _shown_bytes(data, batch, column)
            unknown |= shown is None
            total += _bytes_of(column, batch.codec is not None, shown or 0)
            stored += sum(sum(part.sizes) for part in column.with_parts())
        if max(total, stored) > TABLE_BYTES_MAX:
            raise _too_large()
    return Plan(data, batches, rows, TABLE_BYTES_MAX if unknown else total)


def _too_large() -> TableTooLarge:
    return TableTooLarge("http_table_memory", TABLE_BYTES_MAX, "the table takes too much memory")


def read_table(plan: Plan) -> Iterator[tuple[int, Parts]]:
    """Yield the number of rows and the columns of each batch.

    Raises:
        BadTable: a batch is not sound, or a value cannot be cast.
        TableTooLarge: its views show more than there is memory for.
    """
    stream = pa.py_buffer(plan.data)
    left = TABLE_BYTES_MAX
    for batch in plan.batches:
        schema = pa.schema([(one.field.name, _type_of(one.field)) for one in batch.columns])
        try:
            message = stream.slice(batch.start, batch.end - batch.start)
            read = pa.ipc.read_record_batch(message, schema)
            read.validate(full=True)
            for name in schema.names:
                left -= 2 * _bytes_of_views(read.column(name))
            if left < 0:
                raise _too_large()
            yield batch.rows, _parts_of(read)
        except (pa.ArrowException, OSError) as error:
            reason = f"the body is not a sound Arrow IPC stream: {error}"
            raise BadTable(reason) from None


# ------------------------------------------------------------------ which columns there may be


def _check_column(field: Field) -> None:
    if field.name in _SIMPLE:
        _check_kind(field.name, field, _ANY_TEXT, _SIMPLE[field.name])
    elif field.name in _MOMENTS:
        kinds = _NUMBERS if field.name == "delay_ms" else _TIMES
        _check_kind(field.name, field, kinds, _MOMENTS[field.name])
    elif field.name == "headers":
        if field.kind != "null" and not _is_map_of_texts(field):
            raise BadTable(f"column 'headers' is {field} and must be {HEADERS_TYPE}")
    elif field.name == "properties":
        _check_properties(field)
    else:
        raise BadTable(_unknown("column", field.name, PUBLISH_COLUMNS))


def _check_kind(name: str, field: Field, kinds: Iterable[str], wanted: pa.DataType) -> None:
    if field.kind not in kinds:
        raise BadTable(f"column {name!r} is {field} and must be {wanted}")


def _is_map_of_texts(field: Field) -> bool:
    if field.kind != "map" or len(field.children) != 1 or field.children[0].kind != "struct":
        return False
    parts = field.children[0].children
    return len(parts) == 2 and all(part.kind in _HEADER_TEXT for part in parts)


def _check_properties(field: Field) -> None:
    if field.kind not in ("struct", "null"):
        raise BadTable(f"column 'properties' must be a struct, not {field}")
    seen: set[str] = set()
    for part in field.children:
        if part.name not in _PROPERTIES:
            raise BadTable(_unknown("property", part.name, _PROPERTIES))
        if part.name in seen:
            raise BadTable(f"property {part.name!r} stands there twice")
        seen.add(part.name)
        wanted = _PROPERTIES[part.name]
        numbers = _TIMES if pa.types.is_timestamp(wanted) else _NUMBERS
        kinds = _ANY_TEXT if pa.types.is_string(wanted) else numbers
        _check_kind(f"properties.{part.name}", part, kinds, wanted)


def _unknown(what: str, name: str, known: Iterable[str]) -> str:
    name = name[:COMPARED_MAX]  # it may have megabytes
    near = difflib.get_close_matches(name, list(known), n=1)
    hint = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(known)}"
    return f"unknown {what} {name!r}{hint}"


def _type_of(field: Field) -> pa.DataType:
    """Return pyarrow's type of a field that was checked; one zone is as good as another."""
    if field.kind == "timestamp":
        return pa.timestamp(field.unit, "UTC" if field.zoned else None)
    if field.kind == "fixed_size_binary":
        return pa.binary(field.width)
    if field.kind == "struct":
        return pa.struct([(part.name, _type_of(part)) for part in field.children])
    if field.kind == "map":
        return pa.map_(*(_type_of(part) for part in field.children[0].children))
    if field.kind == "null":
        return pa.null()
    return _TEXTS.get(field.kind) or _FIXED[field.kind]


# ------------------------------------------------------------------ what it takes


def _bytes_of(column: Column, compressed: bool, shown: int) -> int:
    """Return what a column takes: without compression, cast, and in encoded rows.

    Args:
        column: the column.
        compressed: whether its buffers are.
        shown: what its views show.
    """
    plain = sum(sum(part.sizes) for part in column.with_parts()) if compressed else 0
    if column.field.name == "body":
        return plain + _cast_bytes(column, "binary") + shown
    # What views show is cast and then encoded.
    total = plain + 2 * shown
    if column.field.kind == "map":
        (pairs,) = column.children
        total += pairs.rows * HEADER_BYTES
        for part in pairs.children:
            if part.field.kind in _FIXED:
                total += part.rows * 2 * NUMBER_TEXT_BYTES
    return total + sum(
        _cast_bytes(part, "string") + _text_bytes(part) for part in column.with_parts()
    )


def _cast_bytes(part: Column, wanted: str) -> int:
    """Return what casting takes at most: offsets or numbers, null bits, and text that is copied."""
    kind = part.field.kind
    if kind in ("null", "struct", "map", wanted):
        return 0
    copied = part.field.width * part.rows if kind == "fixed_size_binary" else 0
    return 9 * (part.rows + 1) + copied


def _text_bytes(part: Column) -> int:
    """Return how long the texts of a column are together, at most; views are counted elsewhere."""
    if part.field.kind == "fixed_size_binary":
        return part.field.width * part.rows
    return part.sizes[2] if part.field.kind in _TEXTS and part.field.kind not in VIEWS else 0


def _shown_bytes(data: bytes | bytearray, batch: Batch, column: Column) -> int | None:
    """Return what the views of a column show, None if they are compressed.

    Many views may show the same bytes, which a cast would copy for each.
    """
    total = 0
    for part in column.with_parts():
        if part.field.kind in VIEWS:
            if batch.codec is not None:
                return None
            start, size = part.places[1]
            total += _sum_of_views(memoryview(data)[start : start + size], part.rows)
    return total


def _bytes_of_views(array: pa.Array) -> int:
    if pa.types.is_struct(array.type):
        return sum(_bytes_of_views(array.field(at)) for at in range(array.type.num_fields))
    if str(array.type) not in VIEWS or not len(array):
        return 0
    return _sum_of_views(memoryview(array.buffers()[1]), len(array))


def _sum_of_views(views: memoryview, rows: int) -> int:
    """Add up the lengths of views, of which some may be null and have any."""
    whole = views[: min(rows * 16, len(views)) // 16 * 16].cast("i")
    return sum(length for length in whole[::4] if length > 0)


# ------------------------------------------------------------------ columns


def _parts_of(batch: pa.RecordBatch) -> Parts:
    parts: Parts = {}
    for name in batch.schema.names:
        column = batch.column(name)
        if pa.types.is_null(column.type):
            continue  # as if it were not there
        if name in _SIMPLE:
            parts[name] = _part(_cast(name, column, _SIMPLE[name]))
        elif name in _MOMENTS:
            parts[name] = _part(_cast(name, column, _MOMENTS[name]))
        elif name == "headers":
            headers = _cast(name, column, HEADERS_TYPE)
            parts[name] = len(headers), headers.buffers()[:2]
            parts["headers.key"] = _part(_whole(headers.keys))
            parts["headers.value"] = _part(_whole(headers.items))
        else:
            parts |= _properties(column)
    return parts


def _properties(column: pa.Array) -> Parts:
    parts: Parts = {"properties": (len(column), column.buffers()[:1])}
    for at, field in enumerate(column.type):
        if not pa.types.is_null(field.type):
            name = f"properties.{field.name}"
            parts[name] = _part(_cast(name, column.field(at), _PROPERTIES[field.name]))
    return parts


def _part(array: pa.Array) -> tuple[int, list[pa.Buffer | None]]:
    return len(array), array.buffers()


def _whole(array: pa.Array) -> pa.Array:
    """The array without an offset into its buffers."""
    return pa.concat_arrays([array]) if array.offset else array


def _cast(name: str, array: pa.Array, kind: pa.DataType) -> pa.Array:
    if array.type == kind:
        return array
    # Nanoseconds are cut: AMQP has seconds.
    safe = not (pa.types.is_timestamp(array.type) and array.type.unit == "ns")
    try:
        return _whole(array.cast(kind, safe=safe))
    except pa.ArrowException as error:
        raise BadTable(f"column {name!r} is {array.type} and must be {kind}: {error}") from None
