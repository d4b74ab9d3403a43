"""One SQLite file of definitions: its schema, its rows, and whether it can be trusted.

Responsible for the bytes of a single file. Must not know that there is a second one (see
`definitions`), nor what a queue or an exchange is beyond its columns.

Invariants: every transaction raises `commits` by one, so of two files that were given the same
changes the one with the higher number knows more. A file has the tables of its schema's version and
no others, and the version rises with the first row that needs it. SQLite keeps no checksums of its
own, so every row carries one.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from leporid.durable import Change, Durable, Put, Table, each_of

# "LEPO": tells our files from other programs' (SQLite's application_id).
APPLICATION_ID = 0x4C45504F
# What every file has that was opened. A table of a later version is made for its first row, so that
# a file without such rows can be read by the versions that know no more than this.
SCHEMA_VERSION_MIN = 3

# What may be wrong with a file is listed up to this many lines.
PROBLEMS_MAX = 20

# SQLite's codes for what is not the file's fault: permissions, locks, memory, the disk itself.
ENVIRONMENT_CODES = {
    sqlite3.SQLITE_AUTH,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_INTERRUPT,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_READONLY,
}

Problem = Literal["missing", "damaged", "foreign", "newer"]

D = TypeVar("D", bound=Durable)


class DefinitionsError(Exception):
    """The definitions cannot be read or written; the message names the file and the reason."""


@dataclass(frozen=True, slots=True)
class State(Durable):
    """The one row: how many transactions there were, and the lowest queue id never given."""

    TABLE = Table("state", ("id",), checks_id=False)
    id: int
    commits: int
    next_queue_id: int


# SQLite's type of a column, by that of a field.
COLUMN_TYPES = {int: "INTEGER", bool: "INTEGER", str: "TEXT", bytes: "BLOB"}

Kinds = Sequence[type[Durable]]


@dataclass(frozen=True, slots=True)
class Examination:
    """What `examine` found: a problem with its reason, or none and the number of commits."""

    commits: int
    problem: Problem | None = None
    reason: str = ""


class Database:
    """An open file. Used from one thread at a time, whichever.

    Args:
        path: the file; made if there is none.
        kinds: of definitions; each has a table.
        durable: whether a commit waits for the disk. Without, a power cut may take the last
            commits, never the file.

    Attributes:
        version: of its schema.

    Raises:
        DefinitionsError: SQLite cannot open or make the file.
    """

    def __init__(self, path: Path, kinds: Kinds, *, durable: bool) -> None:
        self.path = path
        self._kinds = kinds
        try:
            self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise DefinitionsError(f"{path}: {error}") from error
        try:
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            if not self._connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
                self._create()
            self.version: int
            (self.version,) = self._connection.execute("PRAGMA user_version").fetchone()
            self._raise_to(SCHEMA_VERSION_MIN)
            # What is in the file has survived; what is still in its write-ahead log may yet be
            # damaged without a sign.
            self._checkpoint()
        except sqlite3.Error as error:
            self._connection.close()
            raise DefinitionsError(f"{path}: {error}") from error

    def close(self) -> None:
        """Close the file; SQLite folds its write-ahead log into it."""
        self._connection.close()

    def load(self, kind: type[D]) -> Iterator[D]:
        """Yield the definitions of a kind, in order of their key; none if the schema lacks it."""
        if kind.TABLE.since > self.version:
            return
        types = kind.types()
        query = f"SELECT {', '.join(types)} FROM {kind.TABLE.name}"  # noqa: S608 - constants
        ordered = f"{query} ORDER BY {', '.join(kind.TABLE.key)}"
        for row in self._connection.execute(ordered):
            yield kind(*map(_value, types.values(), row))

    def raise_to(self, version: int) -> None:
        """Have the tables of that schema, on disk when this returns; what is there stays as it is.

        Raises:
            DefinitionsError: the disk may be full. What was there is there.
        """
        try:
            self._raise_to(version)
            self._checkpoint()
        except sqlite3.Error as error:
            raise DefinitionsError(f"{self.path}: {error}") from error

    def apply(self, changes: Sequence[Change]) -> None:
        """Make all changes in one transaction; applying one twice is applying it once.

        The schema must have the tables of what they put (`schema_version`).

        Raises:
            DefinitionsError: nothing was changed.
        """
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            highest = 0
            for change in each_of(changes):
                if isinstance(change, Put):
                    self._put(change.definition)
                    if change.definition.TABLE.has_id:
                        (number,) = change.definition.identity
                        highest = max(highest, int(number))
                else:
                    self._drop(change.kind.TABLE, change.kind.TABLE.key, change.identity)
                    self._drop_inside(change.kind.TABLE.inside, change.identity)
            self._advance(highest + 1)
            self._connection.execute("COMMIT")
        except BaseException as error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                raise DefinitionsError(f"{self.path}: {error}") from error
            raise

    def _put(self, definition: Durable) -> None:
        values = definition.values()
        self._connection.execute(_insertion(type(definition)), (*values, checksum(values)))

    def _drop(self, table: Table, by: Sequence[str], values: Sequence[Any]) -> None:
        if table.since > self.version:
            return
        condition = " AND ".join(f"{column} = ?" for column in by)
        statement = f"DELETE FROM {table.name} WHERE {condition}"  # noqa: S608
        self._connection.execute(statement, values)

    def _drop_inside(self, column: str | None, identity: Sequence[Any]) -> None:
        if column is not None:
            for kind in self._kinds:
                if column in kind.columns():
                    self._drop(kind.TABLE, (column,), identity)

    def _advance(self, next_queue_id: int) -> None:
        state = next(self.load(State))
        self._put(State(1, state.commits + 1, max(state.next_queue_id, next_queue_id)))

    def _create(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        for kind in _tables_at(SCHEMA_VERSION_MIN, self._kinds):
            self._connection.execute(_creation(kind))
        self._put(State(1, 0, 1))
        self._connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        self._connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION_MIN}")
        self._connection.execute("COMMIT")

    def _raise_to(self, version: int) -> None:
        if self.version >= version:
            return
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            for kind in _tables_at(version, self._kinds):
                if kind.TABLE.since > self.version:
                    self._connection.execute(_creation(kind))
            self._connection.execute(f"PRAGMA user_version = {version}")
            self._connection.execute("COMMIT")
        except sqlite3.Error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        self.version = version

    def _checkpoint(self) -> None:
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


# By kind: to write one takes longer than to run it.
_INSERTIONS: Final[dict[type[Durable], str]] = {}


def _insertion(kind: type[Durable]) -> str:
    """Return what puts a definition."""
    found = _INSERTIONS.get(kind)
    if found is None:
        found = _INSERTIONS[kind] = _written_insertion(kind)
    return found


def _written_insertion(kind: type[Durable]) -> str:
    names = (*kind.columns(), "checksum")
    marks = ", ".join("?" * len(names))
    rest = names[len(kind.TABLE.key) :]
    updates = ", ".join(f"{one} = excluded.{one}" for one in rest)
    return (
        f"INSERT INTO {kind.TABLE.name} ({', '.join(names)}) VALUES ({marks})"  # noqa: S608
        f" ON CONFLICT ({', '.join(kind.TABLE.key)}) DO UPDATE SET {updates}"
    )


def schema_version(kinds: Iterable[type[Durable]]) -> int:
    """Return the lowest version of the schema that has tables of all these kinds."""
    return max((kind.TABLE.since for kind in kinds), default=1)


def tables(kinds: Kinds) -> list[type[Durable]]:
    """Return what there are tables of, in the order in which a file gets them."""
    return [*kinds, State]


def _tables_at(version: int, kinds: Kinds) -> list[type[Durable]]:
    return [kind for kind in tables(kinds) if kind.TABLE.since <= version]


def _value(kind: type, column: Any) -> Any:
    """Return what a field holds; SQLite has no booleans."""
    return bool(column) if kind is bool else column


def checksum(values: Sequence[Any]) -> int:
    """Return the CRC-32 of a row; each value goes in with its type and length."""
    total = 0
    for value in values:
        if isinstance(value, str):
            letter, data = b"s", value.encode()
        elif isinstance(value, bytes):
            letter, data = b"b", value
        else:
            # True and 1 are one value to SQLite.
            letter, data = b"i", str(int(value) if isinstance(value, int) else value).encode()
        total = zlib.crc32(letter + len(data).to_bytes(4, "big") + data, total)
    return total


def examine(path: Path, kinds: Kinds) -> Examination:
    """Read a whole file without changing it and say whether all of it can be trusted.

    Raises:
        DefinitionsError: it cannot be read, for a reason that says nothing of its contents.
    """
    if not path.exists():
        return Examination(0, "missing", "is missing")
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        try:
            return _examine(connection, kinds)
        finally:
            connection.close()
    except sqlite3.Error as error:
        # The primary code is in the low byte; errors of Python's own have none.
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        if code in ENVIRONMENT_CODES:
            raise DefinitionsError(f"{path} cannot be read: {error}") from error
        return Examination(0, "damaged", str(error))


def _examine(connection: sqlite3.Connection, kinds: Kinds) -> Examination:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if not tables and not application:
        # A first start that was cut short.
        return Examination(0, "missing", "is empty")
    if application != APPLICATION_ID:
        return Examination(0, "foreign", "is a database of another program")
    newest = schema_version(kinds)
    if version > newest:
        reason = f"was written by a newer version (schema {version}; this one reads {newest})"
        return Examination(0, "newer", reason)
    problems = [line for (line,) in connection.execute(f"PRAGMA integrity_check({PROBLEMS_MAX})")]
    if problems == ["ok"]:
        problems = [
            *_wrong_tables(connection, kinds, version),
            *_wrong_checksums(connection, kinds, version),
        ]
    if problems:
        return Examination(0, "damaged", "; ".join(problems[:PROBLEMS_MAX]))
    row = connection.execute("SELECT commits FROM state").fetchone()
    return Examination(row[0]) if row else Examination(0, "damaged", "the state row is gone")


def _wrong_tables(connection: sqlite3.Connection, kinds: Kinds, version: int) -> Iterator[str]:
    """The version is a number without a checksum; the tables must agree with it."""
    there = dict(connection.execute("SELECT name, sql FROM sqlite_schema"))
    for kind in tables(kinds):
        name = kind.TABLE.name
        if (name in there) != (kind.TABLE.since <= version):
            yield f"{name} does not belong to schema {version}"
        elif name in there and there[name] != _creation(kind):
            # SQLite itself finds a damaged condition only when it opens the file to write.
            yield f"{name} was not made so"


def _wrong_checksums(connection: sqlite3.Connection, kinds: Kinds, version: int) -> Iterator[str]:
    for kind in _tables_at(version, kinds):
        name = kind.TABLE.name
        query = f"SELECT {', '.join(kind.columns())}, checksum FROM {name}"  # noqa: S608
        for number, (*values, expected) in enumerate(connection.execute(query), 1):
            if checksum(values) != expected:
                yield f"{name}: row {number} does not match its checksum"


def _creation(kind: type[Durable]) -> str:
    """Return what makes a table; SQLite keeps the text, which is compared when a file is opened."""
    table = kind.TABLE
    parts = []
    for name, hint in kind.types().items():
        condition = "" if name in table.key else " NOT NULL"
        if name == "id" and table.checks_id:
            condition = " CHECK (id > 0)"
        parts.append(f"{name} {COLUMN_TYPES[hint]}{condition}")
    parts += ["checksum INTEGER NOT NULL", f"PRIMARY KEY ({', '.join(table.key)})"]
    if table.unique:
        parts.append(f"UNIQUE ({', '.join(table.unique)})")
    # An INTEGER PRIMARY KEY is SQLite's own row id; every other table goes without.
    options = "STRICT" if table.has_id else "STRICT, WITHOUT ROWID"
    return f"CREATE TABLE {table.name} ({', '.join(parts)}) {options}"
