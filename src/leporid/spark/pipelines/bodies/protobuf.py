"""Bodies in Protocol Buffers: a message's fields as columns.

The message of the columns decodes all bodies: fields have numbers, so a body of an older or a newer
schema is read with it, and what it does not know is left out. A body's own schema only says which
message it is. Columns are made one after the other, as a message holds its fields in C.

Types are those of Spark's `from_protobuf`, but unsigned numbers, which do not become negative here.
Fields of proto3 without presence have their default when they are absent, as the format says.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    duration_pb2,
    empty_pb2,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from leporid.spark.errors import OptionError
from leporid.spark.pipelines.bodies.columns import said, shaped
from leporid.spark.pipelines.bodies.schemas import MissingSchemaError, Schema
from leporid.spark.pipelines.decoding import written

KINDS = {
    FieldDescriptor.CPPTYPE_INT32: "int",
    FieldDescriptor.CPPTYPE_INT64: "bigint",
    FieldDescriptor.CPPTYPE_UINT32: "bigint",
    FieldDescriptor.CPPTYPE_UINT64: "decimal(20,0)",
    FieldDescriptor.CPPTYPE_DOUBLE: "double",
    FieldDescriptor.CPPTYPE_FLOAT: "float",
    FieldDescriptor.CPPTYPE_BOOL: "boolean",
    FieldDescriptor.CPPTYPE_ENUM: "string",
}
TIMESTAMP = "google.protobuf.Timestamp"

# What every program of Google's has without saying so.
KNOWN = {
    each.DESCRIPTOR.name: each.DESCRIPTOR.serialized_pb
    for each in (
        any_pb2, descriptor_pb2, duration_pb2, empty_pb2, struct_pb2, timestamp_pb2, wrappers_pb2,
    )
}  # fmt: skip

# Elements of lists that Python has in hand at once. With a million messages, the library's table of
# those takes minutes, and a body of two megabytes has as many.
ELEMENTS_AT_ONCE = 10_000

# A body says which message it is by a path of so many steps at most.
PATH_MAX = 16


def files_of(schema: Schema) -> list[Any]:
    """Return the files of a schema, each after those that it imports; the last is its own."""
    found = [file for name, each in schema.references for file in _named(each, name)]
    return [*found, *_own(schema)]


def _named(schema: Schema, name: str) -> list[Any]:
    """Return a reference's files; a registry calls the last as the import does, or not at all."""
    files = files_of(schema)
    files[-1].name = name
    return files


def _own(schema: Schema) -> list[Any]:
    # Both have a field 1: of the one a file, of the other its name.
    try:
        several = descriptor_pb2.FileDescriptorSet.FromString(schema.content)
        if several.file and all(each.name and not each.name.isspace() for each in several.file):
            return list(several.file)
    except DecodeError:
        pass
    try:
        one = descriptor_pb2.FileDescriptorProto.FromString(schema.content)
    except DecodeError as error:
        raise OptionError(f"schema {schema.name} is no descriptor: {said(error)}") from None
    one.name = one.name or f"{schema.name}.proto"
    return [one]


def pool_of(schema: Schema) -> tuple[DescriptorPool, Any]:
    """Return a schema's types, and its own file as it was written.

    Raises:
        OptionError: it is none.
    """
    files = files_of(schema)
    if not files:
        raise OptionError(f"schema {schema.name} has no file")
    pool = DescriptorPool()
    there = {each.name for each in files}
    try:
        for name, content in KNOWN.items():
            if name not in there:
                pool.AddSerializedFile(content)
        seen: set[str] = set()
        for each in files:
            if each.name not in seen:
                pool.AddSerializedFile(each.SerializeToString())
            seen.add(each.name)
        pool.FindFileByName(files[-1].name)
        return pool, files[-1]
    except (TypeError, KeyError, ValueError) as error:
        raise OptionError(f"schema {schema.name} is no descriptor: {said(error)}") from None


def message_of(schema: Schema, path: Sequence[int] = (0,), name: str = "") -> Descriptor:
    """Return a message of a schema: by name, or the first of the path's numbers.

    Raises:
        OptionError: there is none.
    """
    pool, file = pool_of(schema)
    try:
        if name:
            return pool.FindMessageTypeByName(name)
        found = file.message_type[path[0]]
        names = [found.name]
        for step in path[1:]:
            found = found.nested_type[step]
            names.append(found.name)
        package = [file.package] if file.package else []
        return pool.FindMessageTypeByName(".".join([*package, *names]))
    except (KeyError, IndexError):
        what = repr(name) if name else f"of number {'.'.join(map(str, path))}"
        raise OptionError(f"schema {schema.name} has no message {what}") from None


