"""Schemas of bodies, by name: from a file, a folder of files, or a registry.

A message names the schema it was written with; the columns of a table come from one schema, that
of a subject. Must not know what is in a schema, beyond its kind.

Invariant: a registry that cannot be reached is an error, and never a reason to put a message aside.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

from leporid.spark.errors import OptionError, SparkSourceError
from leporid.spark.schema import nearest

AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"

# How the place of a registry begins.
URLS = ("http://", "https://")

# How files of each kind are named.
SUFFIXES = {".avsc": AVRO, ".json": JSON, ".desc": PROTOBUF, ".binpb": PROTOBUF, ".pb": PROTOBUF}

# The largest schemas that people have are generated, and some hundred kilobytes.
SCHEMA_BYTES_MAX = 4 * 1024 * 1024
# A name comes from a message: no way to another folder, and no file name that no system takes.
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")


class SchemasError(SparkSourceError):
    """The place of the schemas cannot be read."""


class MissingSchemaError(Exception):
    """There is no schema of that name: the message that names it is put aside."""


@dataclass(frozen=True)
class Schema:
    """A schema as it was found.

    Attributes:
        kind: AVRO, JSON or PROTOBUF.
        content: its text; of Protobuf, a serialised `FileDescriptorSet` or `FileDescriptorProto`.
        name: what it is called in messages to people.
        references: the schemas that it refers to, each by the name it uses for it.
    """

    kind: str
    content: bytes
    name: str
    references: tuple[tuple[str, Schema], ...] = ()


class Schemas(ABC):
    """Where schemas come from."""

    # Whether bodies begin with the schema's number if no header names it.
    framed = False

    @abstractmethod
    def named(self, name: str) -> Schema:
        """Return the schema that a message names.

        Raises:
            MissingSchemaError: there is none.
            SchemasError: the place cannot be read.
        """

    @abstractmethod
    def latest(self, subject: str) -> Schema:
        """Return the schema that the columns come from.

        Raises:
            OptionError: there is none.
            SchemasError: the place cannot be read.
        """


class FileSchemas(Schemas):
    """One file, whose schema all messages have; or a folder of them, called by their stems."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._found: dict[Path, tuple[tuple[int, int], Schema]] = {}

    def named(self, name: str) -> Schema:
        """Return the schema of a file."""
        if not NAME.fullmatch(name):
            raise MissingSchemaError(f"{name[:100]!r} is no name of a schema")
        # A folder of another machine may be away.
        if not self._path.exists():
            raise SchemasError(f"{self._path} is not there any more: bring it back")
        if not self._path.is_dir():
            if name not in {self._path.stem, self._path.name}:
                raise MissingSchemaError(f"there is no schema {name!r}, only {self._path}")
            return self._read(self._path)
        for suffix in SUFFIXES:
            path = self._path / f"{name}{suffix}"
            if path.is_file():
                return self._read(path)
        raise MissingSchemaError(f"there is no schema {name!r} in {self._path}")

    def latest(self, subject: str) -> Schema:
        """Return the schema of the file, or of the folder's file of that name."""
        if not self._path.is_dir():
            return self._read(self._path)
        try:
            return self.named(subject)
        except MissingSchemaError as error:
            stems = sorted(each.stem for each in self._path.iterdir() if each.suffix in SUFFIXES)
            raise OptionError(f"{error}: give a subject{nearest(subject, stems)}") from None

    def _read(self, path: Path) -> Schema:
        """Return what is in a file now: one that was mended is read again."""
        try:
            status = path.stat()
        except OSError as error:
            raise SchemasError(f"{path} cannot be read: {error.strerror}") from None
        version = (status.st_mtime_ns, status.st_size)
        if path not in self._found or self._found[path][0] != version:
            self._found[path] = (version, read_file(path))
        return self._found[path][1]


def read_file(path: Path) -> Schema:
    """Return the schema in a file.

    Raises:
        OptionError: it cannot be used.
        SchemasError: it cannot be read.
    """
    kind = SUFFIXES.get(path.suffix)
    if kind is None:
        hint = ""
        if path.suffix == ".proto":
            hint = (
                f": make one with `protoc --include_imports --descriptor_set_out={path.stem}.desc "
                f"{path.name}`"
            )
        raise OptionError(f"{path} is no schema; its name ends in {', '.join(SUFFIXES)}{hint}")
    try:
        if path.stat().st_size > SCHEMA_BYTES_MAX:
            raise OptionError(f"{path} is larger than a schema may be ({SCHEMA_BYTES_MAX:,} bytes)")
        content = path.read_bytes()
        if kind != PROTOBUF:
            json.loads(content)
    except OSError as error:
        raise SchemasError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise OptionError(f"{path} is not JSON: {error}") from None
    return Schema(kind, content, path.name)


def open_schemas(place: str) -> Schemas:
    """Return the schemas of a file, a folder, or a registry's URL.

    Raises:
        OptionError: it is none of these.
    """
    if place.startswith(URLS):
        from leporid.spark.pipelines.bodies.registry import Registry

        return Registry(place)
    if "://" in place:
        # It may have a password, so it is not repeated.
        raise OptionError("a registry's URL begins with http:// or https://, in small letters")
    path = Path(place).expanduser().absolute()
    if not path.exists():
        raise OptionError(f"{place}: there is no such file or folder of schemas")
    return FileSchemas(path)
