"""The durable definitions of a broker: vhosts, exchanges, queues, policies, …; in SQLite.

    definitions.db         every commit is on disk when `commit` returns
    definitions.copy.db    the same rows; its commits reach the disk when the system pleases

Responsible for having them back after any crash, and after damage to either file. Must not know
what the definitions mean, nor which kinds there are: it is given these.

Invariant: the copy is never ahead of the original. So when a start finds it ahead, the original
has lost commits (SQLite drops what follows a flipped bit in its write-ahead log, and says
nothing), and the copy is the truth. When only one of the two is whole, that one is. A damaged
file is put aside, never deleted. Queue ids are never given twice, even if the queue is gone:
records in the log may still bear them.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from leporid.durable import Change, DefinitionsSnapshot, Durable, Put, each_of
from leporid.storage.database import (
    Database,
    DefinitionsError,
    Examination,
    Kinds,
    State,
    examine,
    schema_version,
)
from leporid.storage.segments import Naming, sync_directory

__all__ = ["Definitions", "DefinitionsError", "numbers", "problems"]

# SQLite's companions of a database in WAL mode.
COMPANIONS = ("", "-wal", "-shm")


class Definitions:
    """The open definitions. Used from one thread at a time, whichever.

    Args:
        path: the original, `DIR/definitions.db`; the copy stands beside it. Made if there is
            neither.
        kinds: all that there are.

    Attributes:
        report: what was found damaged and what was done about it, one sentence each.
        copy_failed: called with the reason when the copy cannot be written any more; the next start
            makes it anew.

    Raises:
        DefinitionsError: neither file is whole, one is from a newer version, or one is another
            program's. Nothing was changed.
    """

    def __init__(self, path: Path, kinds: Kinds) -> None:
        self.path = path
        self._kinds = kinds
        self.copy_failed: Callable[[DefinitionsError], None] = lambda _: None
        self.report = _repair(path, copy_path(path), kinds)
        self._original = Database(path, kinds, durable=True)
        sync_directory(path.parent)
        try:
            self._copy: Database | None = Database(copy_path(path), kinds, durable=False)
        except DefinitionsError:
            self._original.close()
            raise

    def __repr__(self) -> str:
        return f"<Definitions {self.path}>"

    def load(self) -> DefinitionsSnapshot:
        """Read everything."""
        load = self._original.load
        found = tuple(each for kind in self._kinds for each in load(kind))
        return DefinitionsSnapshot(found, next(load(State)).next_queue_id)

    def commit(self, changes: Sequence[Change]) -> None:
        """Make all changes in one transaction and return when they are on disk.

        Args:
            changes: in order. Any of them may be repeated.

        Raises:
            DefinitionsError: nothing was changed; the disk may be full.
        """
        if not changes:
            return
        put = (type(change.definition) for change in each_of(changes) if isinstance(change, Put))
        self._raise_schema(schema_version(put))
        self._original.apply(changes)
        if self._copy is None:
            return
        try:
            self._copy.apply(changes)
        except DefinitionsError as error:
            self._end_copy(error)

    def _raise_schema(self, version: int) -> None:
        """Have both files know what that version of the schema does, or have no copy.

        An earlier version for which the original alone is too new would go on with the copy.
        """
        if self._original.version >= version:
            return
        if self._copy is not None:
            try:
                self._copy.raise_to(version)
            except DefinitionsError as error:
                self._end_copy(error)
        if self._copy is None:
            _remove(copy_path(self.path))
        self._original.raise_to(version)

    def _end_copy(self, reason: DefinitionsError) -> None:
        """Go on without; a copy that missed a commit is behind, and the next start renews it."""
        self._close_copy()
        self.copy_failed(reason)

    def _close_copy(self) -> None:
        if self._copy is not None:
            self._copy.close()
            self._copy = None

    def reading(self) -> Reading:
        """Return the definitions as they are now, whatever is committed later.

        Raises:
            DefinitionsError: they cannot be read.
        """
        return Reading(self.path)

    def close(self) -> None:
        """Close both files."""
        self._original.close()
        self._close_copy()


class Reading:
    """The definitions as of one moment, on a connection of its own; used in any thread.

    While it is open, SQLite's log of the changes after that moment only grows.

    Attributes:
        bytes: what both files of a copy take.

    Raises:
        DefinitionsError: SQLite cannot read them.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise DefinitionsError(f"{path}: {error}") from error
        try:
            # A transaction sees the moment of its first read.
            self._connection.execute("BEGIN")
            (pages,) = self._connection.execute("PRAGMA page_count").fetchone()
            (page_bytes,) = self._connection.execute("PRAGMA page_size").fetchone()
            self._connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        except sqlite3.Error as error:
            self._connection.close()
            raise DefinitionsError(f"{path}: {error}") from error
        self.bytes: int = 2 * pages * page_bytes

    def __repr__(self) -> str:
        return f"<Reading of {self._path}>"

    def write(self, path: Path) -> None:
        """Make definitions at a path where there are none, the original and its copy.

        Raises:
            DefinitionsError: they cannot be made.
        """
        for target in (path, copy_path(path)):
            _copy_database(self._connection, self._path, target)

    def close(self) -> None:
        """End it; a second call does nothing."""
        self._connection.close()


