"""A table of tasks as messages that arrive at their time, each task once however often this runs.

The broker keeps the clock: a task is published at once, with `deliver_at`. What was published is in
a ledger, a folder of this pipeline's own:

    LEDGER/producer                       the name under which the broker knows the messages
    LEDGER/planned-00000000000000000120.arrow   messages from number 120 on, about to be published
    LEDGER/sent/00000000000000000000-120.parquet    the ids of messages 0 to 119, published

A batch is written down whole before it is published. After a kill it is published again, with the
same content and the same numbers, and the broker leaves out what it has.

A task that is changed or deleted after it was handed over still comes as it was: keep `horizon`
short if that happens.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from leporid.spark.errors import OptionError
from leporid.spark.http import Client
from leporid.spark.pipelines.places import place_of, sync, written
from leporid.spark.pipelines.publishing import Numbered
from leporid.spark.pipelines.runner import Step
from leporid.spark.schema import nearest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BATCH_ROWS = 20_000

# What a task has, besides what can be published.
ID = "id"
TIME = "execute_at"
NEEDED = (ID, TIME, "body")
ALLOWED = ("exchange", "routing_key", "headers", "properties")


FORMATS = ("parquet", "csv", "json", "orc", "text", "xml", "avro", "delta")
"""Formats of Spark's readers that are files, or folders of them."""
OTHER_FORMATS = ("jdbc", "iceberg")


def check_tasks(place: str, kind: str) -> None:
    """Refuse, before Spark starts, what it would refuse then.

    A format may have any name that a package on Spark's class path gives it, so only those are
    refused that look like a slip.

    Raises:
        OptionError: the name is nearly that of a format, or there are no such files.
    """
    known = (*FORMATS, *OTHER_FORMATS)
    if kind not in known and (near := nearest(kind, known)):
        raise OptionError(f"there is no format {kind!r}{near}")
    # Places elsewhere, and patterns, are for Spark to look at.
    if kind not in FORMATS or ":" in place or set(place) & set("*?[{"):
        return
    if not Path(place).exists():
        raise OptionError(f"--tasks {place!r}: there is no such file or folder")


def due(tasks: DataFrame, sent: DataFrame | None, until: datetime | None = None) -> DataFrame:
    """Return the tasks that are to be published, the earliest first, as messages with an id.

    Args:
        tasks: with the columns id, execute_at, body, and some of exchange, routing_key, headers,
            properties.
        sent: the ids that were published, as text.
        until: leave out what is to be executed later.

    Raises:
        OptionError: a column is missing.
    """
    from pyspark.sql import functions as f

    missing = [name for name in NEEDED if name not in tasks.columns]
    if missing:
        raise OptionError(
            f"the tasks have no column {', '.join(map(repr, missing))}; they have "
            f"{', '.join(tasks.columns)}: rename with --select"
        )
    columns = [f.col(name) for name in ("body", *ALLOWED) if name in tasks.columns]
    found = tasks.where(f.col(ID).isNotNull() & f.col(TIME).isNotNull()).select(
        f.col(ID).cast("string").alias(ID), f.to_timestamp(TIME).alias("deliver_at"), *columns
    )
    if until is not None:
        found = found.where(f.col("deliver_at") <= f.lit(until))
    if sent is not None:
        found = found.join(sent, ID, "left_anti")
    return found.dropDuplicates([ID]).orderBy("deliver_at", ID)


