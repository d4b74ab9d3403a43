"""Bodies of a batch as columns: which decoder each message needs, and what it says.

A message says how its body is written: by the header `schema.id`; by the five bytes that producers
of a schema registry put before it (a zero byte and the id, with the most significant byte first);
or by its content type. What it says counts as long as the archive does not name a format.

Invariant: each row has a value or a reason, and never both; a batch is not decoded in part: what is
wrong with the place of the schemas is an error.
"""

from __future__ import annotations

import importlib
import struct
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from leporid.spark.errors import OptionError
from leporid.spark.pipelines.bodies.columns import said, struct_of
from leporid.spark.pipelines.bodies.json_values import EMPTY, JsonDecoder
from leporid.spark.pipelines.bodies.plain_text import CsvDecoder, TextDecoder
from leporid.spark.pipelines.bodies.schemas import (
    AVRO,
    JSON,
    PROTOBUF,
    URLS,
    MissingSchemaError,
    Schema,
    Schemas,
    open_schemas,
)
from leporid.spark.pipelines.decoding import fields
from leporid.spark.schema import nearest

# The header that names a message's schema.
SCHEMA_ID = "schema.id"

# As producers of a schema registry write: a zero byte, and the schema's id.
FRAME = struct.Struct(">xI")

AUTO = "auto"
FORMATS = ("json", "json-schema", "avro", "protobuf", "csv", "text", AUTO)
# Formats whose bodies cannot be read without a schema.
BY_SCHEMA = {"json-schema": JSON, "avro": AVRO, "protobuf": PROTOBUF}

CONTENT_TYPES = {
    "application/json": "json",
    "text/json": "json",
    "application/schema+json": "json",
    "application/avro": "avro",
    "avro/binary": "avro",
    "application/protobuf": "protobuf",
    "application/x-protobuf": "protobuf",
    "application/vnd.google.protobuf": "protobuf",
    "text/csv": "csv",
    "text/plain": "text",
}
ENDINGS = {"+json": "json", "+avro": "avro", "+protobuf": "protobuf"}

# Decoders that are kept, each for the bodies of one schema.
DECODERS_MAX = 500


@dataclass(frozen=True)
class Body:
    """How the bodies of a stream are decoded; it goes to executors, so it holds text only.

    Attributes:
        format: one of FORMATS; empty is that of the archive, or JSON.
        columns: the fields of `value`, as SQL writes them.
        schemas: where schemas come from; empty is nowhere. It may have a password.
        subject: whose newest schema makes the columns.
        message: of Protobuf, the name of the message; empty is the first one.
        delimiter: of CSV; empty is a comma.
        reader: the schema that makes the columns.
    """

    format: str = "json"
    columns: str = ""
    schemas: str = field(default="", repr=False)
    subject: str = ""
    message: str = ""
    delimiter: str = ""
    reader: Schema | None = field(default=None, repr=False)


class SchemaDecoder(Protocol):
    """Decodes bodies of one schema."""

    def decode(self, bodies: list[bytes]) -> tuple[pa.Array, dict[int, str]]:
        """Return the columns of bodies, and which are bad, with the reason."""


# How a row is written: its format, its schema, and whether that stands before the body.
Key = tuple[str, str | None, bool]