def problems(path: Path, kinds: Kinds) -> list[str]:
    """Say what is wrong with the definitions of a broker that is not running; change nothing."""
    original, copy = examine(path, kinds), examine(copy_path(path), kinds)
    if original.problem == copy.problem == "missing":
        return []
    found = [
        f"{one} {examination.reason}"
        for one, examination in ((path, original), (copy_path(path), copy))
        if examination.problem is not None
    ]
    if not found and copy.commits > original.commits:
        found.append(f"{path} lacks {copy.commits - original.commits} commits that its copy has")
    return found


def numbers(path: Path, kinds: Kinds, kind: type[Durable]) -> frozenset[int] | None:
    """Return the ids of all definitions of a kind; None if the file cannot be trusted."""
    if examine(path, kinds).problem is not None:
        return None
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        ids = connection.execute(f"SELECT id FROM {kind.TABLE.name}")  # noqa: S608 - a constant
        return frozenset(number for (number,) in ids)


def copy_path(path: Path) -> Path:
    """Return where the copy of `path` stands."""
    return path.with_suffix(f".copy{path.suffix}")


def _repair(path: Path, copy: Path, kinds: Kinds) -> tuple[str, ...]:
    """Make both files whole, or raise; return what there is to tell."""
    original, copied = examine(path, kinds), examine(copy, kinds)
    if original.problem == copied.problem == "missing":
        return ()
    if original.problem and copied.problem:
        raise DefinitionsError(_hopeless(path, original, copy, copied))
    if original.problem is None and (copied.problem or copied.commits <= original.commits):
        return _renew_copy(path, original, copy, copied)
    lost = (
        f"{path} {original.reason}"
        if original.problem
        else f"{path} lacks {copied.commits - original.commits} commits that its copy has"
    )
    aside = _set_aside(path)
    _duplicate(copy, path)
    kept = f"; it is now {aside}" if aside else ""
    return (f"{lost}{kept}; the definitions were restored from {copy}",)


def _hopeless(path: Path, original: Examination, copy: Path, copied: Examination) -> str:
    """Say why neither file can be used.

    A file that alone is newer has a flipped bit, or nothing in it yet that is: no version commits
    what needs a schema before both files have it.
    """
    for one, examination in ((path, original), (copy, copied)):
        if examination.problem in ("newer", "foreign"):
            return f"{one} {examination.reason}"
    return (
        f"{path} cannot be used ({original.reason}), and neither can its copy {copy}"
        f" ({copied.reason})"
    )


def _renew_copy(
    path: Path, original: Examination, copy: Path, copied: Examination
) -> tuple[str, ...]:
    """Make the copy anew unless it is whole and knows every commit."""
    if copied.problem is None and copied.commits == original.commits:
        return ()
    aside = None
    if copied.problem not in (None, "missing"):
        aside = _set_aside(copy)
    else:
        # Not there yet, or behind after a power cut: nothing is lost, nothing to tell.
        _remove(copy)
    _duplicate(path, copy)
    return (f"{copy} {copied.reason}; it is now {aside}, and was made anew",) if aside else ()


def _remove(path: Path) -> None:
    """Delete a file that nobody needs, and its companions."""
    for suffix in COMPANIONS:
        _beside(path, suffix).unlink(missing_ok=True)
    sync_directory(path.parent)


def _set_aside(path: Path) -> Path | None:
    """Give a damaged file and its companions a name that nothing opens; return the name."""
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    for suffix in COMPANIONS:
        if _beside(path, suffix).exists():
            _beside(path, suffix).rename(_beside(aside, suffix))
    sync_directory(path.parent)
    return aside if aside.exists() else None


def _duplicate(source: Path, target: Path) -> None:
    """Make `target`, which must not exist, the same database as `source`; all of it or nothing."""
    unfinished = target.with_name(f"{target.name}.new")
    unfinished.unlink(missing_ok=True)
    with closing(sqlite3.connect(source)) as reader:
        _copy_database(reader, source, unfinished)
    with unfinished.open("rb") as file, Naming(unfinished):
        os.fsync(file.fileno())
    unfinished.rename(target)
    sync_directory(target.parent)


def _copy_database(reader: sqlite3.Connection, source: Path, target: Path) -> None:
    """Make a database of what a connection reads; raises DefinitionsError."""
    try:
        with closing(sqlite3.connect(target)) as writer:
            reader.backup(writer)
    except sqlite3.Error as error:
        raise DefinitionsError(f"cannot make {target} from {source}: {error}") from error


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)
