"""A stream into a table of files, each record exactly once.

The table is its own checkpoint: a commit holds the files and the position they reach, so there is
nothing beside it that could disagree. A step reads [position, end), has executors write it to
files, and commits. Killed before the commit, the step is done again, with other files; killed
after it, it is done.

Records whose bodies do not fit the schema go to a second table, `…~dlq`, which is committed first.
When it turns out to be ahead, a run was stopped between the two: the next step then ends where the
second table ends, and leaves it as it is.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from leporid.spark.errors import OptionError, SparkSourceError
from leporid.spark.offsets import BatchLimits, Offsets, advance, lag, ranges
from leporid.spark.pipelines import files, tasks
from leporid.spark.pipelines.bodies import decoder
from leporid.spark.pipelines.bodies.columns import check_types
from leporid.spark.pipelines.bodies.plain_text import TEXT
from leporid.spark.pipelines.decoding import SAMPLE_ROWS, arrow_columns, infer
from leporid.spark.pipelines.evolution import extended, read
from leporid.spark.pipelines.origin import EARLIEST, Origin, rows_between
from leporid.spark.pipelines.reprocess import put_aside, settle
from leporid.spark.pipelines.run_reports import reader_name, run_name
from leporid.spark.pipelines.runner import Step
from leporid.spark.pipelines.store import (
    FORMATS,
    KEEP_SECONDS,
    Layout,
    Store,
    bad_place,
    keep_settings,
    layout_of,
    locked,
    open_store,
    select_of,
    settings_of,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

# Rows in one commit: some seconds of work, which is what a kill costs.
COMMIT_ROWS = 2_000_000
# Small files of a day are merged when there are so many, into files of about that size.
COMPACT_FILES = 32
FILE_BYTES = 128 * 1024 * 1024

# What a partition's value can be: what has one text, and no rounding.
PARTITION_TYPES = {"string", "boolean", "tinyint", "smallint", "int", "bigint", "date"}

INFER = "infer"
RAW = ""


@dataclass(frozen=True)
class Plan:
    """How an archive is made.

    Attributes:
        place: the folder, or a URL of an object store.
        kind: delta or iceberg.
        start: where a new archive begins: earliest, latest, or a time.
        schema: of bodies: fields as SQL writes them, of JSON also `infer`. With nothing and no
            place of schemas, bytes only are kept.
        body: how bodies are decoded; None is that of the archive, or JSON.
        freshness_seconds: how old a record may get before it is in the table.
        commit_rows: the most in one commit.
        tasks: into how many tasks a step is divided at least.
        compact_files: after so many new files, small ones are merged; 0 is never.
        file_bytes: how large the merged ones are at most.
        keep_seconds: how long merged files and old versions stay for those who read them; None
            is what suits the format.
        reader_name: the broker shows the archive's position as that of a reader of this name; None
            for `USER.archive:PLACE`, empty for none.
        layout: partitions and catalog; None is that of the archive, or the usual one.
    """

    place: str | Path
    kind: str = FORMATS[0]
    start: str = EARLIEST
    schema: str | None = None
    body: decoder.Body | None = None
    freshness_seconds: float = 10.0
    commit_rows: int = COMMIT_ROWS
    tasks: int | None = None
    compact_files: int = COMPACT_FILES
    file_bytes: int = FILE_BYTES
    keep_seconds: float | None = None
    reader_name: str | None = None
    layout: Layout | None = None


@dataclass
class Archive:
    """The pipeline `archive`."""

    spark: SparkSession | None
    origin: Origin
    plan: Plan
    name: str = "archive"
    _schema: str | None = field(default=None, repr=False)
    _begin: Offsets | None = field(default=None, repr=False)
    # The schema that the archive's settings have; None as long as there are none.
    _kept: str | None = None
    _small: int = 0
    _stored: Offsets | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.plan.commit_rows < 1:
            raise OptionError(f"commit rows = {self.plan.commit_rows}: must be at least 1")
        if self.plan.freshness_seconds < 0:
            raise OptionError(f"freshness = {self.plan.freshness_seconds}: must not be less than 0")
        settings = settings_of(self.plan.place)
        layout = self.plan.layout or layout_of(settings)
        self.store: Store = open_store(self.plan.place, self.plan.kind, layout)
        self.bad: Store = open_store(bad_place(self.plan.place), self.plan.kind, layout.of_bad())
        self._check(settings)

    @property
    def labels(self) -> Mapping[str, str]:
        """Say which archive it is, for metrics."""
        return self.origin.labels(self.plan.place)

    @property
    def reader(self) -> str:
        """The name under which the broker shows the archive's position; empty: under none."""
        if self.plan.reader_name is not None:
            return self.plan.reader_name
        return reader_name(self.origin.client.to.user, run_name(self.name, self.labels))

    @property
    def interval_seconds(self) -> float:
        """How long to wait between steps."""
        return self.plan.freshness_seconds

    @property
    def stores(self) -> list[Store]:
        """What it writes to; without a schema nothing is put aside."""
        return [self.store] if self._schema == RAW else [self.store, self.bad]

    def _check(self, settings: Mapping[str, str]) -> None:
        """Refuse a place that is another format's or another stream's archive."""
        self._body = decoder.planned(self.plan.body, settings, self.origin.stream)
        asked = self._asked(new=not settings)
        if not settings:
            self._schema = None if asked == INFER else asked or RAW
            if self._schema is not None:
                check_partitions(self.store.layout, self._schema)
            return
        place, kind, stream = self.plan.place, settings["kind"], settings["stream"]
        if kind != self.plan.kind:
            raise OptionError(f"{place} is an archive in {kind}, not in {self.plan.kind}")
        if layout_of(settings) != self.store.layout:
            raise OptionError(
                f"{place} has other partitions, or another name in a catalog: leave these out, or "
                f"make a new archive"
            )
        if stream != self.origin.stream:
            raise OptionError(
                f"{place} is the archive of stream {stream!r}, not of {self.origin.stream!r}: "
                f"give each stream a place of its own"
            )
        if select_of(settings) != dict(self.origin.select):
            raise OptionError(
                f"{place} was made with another filter ({settings.get('select', 'none')}): "
                f"give the same one, or make a new archive"
            )
        self._schema = self._kept = settings["schema"]
        if asked in {None, INFER, self._schema}:
            return
        if self._schema == RAW:
            raise OptionError(
                f"{place} was made with no schema: leave the schema out, or make a new archive"
            )
        try:
            self._schema = self._extended(asked or "", self._schema)
        except OptionError as error:
            raise OptionError(f"{place}: {error}") from None

    def _extended(self, asked: str, known: str) -> str:
        """Return the archive's schema with what is asked for."""
        return extended(known, asked, wider=self.plan.kind == "iceberg")

    def _asked(self, *, new: bool) -> str | None:
        """Return the schema that is asked for, with the newest one of the place of schemas."""
        asked, body = self.plan.schema, self._body
        if body.schemas:
            if asked is not None:
                raise OptionError("the columns come from the schemas: leave the schema out")
            self._body = decoder.with_reader(body)
            return self._body.columns
        if body.format == "text":
            if asked is not None:
                raise OptionError(f"bodies of text have the schema `{TEXT}`: leave the schema out")
            return TEXT
        explicit = asked not in {None, INFER}
        if body.format != "json" and not (explicit or (asked is None and not new)):
            raise OptionError(
                f'bodies in {body.format} need a schema such as "id bigint, name string", with the '
                f"fields in their order"
            )
        if explicit and body.format != "json":
            decoder.check_columns(replace(body, columns=asked or ""))
        elif explicit:
            check_types(read(asked or ""))
        return asked

    # ------------------------------------------------------------ what is to be done

    def position(self) -> Offsets:
        """Return where the archive ends; for a new one, where it is to begin."""
        return self.store.ends() or self._beginning()

    def _beginning(self) -> Offsets:
        # Asked for once: `latest` is where the stream ended when the run began.
        if self._begin is None:
            self._begin = self.origin.begin(self.plan.start)
        return self._begin

    def check(self) -> None:
        """Refuse a stream that is not there, a start that is none, a place that is read-only."""
        self.origin.check()
        self.store.check()
        others = {key.stream for key in self.position()} - {self.origin.stream}
        if others:
            # The settings are in the folder, and a table in a catalog may have another one.
            raise OptionError(
                f"{self.plan.place}: the table {self.store.layout.table} has records of stream "
                f"{min(others)!r}: give each stream a table of its own"
            )

    def describe(self) -> list[str]:
        """Say what a run would do."""
        start, parts = self.position(), self.origin.parts()
        current, losses = self.origin.reconciled(start, parts)
        return [
            f"stream {self.origin.stream!r} to {self.plan.kind} in {self.plan.place}",
            *(
                f"  {key}: from offset {at.offset} to {parts[key].end}"
                for key, at in sorted(current.items())
                if key in parts
            ),
            *losses,
            f"{lag(current, parts):,} records, at most {self.plan.commit_rows:,} in a commit",
        ]

    def wait(self, seconds: float) -> None:
        """Return when there is something to archive, or after the time."""
        self.origin.wait(self.position(), seconds)

    # ------------------------------------------------------------ one step

    def step(self) -> Step:
        """Archive what there is, up to the limit; return how much it was and what is left."""
        with locked(self.plan.place):
            return self._step()

    def _step(self) -> Step:
        settled = ""
        if self._kept not in {None, RAW}:
            settled = settle(self.store, self.bad)
        if settled:
            # What decoded records again may have brought new fields.
            self._kept = settings_of(self.plan.place)["schema"]
            self._schema = self._extended(self._schema or "", self._kept)
        before = self.store.ends()
        parts = self.origin.parts()
        start = before or self._beginning()
        current, losses = self.origin.reconciled(start, parts)
        for loss in losses:
            log.warning("%s; going on, as records may be lost", loss)
        ahead = self._ahead(current)
        end = ahead or advance(current, parts, BatchLimits(rows_max=self.plan.commit_rows))
        rows = rows_between(current, end)
        if not rows:
            self._store(current)
            return Step(0, lag(current, parts))
        good, bad = self._write(current, end, put_aside(self.bad, current) if ahead else {})
        if bad:
            reached = self.bad.ends()
            self.bad.commit(bad, reached, reached if ahead else end)
        self.store.commit(good, before, end, settled)
        self._store(end)
        refused = sum(file.rows for file in bad)
        self._tidy(len(good))
        note = f"{refused:,} of them bad" if refused else ""
        if not self.origin.select:
            return Step(rows, lag(end, parts), note, put_aside=refused)
        kept = sum(file.rows for file in good) + refused
        return Step(kept, lag(end, parts), note, passed=rows, put_aside=refused)

    def _store(self, position: Offsets) -> None:
        """Show the position at the broker; the table remains the one that counts."""
        reader = self.reader
        if not reader or position == self._stored:
            return
        try:
            self.origin.store(reader, position)
            self._stored = position
        except SparkSourceError as error:
            log.warning("the position of reader %r was not stored: %s", reader, error)

    def _ahead(self, current: Offsets) -> Offsets | None:
        """Return where the table of bad records ends, if that is ahead of the archive."""
        if self._schema == RAW:
            return None
        ends = self.bad.ends()
        if not any(key in current and at.offset > current[key].offset for key, at in ends.items()):
            return None
        return {key: ends.get(key, at) for key, at in current.items()}

    def _write(
        self, start: Offsets, end: Offsets, aside: Mapping[int, list[int]]
    ) -> tuple[list[files.DataFile], list[files.DataFile]]:
        assert self.spark is not None
        self._schema = self._schema_of(start, end)
        if self._kept is None:
            # Kept for good, so Spark has to know its types.
            arrow_columns(self._schema)
            self._keep(self._schema)
            if self._schema != RAW:
                layout = self.bad.layout.settings()
                keep_settings(self.bad.root, self._settings(RAW) | layout | {"bad": "true"})
        if self._schema not in {RAW, self._kept}:
            # The table first: killed between, the next run finds the new fields there.
            columns = pa.table([pa.nulls(0, arrow_columns(self._schema))], ["value"])
            self.store.extend(files.in_utc(columns).schema)
            self._keep(self._schema)
            log.info("the schema of %s has new fields: %s", self.plan.place, self._schema)
        job = tasks.Job(
            self.origin.connection,
            self.origin.read_options(),
            self.store.folder,
            self.bad.folder,
            self.store.layout.partition_by,
            replace(self._body, columns=self._schema),
            aside,
        )
        good, bad = tasks.write(self.spark, job, ranges(start, end), self.plan.tasks)
        if not good and not self.store.ends():
            good = [tasks.write_empty(self._schema, self.store.folder)]
        return good, bad

    def _schema_of(self, start: Offsets, end: Offsets) -> str:
        """Return the schema of a step's bodies: with `infer`, new fields may come at any time."""
        if self._schema is not None and self._body.schemas and self._schema != RAW:
            # Asked for after the end was planned, so it is not older than any message before it.
            return self._extended(self._asked(new=False) or "", self._schema)
        if self._schema is not None and (self._schema == RAW or self.plan.schema != INFER):
            return self._schema
        bodies = list(self.origin.bodies(start, end, SAMPLE_ROWS))
        if self._schema is not None:
            found = infer(bodies, certain=True)
            return extended(self._schema, found, only_new=True) if found else self._schema
        found = infer(bodies)
        if found is None:
            raise OptionError(
                f"no schema can be inferred: none of the first bodies of stream "
                f"{self.origin.stream!r} is a JSON object; give a schema, or archive bytes only"
            )
        check_partitions(self.store.layout, found)
        log.info("inferred schema: %s", found)
        return found

    def _settings(self, schema: str) -> dict[str, str]:
        found = {"stream": self.origin.stream, "kind": self.plan.kind, "schema": schema}
        select = self.origin.select
        found |= {"select": json.dumps(dict(select))} if select else {}
        return found | ({} if schema == RAW else decoder.settings_of(self._body))

    def _keep(self, schema: str) -> None:
        keep_settings(self.plan.place, self._settings(schema) | self.store.layout.settings())
        self._kept = schema

    def _tidy(self, added: int) -> None:
        self._small += added
        if 0 < self.plan.compact_files <= self._small:
            self._small = 0
            try:
                tidy(self.store, self.plan)
            except SparkSourceError as error:
                # The step is done; another process puts the table in order, or the next time will.
                log.warning("small files were not merged: %s", error)


