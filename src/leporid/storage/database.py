"""One SQLite file of definitions: its schema, its rows, and whether it can be trusted.

Responsible for the bytes of a single file. Must not know that there is a second one (see
`definitions`), nor what a queue or an exchange is beyond its columns.

Invariant: every transaction raises `commits` by one, so of two files that were given the same
changes the one with the higher number knows more. SQLite keeps no checksums of its own, so every
row carries one.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

# "LEPO": tells our files from other programs' (SQLite's application_id).
APPLICATION_ID = 0x4C45504F
# Raised with every change of the tables; a file with a higher one is refused.
SCHEMA_VERSION = 4

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

# (kind, fields): kind is "put_" or "drop_" and the name of a Table below; fields are its columns,
# for a drop at least those of its key.
Change = tuple[str, Mapping[str, Any]]

Problem = Literal["missing", "damaged", "foreign", "newer"]


class DefinitionsError(Exception):
    """The definitions cannot be read or written; the message names the file and the reason."""


@dataclass(frozen=True, slots=True)
class Table:
    """One kind of definition."""

    name: str
    key: tuple[str, ...]
    rest: tuple[str, ...]
    # The columns in SQL, and what else holds for the table.
    sql: str

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column but the checksum."""
        return self.key + self.rest


VHOSTS = Table("vhosts", ("name",), (), "name TEXT, PRIMARY KEY (name)")
EXCHANGES = Table(
    "exchanges",
    ("vhost", "name"),
    ("type", "auto_delete", "internal", "arguments"),
    "vhost TEXT, name TEXT, type TEXT NOT NULL, auto_delete INTEGER NOT NULL,"
    " internal INTEGER NOT NULL, arguments BLOB NOT NULL, PRIMARY KEY (vhost, name)",
)
QUEUES = Table(
    "queues",
    ("id",),
    ("vhost", "name", "auto_delete", "arguments"),
    "id INTEGER CHECK (id > 0), vhost TEXT NOT NULL, name TEXT NOT NULL,"
    " auto_delete INTEGER NOT NULL, arguments BLOB NOT NULL,"
    " PRIMARY KEY (id), UNIQUE (vhost, name)",
)
BINDINGS = Table(
    "bindings",
    ("vhost", "source", "destination", "kind", "key", "arguments"),
    (),
    "vhost TEXT, source TEXT, destination TEXT, kind TEXT, key TEXT, arguments BLOB,"
    " PRIMARY KEY (vhost, source, destination, kind, key, arguments)",
)
# Since version 2. Offsets of streams' named readers: of the last message that each has read.
READER_OFFSETS = Table(
    "reader_offsets",
    ("vhost", "stream", "reader"),
    ("offset",),
    "vhost TEXT, stream TEXT, reader TEXT, offset INTEGER NOT NULL,"
    " PRIMARY KEY (vhost, stream, reader)",
)
# Since version 3. Where durable exchanges keep delayed messages; ids as queues have them.
DELAYS = Table(
    "delays",
    ("id",),
    ("vhost", "exchange"),
    "id INTEGER CHECK (id > 0), vhost TEXT NOT NULL, exchange TEXT NOT NULL,"
    " PRIMARY KEY (id), UNIQUE (vhost, exchange)",
)
# Since version 3. What durable exchanges remember of messages; ids as queues have them.
CACHES = Table(
    "caches",
    ("id",),
    ("vhost", "exchange"),
    "id INTEGER, vhost TEXT NOT NULL, exchange TEXT NOT NULL,"
    " PRIMARY KEY (id), UNIQUE (vhost, exchange)",
)
# Since version 3. Groups of readers of streams; arguments are those of their filters.
GROUPS = Table(
    "groups",
    ("vhost", "stream", "name"),
    ("version", "arguments", "used_ms"),
    "vhost TEXT, stream TEXT, name TEXT, version INTEGER NOT NULL, arguments BLOB NOT NULL,"
    " used_ms INTEGER NOT NULL, PRIMARY KEY (vhost, stream, name)",
)
# Since version 4. Where groups keep what their members gave back; ids as queues have them.
GROUP_RETRIES = Table(
    "group_retries",
    ("id",),
    ("vhost", "stream", "name"),
    "id INTEGER CHECK (id > 0), vhost TEXT NOT NULL, stream TEXT NOT NULL, name TEXT NOT NULL,"
    " PRIMARY KEY (id)",
)
# Since version 3. Policies, and operator policies, which have names of their own.
POLICIES = Table(
    "policies",
    ("vhost", "operator", "name"),
    ("pattern", "apply_to", "priority", "definition"),
    "vhost TEXT, operator INTEGER, name TEXT, pattern TEXT NOT NULL, apply_to TEXT NOT NULL,"
    " priority INTEGER NOT NULL, definition BLOB NOT NULL, PRIMARY KEY (vhost, operator, name)",
)
# Since version 3. Where messages of bindings wait for filter classes; ids as queues have them.
STAGINGS = Table(
    "stagings",
    ("id",),
    ("vhost", "source", "destination", "kind", "key", "arguments"),
    "id INTEGER CHECK (id > 0), vhost TEXT NOT NULL, source TEXT NOT NULL,"
    " destination TEXT NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL, arguments BLOB NOT NULL,"
    " PRIMARY KEY (id)",
)
# Since version 3. What administrators registered to choose messages by code.
FILTER_CLASSES = Table(
    "filter_classes",
    ("name",),
    ("version", "class_name", "source"),
    "name TEXT, version INTEGER NOT NULL, class_name TEXT NOT NULL, source BLOB NOT NULL,"
    " PRIMARY KEY (name)",
)
# One row: how many transactions there were, and the lowest queue id never given.
STATE = Table(
    "state",
    ("id",),
    ("commits", "next_queue_id"),
    "id INTEGER, commits INTEGER NOT NULL, next_queue_id INTEGER NOT NULL, PRIMARY KEY (id)",
)
TABLES = {
    "vhost": VHOSTS,
    "exchange": EXCHANGES,
    "queue": QUEUES,
    "binding": BINDINGS,
    "reader_offset": READER_OFFSETS,
    "group": GROUPS,
    "group_retries": GROUP_RETRIES,
    "policy": POLICIES,
    "cache": CACHES,
    "delays": DELAYS,
    "filter_class": FILTER_CLASSES,
    "staging": STAGINGS,
    "state": STATE,
}
# The tables that came after version 1.
ADDED = {
    2: (READER_OFFSETS,),
    3: (POLICIES, CACHES, DELAYS, FILTER_CLASSES, STAGINGS, GROUPS),
    4: (GROUP_RETRIES,),
}
# What is in the log under an id that is never given twice.
WITH_QUEUE_ID = ("put_queue", "put_cache", "put_delays", "put_staging", "put_group_retries")


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
        durable: whether a commit waits for the disk. Without, a power cut may take the last
            commits, never the file.

    Raises:
        DefinitionsError: SQLite cannot open or make the file.
    """

    def __init__(self, path: Path, *, durable: bool) -> None:
        self.path = path
        try:
            self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise DefinitionsError(f"{path}: {error}") from error
        try:
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            if not self._connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
                self._create()
            self._upgrade()
            # What is in the file has survived; what is still in its write-ahead log may yet be
            # damaged without a sign.
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error as error:
            self._connection.close()
            raise DefinitionsError(f"{path}: {error}") from error

    def close(self) -> None:
        """Close the file; SQLite folds its write-ahead log into it."""
        self._connection.close()

    def rows(self, table: Table) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a table, in order of their key."""
        query = f"SELECT {', '.join(table.columns)} FROM {table.name}"  # noqa: S608 - constants
        yield from self._connection.execute(f"{query} ORDER BY {', '.join(table.key)}")

    def apply(self, changes: Sequence[Change]) -> None:
        """Make all changes in one transaction; applying one twice is applying it once.

        Raises:
            DefinitionsError: nothing was changed.
        """
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            for kind, fields in changes:
                self._apply_one(kind, fields)
            ids = (fields["id"] for kind, fields in changes if kind in WITH_QUEUE_ID)
            self._advance(max(ids, default=0) + 1)
            self._connection.execute("COMMIT")
        except BaseException as error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                raise DefinitionsError(f"{self.path}: {error}") from error
            raise

    def _apply_one(self, kind: str, fields: Mapping[str, Any]) -> None:
        action, _, noun = kind.partition("_")
        table = TABLES[noun]
        if action == "put":
            self._put(table, [fields[column] for column in table.columns])
            return
        if action != "drop":
            raise ValueError(f"unknown kind of change: {kind}")
        self._drop(table, table.key, [fields[column] for column in table.key])
        if table is VHOSTS:
            for inside in [table for table in TABLES.values() if "vhost" in table.columns]:
                self._drop(inside, ("vhost",), [fields["name"]])

    def _put(self, table: Table, values: Sequence[Any]) -> None:
        columns = (*table.columns, "checksum")
        marks = ", ".join("?" * len(columns))
        updates = ", ".join(f"{one} = excluded.{one}" for one in (*table.rest, "checksum"))
        self._connection.execute(
            f"INSERT INTO {table.name} ({', '.join(columns)}) VALUES ({marks})"  # noqa: S608
            f" ON CONFLICT ({', '.join(table.key)}) DO UPDATE SET {updates}",
            (*values, checksum(values)),
        )

    def _drop(self, table: Table, by: Sequence[str], values: Sequence[Any]) -> None:
        condition = " AND ".join(f"{column} = ?" for column in by)
        statement = f"DELETE FROM {table.name} WHERE {condition}"  # noqa: S608
        self._connection.execute(statement, values)

    def _advance(self, next_queue_id: int) -> None:
        _, commits, known = next(self.rows(STATE))
        self._put(STATE, (1, commits + 1, max(known, next_queue_id)))

    def _create(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        for table in TABLES.values():
            self._create_table(table)
        self._put(STATE, (1, 0, 1))
        self._connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        self._connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        self._connection.execute("COMMIT")

    def _upgrade(self) -> None:
        """Give a file of an earlier version what it lacks; what is in it stays as it is."""
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        if version >= SCHEMA_VERSION:
            return
        self._connection.execute("BEGIN IMMEDIATE")
        for since, tables in ADDED.items():
            for table in tables if since > version else ():
                self._create_table(table)
        self._connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        self._connection.execute("COMMIT")

    def _create_table(self, table: Table) -> None:
        self._connection.execute(_creation(table))


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


def examine(path: Path) -> Examination:
    """Read a whole file without changing it and say whether all of it can be trusted.

    Raises:
        DefinitionsError: it cannot be read, for a reason that says nothing of its contents.
    """
    if not path.exists():
        return Examination(0, "missing", "is missing")
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        try:
            return _examine(connection)
        finally:
            connection.close()
    except sqlite3.Error as error:
        # The primary code is in the low byte; errors of Python's own have none.
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
        if code in ENVIRONMENT_CODES:
            raise DefinitionsError(f"{path} cannot be read: {error}") from error
        return Examination(0, "damaged", str(error))


def _examine(connection: sqlite3.Connection) -> Examination:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if not tables and not application:
        # A first start that was cut short.
        return Examination(0, "missing", "is empty")
    if application != APPLICATION_ID:
        return Examination(0, "foreign", "is a database of another program")
    if version > SCHEMA_VERSION:
        reason = (
            f"was written by a newer version (schema {version}; this one reads {SCHEMA_VERSION})"
        )
        return Examination(0, "newer", reason)
    problems = [line for (line,) in connection.execute(f"PRAGMA integrity_check({PROBLEMS_MAX})")]
    if problems == ["ok"]:
        problems = [*_wrong_tables(connection, version), *_wrong_checksums(connection, version)]
    if problems:
        return Examination(0, "damaged", "; ".join(problems[:PROBLEMS_MAX]))
    row = connection.execute("SELECT commits FROM state").fetchone()
    return Examination(row[0]) if row else Examination(0, "damaged", "the state row is gone")


def _tables_at(version: int) -> list[Table]:
    later = {table for since, tables in ADDED.items() if since > version for table in tables}
    return [table for table in TABLES.values() if table not in later]


def _wrong_tables(connection: sqlite3.Connection, version: int) -> Iterator[str]:
    """The version is a number without a checksum; the tables must agree with it."""
    there = dict(connection.execute("SELECT name, sql FROM sqlite_schema"))
    for table in TABLES.values():
        if (table.name in there) != (version > 0 and table in _tables_at(version)):
            yield f"{table.name} does not belong to schema {version}"
        elif table.name in there and there[table.name] != _creation(table):
            # SQLite itself finds a damaged condition only when it opens the file to write.
            yield f"{table.name} was not made so"


def _wrong_checksums(connection: sqlite3.Connection, version: int) -> Iterator[str]:
    for table in _tables_at(version):
        query = f"SELECT {', '.join(table.columns)}, checksum FROM {table.name}"  # noqa: S608
        for number, (*values, expected) in enumerate(connection.execute(query), 1):
            if checksum(values) != expected:
                yield f"{table.name}: row {number} does not match its checksum"


def _creation(table: Table) -> str:
    """Return what makes a table; SQLite keeps the text."""
    # An INTEGER PRIMARY KEY is SQLite's own row id; every other table goes without.
    options = "STRICT" if table.key == ("id",) else "STRICT, WITHOUT ROWID"
    return f"CREATE TABLE {table.name} ({_with_checksum(table.sql)}) {options}"


def _with_checksum(sql: str) -> str:
    """Put the checksum column before the table's constraints, where SQL wants columns."""
    columns, constraint, keys = sql.partition(", PRIMARY KEY")
    return f"{columns}, checksum INTEGER NOT NULL{constraint}{keys}"
