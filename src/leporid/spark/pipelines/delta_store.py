"""An archive as a Delta table, written without Spark's own Delta: by `deltalake`.

The executors have written the files; a commit adds their names to the table's log. It holds the
position twice: as metadata of the commit, to be read, and as the application's transactions, one
for each partition with the end offset as its version, which Delta keeps for ever. By these Delta
refuses the second of two writers that have begun at the same position.

Invariant: files are on disk before a commit that names them returns, and the commit is, too:
`deltalake` leaves both to the operating system. A power cut may leave the last commit empty, which
Delta reads as a commit without files and position; what it held is then archived again. In an
object store both are durable when they are there, and a commit is a conditional write: the name of
a version is given to one writer only.
"""

from __future__ import annotations

import functools
import json
import math
import os
import re
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Field, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction

from leporid.spark.offsets import Key, Offsets, from_json, to_json
from leporid.spark.pipelines.files import DATE, HOUR, PARTITIONS, DataFile, column_of
from leporid.spark.pipelines.places import delta_options, sync
from leporid.spark.pipelines.store import (
    ENDS,
    KEEP_SECONDS,
    NOTE,
    ConflictError,
    OvertakenError,
    Store,
    StoreError,
    check_gone,
    check_note,
    check_position,
    kept_note,
    retried,
)

# Under this name Delta keeps since when a process merges files, and 0 when none does. One that was
# killed keeps others from it for as long as none takes.
MERGE = "leporid:compact"
MERGE_SECONDS_MAX = 6 * 3600


P = ParamSpec("P")
R = TypeVar("R")
# How deltalake paints its messages, and what it puts before the causes.
PAINT = re.compile(r"\x1b\[[0-9;]*m")
CAUSE = "↳"


def _told(method: Callable[P, R]) -> Callable[P, R]:
    """Have a method say in a line what the table's library says in several."""

    @functools.wraps(method)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except CommitFailedError as error:
            raise OvertakenError(f"{_root(args)}: changed meanwhile: {line_of(error)}") from None
        except (DeltaError, OSError) as error:
            raise StoreError(f"{_root(args)}: {line_of(error)}") from error

    return wrapped


def _root(args: tuple[object, ...]) -> str:
    return str(args[0].root) if isinstance(args[0], Store) else ""


def line_of(error: BaseException) -> str:
    """Return what deltalake says, with the causes, in one line."""
    parts = PAINT.sub("", str(error)).split(CAUSE)
    return ": ".join(" ".join(part.split()) for part in parts)


