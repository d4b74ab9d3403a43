"""Bodies in Avro: its types as columns, and the writer's schema resolved against the reader's.

fastavro decodes, and resolves as the specification says (Avro 1.12, "Schema Resolution"). What is
said here is which columns a schema makes, and which schemas are too dangerous to follow: a body
chooses how deep a recursive type goes, and how many items of no size an array has.

A union of several types that are not null has no column of its own type; its values become JSON.

Invariant: bodies that are decoded but not columns yet have PORTION_BYTES_MAX at most, or are one.
"""

from __future__ import annotations

import datetime as dt
import decimal
import functools
import io
import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import fastavro
import pyarrow as pa

from leporid.spark.errors import OptionError
from leporid.spark.pipelines.bodies.columns import DIGITS_MAX, said, shaped
from leporid.spark.pipelines.bodies.schemas import Schema
from leporid.spark.pipelines.decoding import written

KINDS = {
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "bytes": "binary",
    "string": "string",
    "enum": "string",
    "fixed": "binary",
}
LOGICAL = {
    ("int", "date"): "date",
    ("long", "timestamp-millis"): "timestamp",
    ("long", "timestamp-micros"): "timestamp",
    ("long", "local-timestamp-millis"): "timestamp_ntz",
    ("long", "local-timestamp-micros"): "timestamp_ntz",
    ("string", "uuid"): "string",
}

# Python's objects take up to 250 times the bytes that they are read from: an array of records of an
# empty array each has a dict and a list for each byte. So these are 64 MiB at most.
PORTION_BYTES_MAX = 256 * 1024

Named = dict[str, Any]
Convert = Callable[[Any], Any]


def parsed(schema: Schema) -> tuple[Any, Named]:
    """Return a schema as fastavro has it, and the types that it names.

    Raises:
        OptionError: it is none, or cannot be followed.
    """
    named: Named = {}
    try:
        _references(schema, named)
        found = fastavro.parse_schema(json.loads(schema.content), named_schemas=named)
    except fastavro.schema.UnknownType as error:
        raise OptionError(
            f"schema {schema.name} is no schema of Avro: there is no type {error.name!r}"
        ) from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        # fastavro's own errors are of these.
        raise OptionError(f"schema {schema.name} is no schema of Avro: {said(error)}") from None
    except fastavro.schema.SchemaParseException as error:
        raise OptionError(f"schema {schema.name} is no schema of Avro: {said(error)}") from None
    if not isinstance(found, dict) or found.get("type") != "record":
        raise OptionError(f"schema {schema.name} is no record: a body has to have fields")
    _Walk(schema.name, named).kind(found)
    return found, named


def _references(schema: Schema, named: Named) -> None:
    for _, each in schema.references:
        _references(each, named)
        fastavro.parse_schema(json.loads(each.content), named_schemas=named)


def columns_of(schema: Schema) -> dict[str, Any]:
    """Return the columns that a schema makes, as `evolution.read` has them."""
    found, named = parsed(schema)
    kind: dict[str, Any] = _Walk(schema.name, named).kind(found)
    return kind


class _Walk:
    """Goes through a schema, in which names stand for types."""

    def __init__(self, name: str, named: Named) -> None:
        self._name = name
        self._named = named
        self._within: list[str] = []

    def of(self, type_: Any) -> tuple[Any, bool]:
        """Return a type without null and names, and whether a union of several is left."""
        if isinstance(type_, list):
            rest = [each for each in type_ if each != "null"]
            return (self.of(rest[0])[0], False) if len(rest) == 1 else (rest, True)
        if isinstance(type_, str) and type_ in self._named:
            return self._named[type_], False
        return type_, False

    def kind(self, type_: Any) -> Any:
        """Return the kind of a column.

        Raises:
            OptionError: the type cannot be followed.
        """
        type_, several = self.of(type_)
        if several:
            for each in type_:
                self.kind(each)
            return "string"
        if isinstance(type_, str):
            return KINDS.get(type_, "string")
        match type_["type"]:
            case "record" | "error":
                return self._record(type_)
            case "array":
                self._sized(type_["items"])
                return [self.kind(type_["items"])]
            case "map":
                return f"map<string,{written(self.kind(type_['values']))}>"
            case "fixed" | "bytes" if type_.get("logicalType") == "decimal":
                if type_["precision"] > DIGITS_MAX:
                    raise OptionError(
                        f"schema {self._name} has a decimal of {type_['precision']} digits: "
                        f"columns have at most {DIGITS_MAX} digits"
                    )
                return f"decimal({type_['precision']},{type_.get('scale', 0)})"
            case "fixed" if type_.get("logicalType") == "uuid":
                return "string"
            case str(plain) if plain in KINDS:
                return LOGICAL.get((plain, type_.get("logicalType", "")), KINDS[plain])
        return self.kind(type_["type"])

    def _record(self, type_: Any) -> dict[str, Any]:
        if type_["name"] in self._within:
            raise OptionError(
                f"schema {self._name} is recursive ({type_['name']}): it has no end as columns"
            )
        self._within.append(type_["name"])
        found = {field["name"]: self.kind(field["type"]) for field in type_["fields"]}
        self._within.pop()
        return found

    def _sized(self, items: Any) -> None:
        """Refuse items without bytes: a body of ten bytes could have a billion of them."""
        if self._is_empty(items, ()):
            raise OptionError(f"schema {self._name} has an array of items without content")

    def _is_empty(self, type_: Any, within: tuple[str, ...]) -> bool:
        """Whether values take no bytes. A union takes one, which says of which type it is."""
        if isinstance(type_, list):
            return False
        plain, _ = self.of(type_)
        if isinstance(plain, str):
            return plain == "null"
        match plain["type"]:
            case "record" | "error":
                # One within itself is refused elsewhere.
                inner = (*within, plain["name"])
                return plain["name"] not in within and all(
                    self._is_empty(each["type"], inner) for each in plain["fields"]
                )
            case "fixed":
                return not plain["size"]
            case str(name):
                return name == "null"
        return self._is_empty(plain["type"], within)