def check_partitions(layout: Layout, schema: str) -> None:
    """Refuse partitions by what is no field of the bodies.

    Raises:
        OptionError: which one.
    """
    kinds = read(schema) if schema else {}
    for name in layout.partition_by:
        if name in files.PARTITIONS:
            continue
        kind = kinds.get(files.column_of(name))
        if kind is None:
            known = ", ".join(kinds) or "none: there is no schema"
            raise OptionError(f"partitions by {name}: the bodies' fields are {known}")
        if not isinstance(kind, str) or kind not in PARTITION_TYPES:
            raise OptionError(
                f"partitions by {name}: it must be one of {', '.join(sorted(PARTITION_TYPES))}"
            )


def tidy(store: Store, plan: Plan) -> int:
    """Merge small files, and remove what nobody needs any more; return how many were merged."""
    gone = store.compact(plan.compact_files, plan.file_bytes)
    keep = KEEP_SECONDS[plan.kind] if plan.keep_seconds is None else plan.keep_seconds
    removed = store.vacuum(keep)
    if gone or removed:
        log.info("%s: merged %d small files, removed %d old ones", store.root, gone, removed)
    return gone


def archive(
    spark: SparkSession,
    stream: str,
    place: str | Path,
    *,
    options: Mapping[str, str] | None = None,
    **more: Any,
) -> int:
    """Archive everything that a stream holds now; return how many records were new.

    Args:
        spark: the session.
        stream: its name.
        place: the folder or the URL of the archive.
        options: how to reach the broker.
        more: the other attributes of `Plan`: kind, schema, ….
    """
    pipeline = Archive(spark, Origin(stream, options or {}), Plan(place, **more))
    until = {key: part.end for key, part in pipeline.origin.parts().items()}
    rows = 0
    while True:
        step = pipeline.step()
        rows += step.rows
        ends = pipeline.position()
        if not step.rows or all(ends[key].offset >= until[key] for key in until if key in ends):
            return rows