class DeltaStore(Store):
    """A Delta table in a folder or an object store."""

    def _options(self) -> dict[str, str] | None:
        return delta_options(os.environ) if self.root.path is None else None

    def _table(self) -> DeltaTable | None:
        if not DeltaTable.is_deltatable(str(self.root), self._options()):
            return None
        return DeltaTable(str(self.root), storage_options=self._options())

    @_told
    def ends(self) -> Offsets:
        """Return the position up to which records are in the table."""
        return self._ends(self._table())

    def _ends(self, table: DeltaTable | None) -> Offsets:
        if table is None:
            return {}
        newest = self._newest(table)
        if ENDS in newest:
            return from_json(json.loads(newest[ENDS]))
        if not table.file_uris():
            return {}
        raise StoreError(f"{self.root}: no commit in the table's log says how far it reaches")

    def _newest(self, table: DeltaTable) -> dict[str, Any]:
        """Return the newest commit that says how far the table reaches; empty if there is none."""
        # The newest commits first; merging files makes some that say nothing of the position.
        for limit in (8, None):
            for commit in table.history(limit):
                if ENDS in commit:
                    return dict(commit)
        return {}

    @_told
    def state(
        self, first_us: int | None = None, last_us: int | None = None
    ) -> tuple[list[str], Offsets]:
        """Return the files to read, without those of other days, and the position they reach."""
        table = self._table()
        if table is None:
            return [], {}
        days: list[tuple[str, str, str]] = []
        if first_us is not None and DATE in self.layout.partition_by:
            days.append(("date", ">=", day_of(first_us)))
        if last_us is not None and DATE in self.layout.partition_by:
            days.append(("date", "<=", day_of(last_us)))
        return sorted(table.file_uris(file_pruning_predicate=days or None)), self._ends(table)

    @retried
    @_told
    def commit(
        self, files: Sequence[DataFile], before: Offsets, ends: Offsets, settled: str = ""
    ) -> None:
        """Add files, and move the position."""
        table = self._table()
        check_position(self.root, self._ends(table), before)
        schema = self._schema(table, files)
        columns = [column_of(name) for name in self.layout.partition_by]
        if table is None:
            table = self._created(schema, columns)
            # What came to be there meanwhile is no conflict for Delta: it is what was found.
            check_position(self.root, self._ends(table), before)
        note = kept_note(self._note(table), settled)
        self._write(table, [self._added(file) for file in files if file.rows], schema, ends, note)

    @_told
    def note(self) -> str:
        """Return the note of the newest commit with a position."""
        return self._note(self._table())

    def _note(self, table: DeltaTable | None) -> str:
        return "" if table is None else str(self._newest(table).get(NOTE, ""))

    @retried
    @_told
    def add(self, files: Sequence[DataFile], before: str, note: str) -> None:
        """Add files with a note."""
        table = self._table()
        check_note(self.root, self._note(table), before)
        assert table is not None
        actions = [self._added(file) for file in files if file.rows]
        # The number makes Delta refuse the second of two that have begun at the same note.
        number = (table.transaction_version(NOTE) or 0) + 1
        self._write(
            table, actions, pa.schema(table.schema()), self._ends(table), note, [(NOTE, number)]
        )

    @retried
    @_told
    def replace(self, gone: Sequence[str], files: Sequence[DataFile], note: str) -> None:
        """Take files out and add others, with a note."""
        table = self._table()
        actions = [] if table is None else pa.table(table.get_add_actions())["path"].to_pylist()
        known = {path.rpartition("/")[2]: path for path in actions}
        check_gone(self.root, known, gone)
        assert table is not None
        at_ms = int(time.time() * 1000)
        changes = [
            *(RemoveAction(known[name], True, at_ms) for name in gone),
            *(self._added(file) for file in files if file.rows),
        ]
        self._write(table, changes, pa.schema(table.schema()), self._ends(table), note)

    def _write(
        self,
        table: DeltaTable,
        actions: Sequence[AddAction | RemoveAction],
        schema: pa.Schema,
        ends: Offsets,
        note: str = "",
        numbers: Sequence[tuple[str, int]] = (),
    ) -> None:
        """Commit actions together with the position."""
        versions = [(application(key, at.incarnation), at.offset) for key, at in ends.items()]
        properties = CommitProperties(
            custom_metadata={ENDS: json.dumps(to_json(ends))} | ({NOTE: note} if note else {}),
            app_transactions=[Transaction(*each) for each in (*versions, *numbers)],
        )
        try:
            table.create_write_transaction(
                list(actions),
                mode="append",
                schema=schema,
                partition_by=[column_of(name) for name in self.layout.partition_by],
                commit_properties=properties,
            )
        except CommitFailedError as error:
            raise OvertakenError(
                f"{self.root}: another process has archived here: {line_of(error)}"
            ) from None
        table.update_incremental()
        self._sync(table)

    def _created(self, schema: pa.Schema, columns: list[str]) -> DeltaTable:
        """Make the table, or return the one that somebody else has made meanwhile."""
        return DeltaTable.create(
            str(self.root),
            schema,
            partition_by=columns,
            mode="ignore",
            configuration=log_settings(KEEP_SECONDS["delta"]),
            storage_options=self._options(),
        )

    @retried
    @_told
    def extend(self, columns: pa.Schema) -> None:
        """Add columns and fields of structs."""
        table = self._table()
        if table is None:
            return
        before = pa.schema(table.schema())
        known = {field.name: field for field in before}
        new = [field for field in columns if field != known.get(field.name)]
        if not new:
            return
        table.alter.add_columns([Field.from_arrow(field) for field in new])
        table.update_incremental()
        self._sync(table)

    def _sync(self, table: DeltaTable) -> None:
        """Write the newest commit to disk, with the checkpoint that may come of it."""
        if self.root.path is None:
            return
        log = self.root.path / "_delta_log"
        for path in (*log.glob(f"{table.version():020}.*"), *log.glob("_last_checkpoint"), log):
            sync(path)

    def _schema(self, table: DeltaTable | None, files: Sequence[DataFile]) -> pa.Schema:
        if table is not None:
            return pa.schema(table.schema())
        system, name = (self.folder / files[0].name).filesystem()
        found = pq.read_schema(name, filesystem=system)
        for each in self.layout.partition_by:
            if each == DATE:
                found = found.append(pa.field(each, pa.date32()))
            elif each == HOUR:
                found = found.append(pa.field(each, pa.int32()))
            elif each in PARTITIONS:
                found = found.append(pa.field(column_of(each), found.field(each).type))
            else:
                kind = found.field("value").type.field(column_of(each)).type
                found = found.append(pa.field(column_of(each), kind))
        return found

    def _added(self, file: DataFile) -> AddAction:
        stats = {
            "numRecords": file.rows,
            "minValues": {"timestamp": text_of(file.first_us)},
            "maxValues": {"timestamp": text_of(file.last_us)},
        }
        return AddAction(
            path=f"{self.folder.name}/{file.name}",
            size=file.bytes,
            partition_values=file.values,
            modification_time=int(time.time() * 1000),
            data_change=True,
            stats=json.dumps(stats),
        )

    @_told
    def compact(self, files_min: int, bytes_max: int) -> int:
        """Replace small files by larger ones."""
        table = self._table()
        if table is None or not mergeable(table, bytes_max):
            return 0
        # deltalake lets two merge the same files at once, and then has their rows twice.
        at = int(time.time())
        if at - (table.transaction_version(MERGE) or 0) < MERGE_SECONDS_MAX:
            raise ConflictError(f"{self.root}: another process merges files")
        self._claim(table, at)
        before = set(table.file_uris())
        try:
            done = table.optimize.compact(target_size=bytes_max)
            if self.root.path is not None:
                made = {Path(name) for name in set(table.file_uris()) - before}
                for path in made | {path.parent for path in made} | {self.root.path}:
                    sync(path)
            self._sync(table)
        finally:
            self._claim(table, 0)
        return int(done["numFilesRemoved"])

    def _claim(self, table: DeltaTable, at: int) -> None:
        """Say since when files are merged, 0 at the end; of two at once Delta refuses the second.

        Raises:
            ConflictError: another process has said so meanwhile.
        """
        try:
            table.create_write_transaction(
                [],
                mode="append",
                schema=pa.schema(table.schema()),
                partition_by=[column_of(name) for name in self.layout.partition_by],
                commit_properties=CommitProperties(app_transactions=[Transaction(MERGE, at)]),
            )
        except CommitFailedError as error:
            raise ConflictError(f"{self.root}: another process merges files: {error}") from None
        table.update_incremental()
        self._sync(table)

    @_told
    def vacuum(self, keep_seconds: float) -> int:
        """Remove files that are not in the table any more."""
        table = self._table()
        if table is None:
            return 0
        self._keep_log(table, keep_seconds)
        hours = max(1, round(keep_seconds / 3600))
        # `full`: also the files of a stopped run, which the log does not know.
        return len(table.vacuum(hours, dry_run=False, enforce_retention_duration=False, full=True))

    def _keep_log(self, table: DeltaTable, keep_seconds: float) -> None:
        """Keep commits as long as their files: a reader's checkpoint needs both."""
        wanted = log_settings(keep_seconds)
        if not wanted.items() <= table.metadata().configuration.items():
            try:
                table.alter.set_table_properties(wanted)
            except CommitFailedError as error:
                raise ConflictError(f"{self.root}: changed meanwhile: {error}") from None
            table.update_incremental()
            self._sync(table)