class Decoder:
    """Decodes the bodies of a stream."""

    def __init__(self, body: Body, schemas: Schemas | None = None) -> None:
        self._body = body
        self.columns = struct_of(body.columns)
        self._schemas = schemas
        if schemas is None and body.schemas:
            self._schemas = opened(body.schemas)
        self._kept: dict[Any, SchemaDecoder] = {}
        # Of Protobuf, the name of the message that a schema and a path mean, or why there is none.
        self._messages: dict[Any, tuple[str, str]] = {}

    def decode(self, batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array]:
        """Return the column `value`, null where a body is bad, and the reasons, null elsewhere.

        Args:
            batch: has the columns `body`, `headers` and `properties` of a stream.

        Raises:
            SparkSourceError: the place of the schemas cannot be read.
        """
        bodies = batch.column("body").to_pylist()
        groups: dict[Key, list[int]] = defaultdict(list)
        for at, key in enumerate(self._keys(batch, bodies)):
            groups[key].append(at)
        reasons: list[str | None] = [None] * len(bodies)
        parts, order = [], []
        for key, rows in groups.items():
            found, bad = self._of_group(key, [bodies[at] or b"" for at in rows])
            parts.append(found)
            order += rows
            for at, reason in bad.items():
                reasons[rows[at]] = reason
        values = pa.concat_arrays(parts) if parts else pa.nulls(0, self.columns)
        if len(parts) > 1:
            values = values.take(pc.array_sort_indices(pa.array(order, pa.int64())))
        return values, pa.array(reasons, pa.string())

    def _keys(self, batch: pa.RecordBatch, bodies: list[bytes | None]) -> Iterator[Key]:
        """Give how each row is written."""
        ids = pc.map_lookup(batch.column("headers"), SCHEMA_ID, "last")
        named: list[str | None] = (
            [None] * len(bodies) if ids.null_count == len(ids) else ids.to_pylist()
        )
        formats = [self._body.format] * len(bodies)
        if self._body.format == AUTO:
            types = pc.struct_field(batch.column("properties"), "content_type").to_pylist()
            known = {each: format_of(each) for each in set(types)}
            formats = [known[each] for each in types]
        framed = self._schemas is not None and self._schemas.framed
        for at, body in enumerate(bodies):
            name = named[at]
            if name is None and framed and body and body[0] == 0 and len(body) >= FRAME.size:
                yield formats[at], str(FRAME.unpack_from(body)[0]), True
            else:
                yield formats[at], name, False

    def _of_group(self, key: Key, bodies: list[bytes]) -> tuple[pa.Array, dict[int, str]]:
        """Return the columns of bodies that are written in one way, and which are bad."""
        try:
            return self._decoded(key, bodies)
        except (MissingSchemaError, OptionError) as error:
            # A schema that a message names and nobody can use is that message's fault.
            reason = said(error)
            return pa.nulls(len(bodies), self.columns), dict.fromkeys(range(len(bodies)), reason)

    def _decoded(self, key: Key, bodies: list[bytes]) -> tuple[pa.Array, dict[int, str]]:
        format_, name, framed = key
        schema = None
        if name is not None and self._schemas is not None:
            schema = self._schemas.named(name)
            format_ = self._agreed(format_, schema)
        elif format_ in BY_SCHEMA:
            schema = self._own(format_)
        if framed:
            bodies = [body[FRAME.size :] for body in bodies]
        if format_ == "protobuf":
            assert schema is not None
            return self._protobuf(schema, bodies, framed=framed, named=name is not None)
        if (format_, schema) not in self._kept:
            self._keep((format_, schema), self._made(format_, schema))
        decoder = self._kept[format_, schema]
        found, bad = decoder.decode(bodies)
        return found, bad | {at: EMPTY for at in bad if not bodies[at]}

    def _agreed(self, format_: str, schema: Schema) -> str:
        """Return the format of a schema, unless another one was asked for."""
        found = next(name for name, kind in BY_SCHEMA.items() if kind == schema.kind)
        asked = "json-schema" if format_ == "json" else format_
        if self._body.format != AUTO and asked != found:
            raise MissingSchemaError(f"schema {schema.name} is of {found}, not of {format_}")
        return found

    def _own(self, format_: str) -> Schema:
        """Return the schema of messages that name none."""
        reader = self._body.reader
        if self._schemas is not None and self._schemas.framed:
            raise MissingSchemaError(
                f"the message names no schema: neither a header {SCHEMA_ID} nor an id before the "
                f"body"
            )
        if reader is None or reader.kind != BY_SCHEMA[format_]:
            raise MissingSchemaError(f"there is no schema for bodies in {format_}")
        return reader

    def _keep(self, key: Any, decoder: SchemaDecoder) -> None:
        if len(self._kept) >= DECODERS_MAX:
            self._kept.clear()
        self._kept[key] = decoder

    def _made(self, format_: str, schema: Schema | None) -> SchemaDecoder:
        """Make a decoder."""
        if format_ == "avro":
            from leporid.spark.pipelines.bodies.avro import AvroDecoder

            assert schema is not None
            reader = self._body.reader
            same = reader is not None and reader.kind == AVRO
            return AvroDecoder(schema, reader if same else None, self.columns)
        if format_ == "csv":
            return CsvDecoder(self.columns, self._body.delimiter or ",")
        if format_ == "text":
            return TextDecoder(self.columns)
        if format_ in {"json", "json-schema"}:
            return JsonDecoder(self.columns, schema)
        raise MissingSchemaError(f"no decoder is known for {format_ or 'a missing content type'}")

    def _protobuf(
        self, schema: Schema, bodies: list[bytes], *, framed: bool, named: bool
    ) -> tuple[pa.Array, dict[int, str]]:
        """Decode messages; those that name a schema have to be the message of the columns."""
        from leporid.spark.pipelines.bodies import protobuf

        key = ("protobuf", self._body.reader or schema)
        if key not in self._kept:
            message = protobuf.message_of(key[1], name=self._body.message)
            self._keep(key, protobuf.ProtobufDecoder(message, self.columns))
        decoder: Any = self._kept[key]
        wanted = decoder.message.full_name
        bad: dict[int, str] = {}
        for at, body in enumerate(bodies if named else ()):
            path = None
            try:
                if framed:
                    path, bodies[at] = protobuf.path_and_rest(body)
                found, reason = self._message(schema, path)
            except MissingSchemaError as error:
                found, reason = "", said(error)
            if found != wanted:
                bad[at] = reason or f"a {found}, and not a {wanted}"
                bodies[at] = b""
        values, broken = decoder.decode(bodies)
        if bad:
            good = pa.array([at not in bad for at in range(len(bodies))], pa.bool_())
            values = pc.if_else(good, values, pa.nulls(1, self.columns)[0])
        return values, broken | bad

    def _message(self, schema: Schema, path: tuple[int, ...] | None) -> tuple[str, str]:
        """Return the name of a schema's message, or why there is none; kept, as it takes long."""
        from leporid.spark.pipelines.bodies import protobuf

        key = (schema, path)
        if key not in self._messages:
            if len(self._messages) >= DECODERS_MAX:
                self._messages.clear()
            try:
                name = self._body.message if path is None else ""
                self._messages[key] = protobuf.message_of(schema, path or (0,), name).full_name, ""
            except OptionError as error:
                self._messages[key] = "", said(error)
        return self._messages[key]