def columns_of(message: Descriptor, within: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the columns of a message, as `evolution.read` has them.

    Raises:
        OptionError: it is recursive.
    """
    if message.full_name in within:
        raise OptionError(f"message {message.full_name} is recursive: it has no end as columns")
    inner = (*within, message.full_name)
    return {field.name: _kind(field, inner) for field in message.fields}


def _kind(field: FieldDescriptor, within: tuple[str, ...]) -> Any:
    if is_map(field):
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        return f"map<{_one(key, within)},{written(_one(value, within))}>"
    one = _one(field, within)
    return [one] if field.is_repeated else one


def _one(field: FieldDescriptor, within: tuple[str, ...]) -> Any:
    if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        if field.message_type.full_name == TIMESTAMP:
            return "timestamp"
        return columns_of(field.message_type, within)
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return "binary" if field.type == FieldDescriptor.TYPE_BYTES else "string"
    return KINDS[field.cpp_type]


def is_map(field: FieldDescriptor) -> bool:
    """Whether a field is a map, which is written as repeated entries."""
    kind = field.message_type
    return kind is not None and bool(kind.GetOptions().map_entry) and field.is_repeated


class ProtobufDecoder:
    """Decodes bodies of one message."""

    def __init__(self, message: Descriptor, columns: pa.StructType) -> None:
        self.message = message
        self._class = GetMessageClass(message)
        self._columns = columns

    def decode(self, bodies: Sequence[bytes]) -> tuple[pa.Array, dict[int, str]]:
        """Return the columns of bodies, and which are bad, with the reason."""
        read = self._class.FromString
        messages: list[Message | None] = []
        bad: dict[int, str] = {}
        for at, body in enumerate(bodies):
            try:
                messages.append(read(body))
            except DecodeError as error:
                messages.append(None)
                bad[at] = f"not Protobuf: {said(error)}"
        try:
            return _struct(messages, self.message, self._columns), bad
        except (pa.ArrowException, ValueError, TypeError, OverflowError):
            return self._one_by_one(messages, bad)

    def _one_by_one(
        self, messages: Sequence[Message | None], bad: dict[int, str]
    ) -> tuple[pa.Array, dict[int, str]]:
        """Find the messages whose values the columns cannot hold."""
        found = []
        for at, message in enumerate(messages):
            try:
                found.append(_struct([message], self.message, self._columns))
            except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
                bad[at] = f"does not fit the columns: {said(error)}"
                found.append(shaped([None], self._columns)[0])
        return pa.concat_arrays(found), bad


def _struct(
    messages: Sequence[Message | None], kind: Descriptor, columns: pa.StructType
) -> pa.StructArray:
    """Return messages as a struct; null for None."""
    arrays = []
    for column in columns:
        field = kind.fields_by_name.get(column.name)
        if field is None:
            arrays.append(pa.nulls(len(messages), column.type))
        else:
            arrays.append(_column(messages, field, column.type))
    missing = pa.array([each is None for each in messages], pa.bool_())
    return pa.StructArray.from_arrays(arrays, fields=list(columns), mask=missing)


def _column(
    messages: Sequence[Message | None], field: FieldDescriptor, kind: pa.DataType
) -> pa.Array:
    name = field.name
    if field.is_repeated:
        return _several(messages, field, kind)
    if field.has_presence:
        values = [
            getattr(each, name) if each is not None and each.HasField(name) else None
            for each in messages
        ]
    else:
        values = [None if each is None else getattr(each, name) for each in messages]
    return _values(values, field, kind)


def _several(
    messages: Sequence[Message | None], field: FieldDescriptor, kind: pa.DataType
) -> pa.Array:
    """Return a column of lists or of maps."""
    lists = [() if each is None else getattr(each, field.name) for each in messages]
    ends = [0]
    for each in lists:
        ends.append(ends[-1] + len(each))
    offsets = pa.array(ends, pa.int32())
    if not is_map(field):
        if not pa.types.is_list(kind):
            raise TypeError(f"{field.name} is a list, and its column is {kind}")
        flat = _in_parts((one for each in lists for one in each), field, kind.value_type)
        return pa.ListArray.from_arrays(offsets, flat, type=kind)
    if not pa.types.is_map(kind):
        raise TypeError(f"{field.name} is a map, and its column is {kind}")
    key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
    keys = _in_parts((name for each in lists for name in each), key, kind.key_type)
    items = _in_parts((each[name] for each in lists for name in each), value, kind.item_type)
    return pa.MapArray.from_arrays(offsets, keys, items, type=kind)


def _in_parts(values: Iterator[Any], field: FieldDescriptor, kind: pa.DataType) -> pa.Array:
    """Return the elements of lists as a column, so many at a time."""
    found = []
    while part := list(itertools.islice(values, ELEMENTS_AT_ONCE)):
        found.append(_values(part, field, kind))
    return pa.concat_arrays(found) if found else _values([], field, kind)


def _values(values: Sequence[Any], field: FieldDescriptor, kind: pa.DataType) -> pa.Array:
    """Return single values as a column."""
    if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
        if field.message_type.full_name == TIMESTAMP:
            return pa.array(list(_moments(values)), pa.int64()).cast(kind)
        if not pa.types.is_struct(kind):
            raise TypeError(f"{field.name} is a message, and its column is {kind}")
        return _struct(values, field.message_type, kind)
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        names = {number: each.name for number, each in field.enum_type.values_by_number.items()}
        values = [None if each is None else names.get(each, str(each)) for each in values]
    return pa.array(values, kind)


def _moments(values: Iterable[Any]) -> Iterator[int | None]:
    """Give times in microseconds since 1970."""
    for each in values:
        yield None if each is None else each.seconds * 1_000_000 + each.nanos // 1_000


def path_and_rest(body: bytes) -> tuple[tuple[int, ...], bytes]:
    """Divide a body of a registry into the path of its message, and the message.

    A count and as many numbers, all as zigzag varints; a single 0 stands for the first message.

    Raises:
        MissingSchemaError: it is no such path.
    """
    count, at = _zigzag(body, 0)
    if not count:
        return (0,), body[at:]
    if not 0 < count <= PATH_MAX:
        raise MissingSchemaError(f"a path of {count} steps to the message")
    path = []
    for _ in range(count):
        step, at = _zigzag(body, at)
        if step < 0:
            raise MissingSchemaError("the path to the message has a negative step")
        path.append(step)
    return tuple(path), body[at:]


def _zigzag(body: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(body) and shift < 35:
        byte = body[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
    raise MissingSchemaError("the path to the message is cut")