def mergeable(table: DeltaTable, bytes_max: int) -> bool:
    """Whether two files of a partition fit into one.

    Who finds none must not commit: commits without a position, an hour after the other, would
    outlive the one that has it, as Delta removes old commits.
    """
    sizes: dict[str, list[int]] = defaultdict(list)
    for action in pa.table(table.get_add_actions()).to_pylist():
        sizes[json.dumps(action["partition"], default=str)].append(action["size_bytes"])
    return any(len(each) > 1 and sum(sorted(each)[:2]) <= bytes_max for each in sizes.values())


def log_settings(keep_seconds: float) -> dict[str, str]:
    """Return the table's properties that keep its commits for so long: days, at least one.

    Delta's own 30 days of commits are a quarter of a million files, with one every ten seconds.
    """
    days = max(1, math.ceil(keep_seconds / 86400))
    return {"delta.logRetentionDuration": f"interval {days} days"}


def application(key: Key, incarnation: str) -> str:
    """Return the name under which a partition's end is kept among Delta's transactions."""
    return f"leporid:{key.stream}:{key.partition}:{incarnation}"


def day_of(at_us: int) -> str:
    """Return the day of a time."""
    return datetime.fromtimestamp(at_us / 1_000_000, UTC).date().isoformat()


def text_of(at_us: int) -> str:
    """Return a time as Delta's statistics have it; exact, as floats are not."""
    seconds, rest = divmod(at_us, 1_000_000)
    whole = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{whole}.{rest:06}Z"