class AvroDecoder:
    """Decodes bodies that one schema was used to write."""

    def __init__(self, writer: Schema, reader: Schema | None, columns: pa.StructType) -> None:
        self._columns = columns
        self._writer, named = parsed(writer)
        self._reader: Any = None
        if reader is not None and (reader.content, reader.references) != (
            writer.content,
            writer.references,
        ):
            # Resolving takes twice the time of reading, so who has the same schema is spared it.
            self._reader, named = parsed(reader)
        shown = self._writer if self._reader is None else self._reader
        self._convert = converter(shown, _Walk(writer.name, named))

    def decode(self, bodies: Sequence[bytes]) -> tuple[pa.Array, dict[int, str]]:
        """Return the columns of bodies, and which are bad, with the reason."""
        found: list[pa.Array] = []
        bad: dict[int, str] = {}
        first = 0
        for portion in portions(bodies):
            values, wrong = self._decode(portion)
            found.append(values)
            bad |= {first + at: reason for at, reason in wrong.items()}
            first += len(portion)
        return pa.concat_arrays(found) if found else pa.nulls(0, self._columns), bad

    def _decode(self, bodies: Sequence[bytes]) -> tuple[pa.Array, dict[int, str]]:
        rows: list[Any] = []
        bad: dict[int, str] = {}
        read, convert = fastavro.schemaless_reader, self._convert
        for at, body in enumerate(bodies):
            file = io.BytesIO(body)
            try:
                row = read(file, self._writer, self._reader)
                if file.tell() != len(body):
                    raise ValueError(f"{len(body) - file.tell()} bytes are left over")
                rows.append(row if convert is None else convert(row))
            except Exception as error:  # noqa: BLE001 - fastavro raises what a body leads it to
                rows.append(None)
                bad[at] = f"not Avro: {said(error)}"
        found, unfit = shaped(rows, self._columns)
        return found, bad | unfit


def portions(bodies: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """Divide bodies, in their order, so that none but a single one exceeds the limit."""
    first = size = 0
    for at, body in enumerate(bodies):
        if size and size + len(body) > PORTION_BYTES_MAX:
            yield bodies[first:at]
            first, size = at, 0
        size += len(body)
    if first < len(bodies):
        yield bodies[first:]


def converter(type_: Any, walk: _Walk) -> Convert | None:
    """Return what makes a column's value of a decoded one; None if it is one already."""
    type_, several = walk.of(type_)
    if several:
        return _as_json
    if isinstance(type_, str):
        return None
    match type_["type"]:
        case "record" | "error":
            return _of_record(type_, walk)
        case "array":
            each = converter(type_["items"], walk)
            return None if each is None else _or_null(functools.partial(_each, each))
        case "map":
            item = converter(type_["values"], walk)
            return None if item is None else _or_null(functools.partial(_each_of_map, item))
        case str():
            # Spark shows these two as the numbers that they are written as.
            unit = {"time-millis": 1_000, "time-micros": 1_000_000}.get(type_.get("logicalType"))
            if unit is not None:
                return _or_null(lambda value: _since_midnight(value, unit))
            return _or_null(str) if type_.get("logicalType") == "uuid" else None
    return converter(type_["type"], walk)


def _of_record(type_: Any, walk: _Walk) -> Convert | None:
    parts = {field["name"]: converter(field["type"], walk) for field in type_["fields"]}
    busy = [(name, part) for name, part in parts.items() if part is not None]
    if not busy:
        return None

    def convert(value: Any) -> Any:
        for name, part in busy:
            value[name] = part(value[name])
        return value

    return _or_null(convert)


def _each(convert: Convert, values: list[Any]) -> list[Any]:
    return [convert(value) for value in values]


def _each_of_map(convert: Convert, values: dict[str, Any]) -> dict[str, Any]:
    return {key: convert(value) for key, value in values.items()}


def _or_null(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _since_midnight(at: dt.time, unit: int) -> int:
    seconds = (at.hour * 60 + at.minute) * 60 + at.second
    return (seconds * 1_000_000 + at.microsecond) * unit // 1_000_000


def _as_json(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, default=_plain, ensure_ascii=False)


def _plain(value: Any) -> Any:
    """Return what JSON has for a value."""
    match value:
        case bytes():
            return value.decode("latin-1")
        case dt.date() | dt.time():
            return value.isoformat()
        case decimal.Decimal() | uuid.UUID():
            return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON")
