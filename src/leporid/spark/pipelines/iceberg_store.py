"""An archive as an Iceberg table, written without Spark's own Iceberg: by `pyiceberg`.

The executors have written the files; a snapshot adds their names to the table, and has the position
among its properties. The catalog is a file beside the table (`catalog.db`, SQLite), the table is
`leporid.records`, partitioned by the day of `timestamp`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.expressions import And, BooleanExpression, GreaterThanOrEqual, LessThan
from pyiceberg.table import Table
from pyiceberg.transforms import DayTransform

from leporid.spark.offsets import Offsets, from_json, to_json
from leporid.spark.pipelines.files import DataFile
from leporid.spark.pipelines.store import ENDS, Store, check_position

NAMESPACE = "leporid"
TABLE = "leporid.records"


class IcebergStore(Store):
    """An Iceberg table and its catalog in a folder."""

    def _catalog(self) -> SqlCatalog:
        self.root.mkdir(parents=True, exist_ok=True)
        return SqlCatalog(
            NAMESPACE, uri=f"sqlite:///{self.root / 'catalog.db'}", warehouse=self.root.as_uri()
        )

    def table(self) -> Table | None:
        """Return the table; None as long as nothing was committed."""
        if not (self.root / "catalog.db").exists():
            return None
        try:
            return self._catalog().load_table(TABLE)
        except NoSuchTableError:
            return None

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

    def commit(self, files: Sequence[DataFile], before: Offsets, ends: Offsets) -> None:
        """Add files, and move the position."""
        table = self.table()
        check_position(self.root, ends_of(table), before)
        if table is None:
            catalog = self._catalog()
            catalog.create_namespace_if_not_exists(NAMESPACE)
            table = catalog.create_table(TABLE, pq.read_schema(self.folder / files[0].name))
        if table.spec().is_unpartitioned():
            with table.update_spec() as update:
                update.add_field("timestamp", DayTransform(), "day")
        table.add_files(
            [str(self.folder / file.name) for file in files if file.rows],
            snapshot_properties={ENDS: json.dumps(to_json(ends))},
            check_duplicate_files=False,
        )

    def extend(self, columns: pa.Schema) -> None:
        """Add columns and fields of structs."""
        table = self.table()
        if table is not None:
            with table.update_schema() as update:
                update.union_by_name(columns)

    def compact(self, files_min: int, bytes_max: int) -> int:
        """Write a day's rows anew if it has so many small files; a day has to fit in memory.

        So a day with more bytes than four large files is left as it is.
        """
        table = self.table()
        if table is None:
            return 0
        days: dict[date, list[int]] = defaultdict(list)
        for task in table.scan().plan_files():
            days[day_of(task.file.partition[0])].append(task.file.file_size_in_bytes)
        gone = 0
        for day, sizes in days.items():
            small = [size for size in sizes if size < bytes_max // 2]
            if len(small) < max(2, files_min) or sum(sizes) > 4 * bytes_max:
                continue
            rows = table.scan(row_filter=within(day)).to_arrow()
            kept = {ENDS: json.dumps(to_json(ends_of(table)))}
            table.overwrite(rows, overwrite_filter=within(day), snapshot_properties=kept)
            gone += len(sizes)
        return gone

    def vacuum(self, keep_seconds: float) -> int:
        """Forget old snapshots; pyiceberg leaves their files where they are."""
        table = self.table()
        if table is not None:
            until = datetime.now(UTC) - timedelta(seconds=keep_seconds)
            table.maintenance.expire_snapshots().older_than(until.replace(tzinfo=None)).commit()
        return 0


def ends_of(table: Table | None) -> Offsets:
    """Return the position that the newest snapshot with one has."""
    snapshot = None if table is None else table.current_snapshot()
    while table is not None and snapshot is not None:
        summary = snapshot.summary
        if summary is not None and ENDS in summary.additional_properties:
            return from_json(json.loads(summary.additional_properties[ENDS]))
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else table.snapshot_by_id(parent)
    return {}


def day_of(partition: int | date) -> date:
    """Return the day of a partition, which Iceberg counts from 1970 on."""
    if isinstance(partition, date):
        return partition
    return date(1970, 1, 1) + timedelta(days=partition)


def within(day: date) -> BooleanExpression:
    """Return the condition of a day."""
    begin = datetime(day.year, day.month, day.day, tzinfo=UTC)
    end = begin + timedelta(days=1)
    return And(
        GreaterThanOrEqual("timestamp", begin.isoformat()), LessThan("timestamp", end.isoformat())
    )


def moment(at_us: int) -> str:
    """Return a time as Iceberg's conditions have it."""
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at_us)).isoformat()
