"""Arrow IPC streams as clients send them: what they say they hold, before any of it is made.

Responsible for the framing of messages, for their flatbuffers, for the types of columns, and for
how many rows, columns, buffers and bytes there are. Must not know pyarrow, nor what a column is for
(`incoming`).

Invariants: each number is compared with the bytes that are there, or with a limit, before it is
used; what is made here grows with the batches, columns and buffers that were found, and with
nothing that a stream merely claims.

After Arrow's columnar format 1.5 with its Message.fbs and Schema.fbs, and the internals of
flatbuffers.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Final

# Ends an IPC stream: a continuation, and a length of nothing.
END_OF_STREAM: Final = b"\xff\xff\xff\xff\0\0\0\0"

# Each batch costs a quarter of a millisecond of a thread, however few rows it has.
BATCHES_MAX: Final = 1024
# Of the schema, with those inside of others: twice as many as can be published.
FIELDS_MAX: Final = 64
# Of a name, which is one of a few short ones.
NAME_BYTES: Final = 64
# Fields inside of each other: a map has pairs, and these have a key and a value. What is deeper is
# not looked at: its parent is of a type that cannot be published.
DEPTH_MAX: Final = 3
# Of all batches: 64 for each.
BUFFERS_MAX: Final = 64 * BATCHES_MAX
# A row costs memory even if no column has any width. A million small messages are 30 MB.
ROWS_MAX: Final = 1_000_000
# Pairs of names and values that a message has beside its columns; pyarrow copies each.
NOTES_MAX: Final = 64
NOTES_BYTES_MAX: Final = 64 * 1024

_VERSIONS: Final = (3, 4)  # V4 and V5, of Arrow 0.8 and 1.0
_SCHEMA: Final = 1
_DICTIONARY_BATCH: Final = 2
_RECORD_BATCH: Final = 3
_CODECS: Final = ("lz4", "zstd")
# In front of a compressed buffer stands its plain size, or this.
_NOT_COMPRESSED: Final = -1

# The union Type of Schema.fbs, in its order.
_TYPES: Final = (
    *("none", "null", "int", "float", "binary", "string", "bool", "decimal", "date", "time"),
    *("timestamp", "interval", "list", "struct", "union", "fixed_size_binary", "fixed_size_list"),
    *("map", "duration", "large_binary", "large_string", "large_list", "run_end_encoded"),
    *("binary_view", "string_view", "list_view", "large_list_view"),
)
_UNITS: Final = ("s", "ms", "us", "ns")
_FLOATS: Final = ("halffloat", "float", "double")
# Buffers of an array of a type, beside those of its children; a view has more.
_BUFFERS: Final = {
    "null": 0,
    "struct": 1,
    **dict.fromkeys(("binary", "string", "large_binary", "large_string"), 3),
}
VIEWS: Final = frozenset({"binary_view", "string_view"})


class BadTable(ValueError):
    """A table that cannot be published; the message says why, and what can be."""


class TableTooLarge(BadTable):
    """A table that is over a limit.

    Attributes:
        limit: the limit's name, by which refusals are counted.
        value: its value.
    """

    def __init__(self, limit: str, value: int, reason: str) -> None:
        super().__init__(f"{reason} ({limit} = {value}): send several")
        self.limit = limit
        self.value = value


@dataclass(frozen=True, slots=True)
class Field:
    """One column, or a part of one.

    Attributes:
        name: its name.
        kind: its type by pyarrow's name for it; `timestamp` and `fixed_size_binary` without more.
        width: octets of a fixed_size_binary.
        unit: of a timestamp.
        zoned: whether a timestamp has a time zone.
        children: its parts.
    """

    name: str
    kind: str
    width: int = 0
    unit: str = ""
    zoned: bool = False
    children: tuple[Field, ...] = ()

    def __str__(self) -> str:
        if self.kind == "map" and self.children:
            return f"map<{', '.join(str(part) for part in self.children[0].children)}>"
        if self.kind == "timestamp":
            return f"timestamp[{self.unit}]"
        return self.kind + (f"[{self.width}]" if self.kind == "fixed_size_binary" else "")


@dataclass(frozen=True, slots=True)
class Column:
    """A field in one batch.

    Attributes:
        field: what it is.
        rows: values, null ones among them.
        places: its buffers in the stream, (start, octets), as they stand there.
        sizes: of its buffers in memory, without compression.
        children: its parts.
    """

    field: Field
    rows: int
    places: list[tuple[int, int]]
    sizes: list[int]
    children: tuple[Column, ...] = ()

    def with_parts(self) -> Iterator[Column]:
        """Yield it and its parts."""
        yield self
        for child in self.children:
            yield from child.with_parts()


@dataclass(frozen=True, slots=True)
class Batch:
    """A record batch: where its message is in the stream, and what it has."""

    start: int
    end: int
    rows: int
    codec: str | None
    columns: tuple[Column, ...]


def read_stream(data: bytes | bytearray, check: Callable[[Field], None]) -> list[Batch]:
    """Return the batches of an IPC stream, without those that have no rows.

    Buffers are inside of the stream; whether they are large enough for their column is not known.

    Args:
        data: the stream.
        check: raises BadTable for a column that cannot be published.

    Raises:
        BadTable: it is none; or it has dictionaries, or a byte order that is not read.
        TableTooLarge: it is over a limit.
    """
    if data[:64].lstrip().startswith((b"{", b"[")):
        raise BadTable("the body is JSON: an Arrow IPC stream is needed")
    if not data.endswith(END_OF_STREAM):
        raise BadTable("the body is not a whole Arrow IPC stream: its end mark is missing")
    fields: tuple[Field, ...] | None = None
    batches: list[Batch] = []
    count = rows = buffers = 0
    for message in _messages(memoryview(data)):
        if fields is None:
            fields = _fields_of(message)
            for field in fields:
                check(field)
            continue
        count += 1
        if count > BATCHES_MAX:
            raise TableTooLarge("http_table_batches", BATCHES_MAX, "the table has too many batches")
        batch = _batch_of(message, fields, ROWS_MAX - rows, BUFFERS_MAX - buffers)
        rows += batch.rows
        buffers += sum(len(one.sizes) for column in batch.columns for one in column.with_parts())
        if batch.rows:
            batches.append(batch)
    if fields is None:
        raise _unsound("it has no schema")
    return batches


def _unsound(reason: str) -> BadTable:
    return BadTable(f"the body is not a sound Arrow IPC stream: {reason}")


# ------------------------------------------------------------------ flatbuffers


class _Table:
    """A table of a flatbuffer. A field that is not there has its default."""

    __slots__ = ("_at", "_data", "_slots", "_slots_at")

    def __init__(self, data: memoryview, at: int) -> None:
        self._data = data
        self._at = at
        self._slots_at = at - _number("<i", data, at)
        self._slots = (_number("<H", data, self._slots_at) - 4) // 2

    def _place(self, field: int) -> int:
        """Where a field is; 0: it is not there."""
        if field >= self._slots:
            return 0
        offset = _number("<H", self._data, self._slots_at + 4 + 2 * field)
        return self._at + offset if offset else 0

    def number(self, field: int, form: str, default: int = 0) -> int:
        """Return a number, in the format of `struct`."""
        at = self._place(field)
        return _number("<" + form, self._data, at) if at else default

    def table(self, field: int) -> _Table | None:
        """Return a table; None: it is not there."""
        at = self._place(field)
        return _Table(self._data, at + _number("<I", self._data, at)) if at else None

    def vector(self, field: int, item_bytes: int) -> memoryview:
        """Return the items of a vector, which has none if it is not there."""
        at = self._place(field)
        if not at:
            return self._data[:0]
        at += _number("<I", self._data, at)
        end = at + 4 + _number("<I", self._data, at) * item_bytes
        if end > len(self._data):
            raise _unsound(f"{end} octets of metadata are needed, and there are {len(self._data)}")
        return self._data[at + 4 : end]

    def tables(self, field: int) -> Iterator[_Table]:
        """Yield the tables of a vector."""
        vector = self.vector(field, 4)
        start = self._place(field)
        start += _number("<I", self._data, start) + 4 if start else 0
        for at in range(start, start + len(vector), 4):
            yield _Table(self._data, at + _number("<I", self._data, at))


def _number(form: str, data: memoryview, at: int) -> int:
    # A negative place would be counted from the end.
    if at < 0 or at + struct.calcsize(form) > len(data):
        raise _unsound("a reference leads out of its metadata")
    found: int = struct.unpack_from(form, data, at)[0]
    return found


# ------------------------------------------------------------------ messages


@dataclass(frozen=True, slots=True)
class _Message:
    kind: int
    header: _Table
    data: memoryview  # the whole stream
    start: int
    body: int
    end: int


def _messages(data: memoryview) -> Iterator[_Message]:
    """Yield the messages up to the end mark, which is the end of the data."""
    at = 0
    while True:
        if _number("<I", data, at) != 0xFFFFFFFF:
            raise _unsound(f"there is no message at octet {at}")
        size = _number("<i", data, at + 4)
        body = at + 8 + size
        if size == 0:
            if body != len(data):
                raise _unsound(f"it goes on for {len(data) - body} octets after its end mark")
            return
        if size < 0 or body > len(data) or body % 8:
            raise _unsound(f"a message at octet {at} has {size} octets of metadata")
        metadata = data[at + 8 : body]
        table = _Table(metadata, _number("<I", metadata, 0))
        length = table.number(3, "q")
        if not 0 <= length <= len(data) - body or length % 8:
            raise _unsound(f"a message at octet {at} has a body of {length} octets")
        header = table.table(2)
        if header is None:
            raise _unsound(f"a message at octet {at} has no header")
        if table.number(0, "h") not in _VERSIONS:
            raise _unsound("its metadata is of another version than V4 and V5")
        _check_notes(table)
        yield _Message(table.number(1, "B"), header, data, at, body, body + length)
        at = body + length


def _check_notes(message: _Table) -> None:
    """Several pairs may be at the same place, so that copies of them are larger than they are."""
    total = 0
    for number, pair in enumerate(message.tables(4)):
        total += len(pair.vector(0, 1)) + len(pair.vector(1, 1))
        if number >= NOTES_MAX:
            raise TableTooLarge(
                "http_table_notes", NOTES_MAX, "a batch has too many metadata of its own"
            )
        if total > NOTES_BYTES_MAX:
            reason = "a batch has too large metadata of its own"
            raise TableTooLarge("http_table_notes_bytes", NOTES_BYTES_MAX, reason)


# ------------------------------------------------------------------ the schema


def _fields_of(message: _Message) -> tuple[Field, ...]:
    schema = message.header
    if message.kind != _SCHEMA:
        raise _unsound("it does not begin with a schema")
    if schema.number(0, "h"):
        raise BadTable("the table has numbers in big-endian order: write them in little-endian")
    numbers = count(1)
    return tuple(_field_of(table, 1, numbers) for table in schema.tables(1))


def _field_of(table: _Table, depth: int, numbers: Iterator[int]) -> Field:
    """Return a column, with those in it; each takes a number."""
    if next(numbers) > FIELDS_MAX:
        raise TableTooLarge("http_table_columns", FIELDS_MAX, "the table has too many columns")
    name = _name_of(table)
    if table.table(4) is not None:
        raise BadTable(f"column {name!r} is dictionary-encoded; cast it to string")
    number = table.number(2, "B")
    kind = _TYPES[number] if number < len(_TYPES) else f"type {number}"
    inner = table.tables(5) if depth < DEPTH_MAX else ()
    children = tuple(_field_of(child, depth + 1, numbers) for child in inner)
    return _typed(name, kind, table.table(3), children)


def _name_of(field: _Table) -> str:
    """Return a name; of one that is too long for any column its start, for the message."""
    name = field.vector(0, 1)
    try:
        return str(name[:NAME_BYTES], "utf-8", "replace" if len(name) > NAME_BYTES else "strict")
    except UnicodeDecodeError:
        raise BadTable("the name of a column, or of a property, is not UTF-8") from None


def _typed(name: str, kind: str, given: _Table | None, children: tuple[Field, ...]) -> Field:
    """Complete a field by what its type has; a type that is not known here stays as it is."""

    def number(field: int, form: str, default: int = 0) -> int:
        return default if given is None else given.number(field, form, default)

    if kind == "int":
        kind = f"{'' if number(1, '?') else 'u'}int{number(0, 'i')}"
    elif kind == "float":
        precision = number(0, "h")
        kind = _FLOATS[precision] if 0 <= precision < len(_FLOATS) else "float of another size"
    elif kind == "date":
        kind = "date64" if number(0, "h", 1) else "date32"
    elif kind == "timestamp":
        unit = number(0, "h")
        if not 0 <= unit < len(_UNITS):
            raise _unsound(f"column {name!r} has a unit {unit} of time")
        zoned = given is not None and len(given.vector(1, 1)) > 0
        return Field(name, kind, unit=_UNITS[unit], zoned=zoned)
    elif kind == "fixed_size_binary":
        width = number(0, "i")
        if width < 0:
            raise _unsound(f"column {name!r} has values of {width} octets")
        return Field(name, kind, width)
    return Field(name, kind, children=children)


# ------------------------------------------------------------------ batches


def _batch_of(
    message: _Message, fields: tuple[Field, ...], rows_max: int, buffers_max: int
) -> Batch:
    header = message.header
    if message.kind == _DICTIONARY_BATCH:
        raise BadTable("the table has dictionaries; cast their columns to string")
    if message.kind != _RECORD_BATCH:
        raise _unsound(f"a message at octet {message.start} is no record batch")
    rows = header.number(0, "q")
    if rows < 0:
        raise _unsound(f"a batch has {rows} rows")
    if rows > rows_max:
        raise TableTooLarge("http_table_rows", ROWS_MAX, "the table has too many rows")
    codec = None
    compression = header.table(3)
    if compression is not None:
        number = compression.number(0, "b")
        if not 0 <= number < len(_CODECS) or compression.number(1, "b"):
            raise BadTable(f"the table is compressed in another way than {', '.join(_CODECS)}")
        codec = _CODECS[number]
    nodes = header.vector(1, 16)
    places = header.vector(2, 16)
    variadic = header.vector(4, 8)
    if len(places) // 16 > buffers_max:
        raise TableTooLarge("http_table_buffers", BUFFERS_MAX, "the table has too many buffers")
    # More than FIELDS_MAX nodes are refused before they are read.
    if len(nodes) // 16 > FIELDS_MAX or len(variadic) // 8 > FIELDS_MAX:
        raise _unsound("a batch has more columns than its schema")
    parts = _Parts(message, codec is not None, nodes, places, variadic)
    columns = tuple(parts.column(field) for field in fields)
    for column in columns:
        if column.rows != rows:
            raise _unsound(f"column {column.field.name!r} has {column.rows} of {rows} rows")
    parts.check_end()
    return Batch(message.start, message.end, rows, codec, columns)


class _Parts:
    """The nodes and buffers of a batch, taken by its columns in order."""

    def __init__(
        self,
        message: _Message,
        compressed: bool,
        nodes: memoryview,
        places: memoryview,
        variadic: memoryview,
    ) -> None:
        self._message = message
        self._compressed = compressed
        self._nodes = struct.iter_unpack("<qq", nodes)
        self._places = struct.iter_unpack("<qq", places)
        self._variadic = struct.iter_unpack("<q", variadic)

    def column(self, field: Field) -> Column:
        """Take what belongs to a field."""
        rows, nulls = next(self._nodes, (-1, 0))
        # Entries of maps are counted by who makes something of them.
        if not 0 <= nulls <= rows < 2**31:
            raise _unsound(f"column {field.name!r} has {rows} values, {nulls} of them null")
        wanted = _BUFFERS.get(field.kind, 2)
        if field.kind in VIEWS:
            (more,) = next(self._variadic, (-1,))
            if more < 0:
                raise _unsound(f"column {field.name!r} has {more} buffers")
            wanted += more
        places: list[tuple[int, int]] = []
        sizes: list[int] = []
        while len(places) < wanted:
            start, size = next(self._places, (-1, 0))
            sizes.append(self._size(field, start, size))
            places.append((self._message.body + start, size))
        children = tuple(self.column(child) for child in field.children)
        return Column(field, rows, places, sizes, children)

    def _size(self, field: Field, start: int, size: int) -> int:
        """Return what a buffer takes in memory."""
        message = self._message
        if start < 0 or size < 0 or start > message.end - message.body - size:
            raise _unsound(f"column {field.name!r} has a buffer outside of its message")
        if not self._compressed or not size:
            return size
        if size < 8:
            raise _unsound(f"column {field.name!r} has a compressed buffer of {size} octets")
        plain = _number("<q", message.data, message.body + start)
        if plain == _NOT_COMPRESSED:
            return size - 8
        if plain < 0:
            raise _unsound(f"column {field.name!r} has a buffer of {plain} octets")
        return plain

    def check_end(self) -> None:
        """Refuse what no column has taken."""
        if next(self._nodes, None) or next(self._places, None) or next(self._variadic, None):
            raise _unsound("a batch has more buffers than its columns")
