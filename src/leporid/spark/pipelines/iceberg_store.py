"""An archive as an Iceberg table, written without Spark's own Iceberg: by `pyiceberg`.

The executors have written the files; a snapshot adds their names to the table, and has the position
among its properties. In a folder, the catalog is a file beside the table (`catalog.db`, SQLite),
and the table `leporid.records`. Any other catalog (REST, SQL, Glue, Hive) is one that PyIceberg's
configuration knows by name; the table is then the one that the layout names.

Invariant: the catalog takes a snapshot only on top of the one that the position was read from.
PyIceberg would put a refused one on top of what came meanwhile and try again, so that is off.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NoSuchTableError,
    NotInstalledError,
    TableAlreadyExistsError,
)
from pyiceberg.expressions import (
    And,
    BooleanExpression,
    EqualTo,
    GreaterThanOrEqual,
    IsNull,
    LessThan,
)
from pyiceberg.table import Table
from pyiceberg.transforms import DayTransform, HourTransform, IdentityTransform

from leporid.spark.errors import OptionError
from leporid.spark.offsets import Offsets, from_json, to_json
from leporid.spark.pipelines.files import DATE, HOUR, DataFile, column_of
from leporid.spark.pipelines.places import Place, iceberg_options
from leporid.spark.pipelines.store import (
    ENDS,
    NOTE,
    ConflictError,
    Layout,
    OvertakenError,
    Store,
    StoreError,
    check_gone,
    check_note,
    check_position,
    kept_note,
    retried,
)

NAMESPACE = "leporid"
TABLE = "leporid.records"
CATALOG_FILE = "catalog.db"
NO_RETRIES = {"commit.retry.num-retries": "0"}


class IcebergStore(Store):
    """An Iceberg table in a folder with its catalog, or in a catalog that others have, too."""

    def __init__(self, root: Path | Place, layout: Layout | None = None) -> None:
        super().__init__(root, layout)
        self._named: Catalog | None = None

    def _catalog(self) -> Catalog:
        if self.layout.catalog is None:
            self.root.make()
            return SqlCatalog(
                NAMESPACE,
                uri=f"sqlite:///{self.root / CATALOG_FILE}",
                warehouse=self.root.uri,
            )
        if self._named is None:
            # Loading one asks for its configuration, which takes a second with Glue.
            self._named = catalog_of(self.layout.catalog, {**self.layout.options})
        return self._named

    @property
    def _name(self) -> str:
        return self.layout.table or TABLE

    def check(self) -> None:
        """Refuse a place that cannot be written to, and a catalog that does not answer."""
        super().check()
        self.table()

    def table(self) -> Table | None:
        """Return the table; None as long as nothing was committed.

        Raises:
            StoreError: the catalog refuses, or cannot be reached.
        """
        own = self.root.path
        if self.layout.catalog is None and own is not None and not (own / CATALOG_FILE).exists():
            return None
        try:
            with self._answering():
                return self._catalog().load_table(self._name)
        except NoSuchTableError:
            return None

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """Say of which catalog an error is; its libraries have many of them."""
        try:
            yield
        except (NoSuchTableError, CommitFailedException, TableAlreadyExistsError, OptionError):
            raise
        except Exception as error:
            if self.layout.catalog is None:
                raise
            told = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise StoreError(f"catalog {self.layout.catalog!r}: {told}") from error

    def ends(self) -> Offsets:
        """Return the position up to which records are in the table."""
        return ends_of(self.table())

    def state(
        self, first_us: int | None = None, last_us: int | None = None
    ) -> tuple[list[str], Offsets]:
        """Return the files to read, without those of other times, and the position they reach."""
        table = self.table()
        if table is None:
            return [], {}
        scan = table.scan()
        if first_us is not None:
            scan = scan.filter(GreaterThanOrEqual("timestamp", moment(first_us)))
        if last_us is not None:
            scan = scan.filter(LessThan("timestamp", moment(last_us)))
        return sorted(task.file.file_path for task in scan.plan_files()), ends_of(table)

    @retried
    def commit(
        self, files: Sequence[DataFile], before: Offsets, ends: Offsets, settled: str = ""
    ) -> None:
        """Add files, and move the position."""
        table = self.table()
        check_position(self.root, ends_of(table), before)
        note = kept_note(newest_of(table).get(NOTE, ""), settled)
        with self._committing():
            if table is None:
                table = self._created(files)
            if not NO_RETRIES.items() <= table.properties.items() or not _is_partitioned(table):
                self._arrange(table)
            table.add_files(
                [str(self.folder / file.name) for file in files if file.rows],
                snapshot_properties=properties_of(ends, note),
                check_duplicate_files=False,
            )

    @contextmanager
    def _committing(self) -> Iterator[None]:
        """Say that somebody else has committed, or of which catalog an error is.

        Raises:
            OvertakenError: the catalog has another snapshot than the one that was read.
            StoreError: it does not answer; whether it has taken the commit, the position tells.
        """
        try:
            with self._answering():
                yield
        except (CommitFailedException, TableAlreadyExistsError) as error:
            raise OvertakenError(
                f"{self.root}: another process has archived here: {error}"
            ) from None

    def _created(self, files: Sequence[DataFile]) -> Table:
        system, name = (self.folder / files[0].name).filesystem()
        schema = pq.read_schema(name, filesystem=system)
        catalog = self._catalog()
        namespace = self._name.rpartition(".")[0]
        if not catalog.namespace_exists(namespace):
            catalog.create_namespace(namespace)
        location = None if self.layout.catalog is None else self.root.uri
        return catalog.create_table(self._name, schema, location=location, properties=NO_RETRIES)

    def _arrange(self, table: Table) -> None:
        """Give a new table its partitions, and one of an earlier version the newer property."""
        with table.transaction() as change:
            change.set_properties(NO_RETRIES)
            if not _is_partitioned(table):
                with change.update_spec() as update:
                    for name in self.layout.partition_by:
                        update.add_field(*partition_field(name))

    def note(self) -> str:
        """Return the note of the newest snapshot with a position."""
        return newest_of(self.table()).get(NOTE, "")

    @retried
    def add(self, files: Sequence[DataFile], before: str, note: str) -> None:
        """Add files with a note."""
        table = self.table()
        check_note(self.root, newest_of(table).get(NOTE, ""), before)
        assert table is not None
        with self._committing():
            table.add_files(
                [str(self.folder / file.name) for file in files if file.rows],
                snapshot_properties=properties_of(ends_of(table), note),
                check_duplicate_files=False,
            )

    @retried
    def replace(self, gone: Sequence[str], files: Sequence[DataFile], note: str) -> None:
        """Take files out and add others, with a note."""
        table = self.table()
        tasks = [] if table is None else table.scan().plan_files()
        known = {task.file.file_path.rpartition("/")[2]: task.file for task in tasks}
        check_gone(self.root, known, gone)
        assert table is not None
        kept = properties_of(ends_of(table), note)
        with self._committing(), table.transaction() as change:
            if gone:
                with change.update_snapshot(snapshot_properties=kept).overwrite() as update:
                    for name in gone:
                        update.delete_data_file(known[name])
            paths = [str(self.folder / file.name) for file in files if file.rows]
            if paths or not gone:
                change.add_files(paths, snapshot_properties=kept, check_duplicate_files=False)

    @retried
    def extend(self, columns: pa.Schema) -> None:
        """Add columns and fields of structs."""
        table = self.table()
        if table is not None:
            with self._committing(), table.update_schema() as update:
                update.union_by_name(columns)

    def compact(self, files_min: int, bytes_max: int) -> int:
        """Write a partition's rows anew if it has so many small files; they must fit in memory.

        So a partition with more bytes than four large files is left as it is.
        """
        table = self.table()
        if table is None:
            return 0
        sizes: dict[tuple[Any, ...], list[int]] = defaultdict(list)
        for task in table.scan().plan_files():
            values = tuple(task.file.partition[at] for at in range(len(self.layout.partition_by)))
            sizes[values].append(task.file.file_size_in_bytes)
        gone = 0
        for values, found in sizes.items():
            small = [size for size in found if size < bytes_max // 2]
            if len(small) < max(2, files_min) or sum(found) > 4 * bytes_max:
                continue
            meant = within(self.layout.partition_by, values)
            rows = table.scan(row_filter=meant).to_arrow()
            newest = newest_of(table)
            kept = {name: newest[name] for name in (ENDS, NOTE) if name in newest}
            try:
                table.overwrite(rows, overwrite_filter=meant, snapshot_properties=kept)
            except CommitFailedException as error:
                raise ConflictError(f"{self.root}: archived to while merging: {error}") from None
            gone += len(found)
        return gone

    def vacuum(self, keep_seconds: float) -> int:
        """Forget old snapshots; pyiceberg leaves their files where they are."""
        table = self.table()
        if table is not None:
            until = datetime.now(UTC) - timedelta(seconds=keep_seconds)
            with self._committing():
                table.maintenance.expire_snapshots().older_than(until.replace(tzinfo=None)).commit()
        return 0


def ends_of(table: Table | None) -> Offsets:
    """Return the position that the newest snapshot with one has."""
    newest = newest_of(table)
    return from_json(json.loads(newest[ENDS])) if ENDS in newest else {}


def properties_of(ends: Offsets, note: str) -> dict[str, str]:
    """Return what a snapshot says of the position, and its note."""
    return {ENDS: json.dumps(to_json(ends))} | ({NOTE: note} if note else {})


def newest_of(table: Table | None) -> dict[str, str]:
    """Return the properties of the newest snapshot with a position; empty if there is none."""
    snapshot = None if table is None else table.current_snapshot()
    while table is not None and snapshot is not None:
        summary = snapshot.summary
        if summary is not None and ENDS in summary.additional_properties:
            return dict(summary.additional_properties)
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else table.snapshot_by_id(parent)
    return {}


def catalog_of(name: str, options: dict[str, str]) -> Catalog:
    """Return a catalog that PyIceberg's configuration knows: ~/.pyiceberg.yaml, variables.

    Raises:
        OptionError: it does not know it, or a library is missing.
    """
    try:
        return load_catalog(name, **{**iceberg_options(os.environ), **options})
    except NotInstalledError as error:
        raise OptionError(f"catalog {name!r}: {error}") from None
    except ValueError as error:
        raise OptionError(
            f"catalog {name!r} is in none of ~/.pyiceberg.yaml and PYICEBERG_CATALOG__"
            f"{name.upper()}__URI, or not as PyIceberg needs it: {error}"
        ) from None


def _is_partitioned(table: Table) -> bool:
    return not table.spec().is_unpartitioned()


def partition_field(name: str) -> tuple[str, Any, str]:
    """Return what the table is partitioned by: a column, how, and the partition's own name."""
    if name == DATE:
        return "timestamp", DayTransform(), "day"
    if name == HOUR:
        return "timestamp", HourTransform(), "hour"
    return name, IdentityTransform(), column_of(name)


def within(by: Sequence[str], values: Sequence[Any]) -> BooleanExpression:
    """Return the condition of a partition; Iceberg counts days and hours from 1970 on."""
    found: list[BooleanExpression] = []
    for name, value in zip(by, values, strict=True):
        if name in {DATE, HOUR}:
            if isinstance(value, date):
                value = (value - date(1970, 1, 1)).days  # noqa: PLW2901 - of either form
            step = timedelta(days=1) if name == DATE else timedelta(hours=1)
            begin = datetime(1970, 1, 1, tzinfo=UTC) + value * step
            found.append(GreaterThanOrEqual("timestamp", begin.isoformat()))
            found.append(LessThan("timestamp", (begin + step).isoformat()))
        else:
            found.append(IsNull(name) if value is None else EqualTo(name, value))
    return reduce(And, found)


def moment(at_us: int) -> str:
    """Return a time as Iceberg's conditions have it."""
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at_us)).isoformat()