def format_of(content_type: str | None) -> str:
    """Return the format that a content type means; itself if it is not known."""
    name = (content_type or "").partition(";")[0].strip().lower()
    ending = next((each for each in ENDINGS if name.endswith(each)), "")
    return CONTENT_TYPES.get(name) or ENDINGS.get(ending, name)


_OPENED: dict[str, Schemas] = {}


def opened(place: str) -> Schemas:
    """Return a place of schemas, the same one as long as this process lives.

    A task of Spark's lives for a batch, and its process for many: what a registry said is kept.
    """
    if place not in _OPENED:
        _OPENED[place] = open_schemas(place)
    return _OPENED[place]


def columns_of(reader: Schema, message: str = "") -> dict[str, Any]:
    """Return the columns that a schema makes, as `evolution.read` has them.

    Raises:
        OptionError: it makes none.
    """
    if reader.kind == AVRO:
        from leporid.spark.pipelines.bodies import avro

        return avro.columns_of(reader)
    if reader.kind == PROTOBUF:
        from leporid.spark.pipelines.bodies import protobuf

        return protobuf.columns_of(protobuf.message_of(reader, name=message))
    from leporid.spark.pipelines.bodies import json_values

    return json_values.columns_of(reader)


def planned(asked: Body | None, settings: Mapping[str, str], stream: str) -> Body:
    """Return how the bodies of an archive are decoded: as it was made, or as a new one is asked.

    Args:
        asked: by the user; None is what the archive has.
        settings: of the archive; none of a new one.
        stream: its name; a registry calls the subject of its values after it.

    Raises:
        OptionError: it cannot be done, or is not what the archive has.
    """
    kept = body_of(settings)
    given = asked or kept
    given = given if given.format else replace(given, format=kept.format)
    if given.format not in FORMATS:
        raise OptionError(
            f"there is no format of bodies {given.format!r}{nearest(given.format, FORMATS)}; "
            f"choose from {', '.join(FORMATS)}"
        )
    if settings and given.format != kept.format:
        raise OptionError(
            f"its bodies are in {kept.format}, not in {given.format}: leave the format out, or "
            f"make a new archive"
        )
    schemas = given.schemas or kept.schemas
    usual = f"{stream}-value" if schemas.startswith(URLS) else stream
    body = replace(
        given,
        schemas=schemas,
        subject=given.subject or kept.subject or usual,
        message=given.message or kept.message,
        delimiter=given.delimiter or kept.delimiter,
    )
    if body.format in BY_SCHEMA and not body.schemas:
        raise OptionError(
            f"bodies in {body.format} need their schemas: a file, a folder, or a registry's URL"
        )
    check_libraries(body.format, bool(body.schemas))
    return body


