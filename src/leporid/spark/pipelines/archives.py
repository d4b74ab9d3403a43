"""Several streams into a table each, in one run; and tables put in order without archiving.

A table each, not one with all of them: that is what Kafka Connect's sinks do with topics unless
told otherwise. Streams differ in schema, in retention and in who may read them, and a table ends
at one position of one stream. The column `stream` is in each, so a union of them is one query.

Invariant: a stream whose step fails does not keep the others from theirs.
"""

from __future__ import annotations

import logging
import re
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from leporid.spark import options
from leporid.spark.errors import OptionError
from leporid.spark.offsets import Offsets
from leporid.spark.options import Reading
from leporid.spark.pipelines.archive import Archive, Plan, tidy
from leporid.spark.pipelines.origin import Origin
from leporid.spark.pipelines.reprocess import settle
from leporid.spark.pipelines.runner import Step, first
from leporid.spark.pipelines.store import bad_place, existing, locked, settings_of
from leporid.spark.survey import Survey

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

# Stands for the stream's name, in the place and in the table's name.
STREAM = "{stream}"


@dataclass
class Archives:
    """The pipeline `archive` over several streams.

    Attributes:
        origin: how to reach the broker, and which records; its stream is not used.
        plan: of each; `place`, and the table of a catalog, have `{stream}` in them.
        reading: which streams: their names, or a pattern, which new ones may match, too.
    """

    spark: SparkSession | None
    origin: Origin
    plan: Plan
    reading: Reading
    name: str = "archive"
    _made: dict[str, Archive] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        layout = self.plan.layout
        texts = [str(self.plan.place), (layout and layout.table) or STREAM]
        if any(STREAM not in text for text in texts):
            raise OptionError(
                f"each of several streams has a table of its own: have {STREAM} in "
                f"{texts[0]!r} and in the table's name"
            )
        self._survey = Survey(self.origin.client, self.reading)

    @property
    def labels(self) -> Mapping[str, str]:
        """Say which ones they are, for metrics."""
        names = ",".join(self.reading.streams or ()) or self.reading.pattern or ""
        return replace(self.origin, stream=names).labels(str(self.plan.place))

    @property
    def reader(self) -> str:
        """The name under which the broker shows each position; empty: each archive has its own."""
        return self.plan.reader_name or ""

    @property
    def interval_seconds(self) -> float:
        """How long to wait between steps."""
        return self.plan.freshness_seconds

    def _archives(self) -> list[Archive]:
        """Return an archive for each stream that there is now; a new one is checked."""
        for name in self._survey.names():
            if name not in self._made:
                made = Archive(
                    self.spark, replace(self.origin, stream=name), plan_of(self.plan, name)
                )
                for other in self._made.values():
                    if tables_of(other) & tables_of(made):
                        raise OptionError(
                            f"streams {name!r} and {other.origin.stream!r} would share a table: "
                            f"archive one of them in a run of its own, with another name"
                        )
                made.check()
                self._made[name] = made
        for archive in self._made.values():
            archive.spark = self.spark
        return list(self._made.values())

    def check(self) -> None:
        """Refuse streams that are not there, and places that cannot be written to."""
        self._survey.check()
        self._archives()

    def describe(self) -> list[str]:
        """Say what a run would do."""
        found = [line for archive in self._archives() for line in archive.describe()]
        return found or [f"no stream matches {self.reading.pattern!r} yet"]

    def position(self) -> Offsets:
        """Return where the archives end."""
        return {key: at for each in self._made.values() for key, at in each.position().items()}

    def wait(self, seconds: float) -> None:
        """Return when there is something to archive, or after the time."""
        self._survey.wait(self.position(), int(seconds * 1000))

    def step(self) -> Step:
        """Archive what there is of each stream, up to the limit of each.

        Raises:
            Exception: of the first that failed, after all others had their turn.
        """
        done: list[Step] = []
        failed: list[tuple[str, Exception]] = []
        for archive in self._archives():
            try:
                done.append(archive.step())
            except Exception as error:  # noqa: BLE001 - raised below
                failed.append((archive.origin.stream, error))
        for stream, other in failed[1:]:
            log.warning("stream %r: %s", stream, first(other))
        if failed:
            raise failed[0][1]
        return Step(
            sum(step.rows for step in done),
            sum(step.lag or 0 for step in done),
            "; ".join(step.note for step in done if step.note),
            sum(step.rows if step.passed is None else step.passed for step in done),
            sum(step.put_aside for step in done),
        )


def reading_of(streams: str | None = None, pattern: str | None = None) -> Reading:
    """Return which streams are meant: names between commas, or a pattern.

    Raises:
        OptionError: they are none.
    """
    given = {"streams": streams, "streamPattern": pattern}
    named = {name: value for name, value in given.items() if value is not None}
    return options.reading(options.check_all(named))


def tables_of(archive: Archive) -> set[tuple[str | None, str]]:
    """Return what no other archive may have: places, and names in a catalog.

    `orders_dlq` is the table of what was put aside of `orders`, and may be a stream of its own.
    """
    found: set[tuple[str | None, str]] = set()
    for store in archive.stores:
        found.add((None, str(store.root)))
        if store.layout.table:
            found.add((store.layout.catalog, store.layout.table))
    return found


def plan_of(plan: Plan, stream: str) -> Plan:
    """Return the plan of one of the streams."""
    name = urllib.parse.quote(stream, safe="")
    # A name of dots alone is a folder of a file system's own.
    name = name if name.strip(".") else name.replace(".", "%2E")
    layout = plan.layout
    if layout is not None and layout.table is not None:
        table = layout.table.replace(STREAM, re.sub(r"\W", "_", stream))
        layout = replace(layout, table=table)
    return replace(plan, place=str(plan.place).replace(STREAM, name), layout=layout)


@dataclass
class Compact:
    """The pipeline `compact`: merges an archive's small files, and removes old ones.

    It may run beside `archive`: of two commits at once one is refused, and made again later.
    """

    plan: Plan
    interval_seconds: float = 3600.0
    name: str = "compact"
    # Never needed.
    spark: SparkSession | None = None

    @property
    def labels(self) -> Mapping[str, str]:
        """Say which archive it is, for metrics."""
        return {"stream": "", "vhost": "", "target": str(self.plan.place)}

    def check(self) -> None:
        """Refuse a place where there is no archive."""
        store, _ = existing(self.plan.place)
        store.check()

    def describe(self) -> list[str]:
        """Say what a run would do."""
        store, settings = existing(self.plan.place)
        return [f"{len(store.state()[0])} files of {settings['kind']} in {store.root}"]

    def step(self) -> Step:
        """Put the table and that of bad records in order; return how many files were merged."""
        store, settings = existing(self.plan.place)
        plan = replace(self.plan, kind=settings["kind"])
        gone = tidy(store, plan)
        if settings_of(bad_place(self.plan.place)):
            bad, _ = existing(bad_place(self.plan.place))
            # Not between the two commits of a step of `reprocess`, the second of which names files.
            with locked(self.plan.place):
                settle(store, bad)
                gone += tidy(bad, plan)
        return Step(gone, 0, f"{len(store.state()[0])} files now")

    def wait(self, seconds: float) -> None:
        """Return at once: time alone makes work."""