@dataclass
class Ledger:
    """What was published, in a folder."""

    root: Path

    def producer(self) -> str:
        """Return the name of the messages' producer, made up once."""
        path = self.root / "producer"
        if not path.exists():
            self.root.mkdir(parents=True, exist_ok=True)
            written(self.root, f"schedule/{uuid.uuid4().hex}").replace(path)
            sync(self.root)
        return path.read_text(encoding="utf-8")

    @property
    def sent(self) -> Path:
        """Where the ids are."""
        return self.root / "sent"

    def next_number(self) -> int:
        """Return the number of the next message that was never planned."""
        ends = [sum(map(int, path.stem.split("-"))) for path in self.sent.glob("*.parquet")]
        return max(ends, default=0)

    def planned(self) -> tuple[int, pa.Table] | None:
        """Return the batch that was about to be published, if any."""
        for path in sorted(self.root.glob("planned-*.arrow")):
            number = int(path.stem.removeprefix("planned-"))
            if number < self.next_number():
                # Published and noted; the run was stopped before it could remove the plan.
                path.unlink()
                continue
            with pa.ipc.open_file(path) as file:
                return number, file.read_all()
        return None

    def plan(self, rows: pa.Table) -> int:
        """Write a batch down; return the number of its first message."""
        number = self.next_number()
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, rows.schema) as file:
            file.write_table(rows)
        draft = written(self.root, sink.getvalue().to_pybytes())
        draft.replace(self.root / f"planned-{number:020}.arrow")
        sync(self.root)
        return number

    def done(self, number: int, rows: pa.Table) -> None:
        """Note that a batch is published."""
        self.sent.mkdir(exist_ok=True)
        sink = pa.BufferOutputStream()
        pq.write_table(rows.select([ID]), sink)
        draft = written(self.root, sink.getvalue().to_pybytes())
        draft.replace(self.sent / f"{number:020}-{rows.num_rows}.parquet")
        sync(self.sent)
        (self.root / f"planned-{number:020}.arrow").unlink(missing_ok=True)


@dataclass
class Schedule:
    """The pipeline `schedule`.

    Attributes:
        tasks: makes the DataFrame of tasks, anew for each step, as the table grows.
        client: the broker.
        ledger: what was published.
        exchange: where tasks go that name no exchange.
        horizon_seconds: hand tasks over so long before their time; None is at once.
    """

    tasks: Callable[[SparkSession], DataFrame]
    client: Client
    ledger: Ledger
    exchange: str = ""
    horizon_seconds: float | None = None
    batch_rows: int = BATCH_ROWS
    interval_seconds: float = 10.0
    name: str = "schedule"
    spark: SparkSession | None = None
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    @property
    def labels(self) -> Mapping[str, str]:
        """Say which table of tasks it is, for metrics."""
        return {"stream": "", "vhost": self.client.to.vhost, "target": str(self.ledger.root)}

    def waiting(self) -> DataFrame:
        """Return the tasks that are not published yet."""
        assert self.spark is not None
        tasks = self.tasks(self.spark)
        sent = None
        if any(self.ledger.sent.glob("*.parquet")):
            sent = tasks.sparkSession.read.schema(f"{ID} string").parquet(str(self.ledger.sent))
        until = None
        if self.horizon_seconds is not None:
            until = self.now() + timedelta(seconds=self.horizon_seconds)
        return due(tasks, sent, until)

    def check(self) -> None:
        """Refuse a ledger that cannot be written, and a broker that is away or does not know us."""
        place_of(self.ledger.root).check("")
        self.client.streams()

    def describe(self) -> list[str]:
        """Say what a run would do."""
        found = self.waiting()
        first = found.limit(3).collect()
        return [
            f"{found.count():,} tasks to publish to {self.exchange or '(default)'!r}",
            *(f"  {row[ID]} at {row['deliver_at']}" for row in first),
        ]

    def wait(self, seconds: float) -> None:
        """Return at once: only reading the table tells whether there are new tasks."""

    def step(self) -> Step:
        """Publish one batch: what was planned before, or the next tasks."""
        out = Numbered(self.client, self.ledger.producer(), self.exchange)
        planned = self.ledger.planned()
        if planned is None:
            rows = self.waiting().limit(self.batch_rows).toArrow()
            if not rows.num_rows:
                return Step(0, 0)
            planned = self.ledger.plan(rows), rows
        number, rows = planned
        again = out.publish(rows, number)
        self.ledger.done(number, rows)
        note = f"{again:,} were there already" if again else ""
        # A full batch may leave more; how many, only counting all of them would tell.
        return Step(rows.num_rows, 1 if rows.num_rows >= self.batch_rows else 0, note)