def body_of(settings: Mapping[str, str]) -> Body:
    """Return how an archive decodes bodies, by its settings."""
    get = settings.get
    return Body(
        get("body", "json"),
        get("schema", ""),
        get("schemas", ""),
        get("subject", ""),
        get("message", ""),
        get("delimiter", ""),
    )


def settings_of(body: Body) -> dict[str, str]:
    """Return what the settings of an archive keep; no password."""
    schemas = body.schemas
    if schemas.startswith(URLS):
        from leporid.spark.pipelines.bodies.registry import divided

        schemas = divided(schemas)[0]
    elif schemas:
        schemas = str(Path(schemas).expanduser().absolute())
    found = {
        "body": body.format,
        "schemas": schemas,
        "subject": body.subject if schemas else "",
        "message": body.message,
        "delimiter": body.delimiter if body.format in {"csv", AUTO} else "",
    }
    return {name: value for name, value in found.items() if value}


def check_columns(body: Body) -> None:
    """Refuse columns that bodies of the format cannot have.

    Raises:
        OptionError: which one.
    """
    columns = struct_of(body.columns)
    if body.format == "csv":
        CsvDecoder(columns, body.delimiter or ",")


def check_libraries(format_: str, any_of_them: bool) -> None:
    """Refuse a format whose library is missing.

    Raises:
        OptionError: how to get it.
    """
    needed = {
        "avro": ["fastavro"],
        "protobuf": ["google.protobuf"],
        "json-schema": ["jsonschema_rs"],
    }
    names = needed.get(format_, [])
    if any_of_them and format_ == AUTO:
        names = [name for each in needed.values() for name in each]
    try:
        for name in names:
            importlib.import_module(name)
    except ImportError as error:
        raise OptionError(
            f"bodies in {format_} need `pip install 'leporid[schemas]'`: {error}"
        ) from None


def with_reader(body: Body) -> Body:
    """Return a body with the newest schema of its subject, and the columns that this makes.

    Without a place of schemas it is returned as it is.

    Raises:
        SparkSourceError: there is none, it makes no columns, or the place cannot be read.
    """
    if not body.schemas:
        return body
    reader = opened(body.schemas).latest(body.subject)
    if body.format in BY_SCHEMA and reader.kind != BY_SCHEMA[body.format]:
        raise OptionError(
            f"schema {reader.name} is of {reader.kind.capitalize()}, bodies are in {body.format}"
        )
    return replace(body, reader=reader, columns=fields(columns_of(reader, body.message)))
