"""Dead letters: why messages died, where, since when; and sending some of them back.

The letters are in a stream that a dead-letter exchange feeds. The broker writes what happened into
the header `x-death`, the newest death first; here it becomes columns. Sending back (`redrive`) is a
replay whose messages go where they were first published to, without the traces of their deaths.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from leporid.spark.offsets import Offsets, Position
from leporid.spark.pipelines import letters as few
from leporid.spark.pipelines.origin import Origin
from leporid.spark.pipelines.replay import Replay, ReplayPlan
from leporid.spark.pipelines.runner import Step
from leporid.spark.pipelines.store import existing
from leporid.spark.pipelines.table import moment_us, table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

X_DEATH = (
    "array<struct<reason: string, queue: string, exchange: string, `routing-keys`: array<string>, "
    "count: bigint, time: string>>"
)

# What is printed at most.
REASONS_MAX = 50
SAMPLES_MAX = 100

# Headers that the broker writes when a message dies.
TRACES = "^x-(death|first-death-.*|last-death-.*)$"


def letters(df: DataFrame) -> DataFrame:
    """Add what is known of each message's death.

    The columns are `reason`, `queue`, `died_from_exchange`, `died_from_key`, `deaths` (how often,
    all in all) and `died_at`.
    """
    from pyspark.sql import functions as f

    said = f.from_json(f.col("headers").getItem("x-death"), X_DEATH)
    parsed = df.withColumn("_deaths", said).withColumn("_last", f.get("_deaths", f.lit(0)))
    counts = f.aggregate(
        "_deaths",
        f.lit(0).cast("bigint"),
        lambda sum_, each: sum_ + f.coalesce(each["count"], f.lit(1)),
    )
    return (
        parsed.withColumn("reason", f.col("_last.reason"))
        .withColumn("queue", f.col("_last.queue"))
        .withColumn("died_from_exchange", f.col("_last.exchange"))
        .withColumn("died_from_key", f.get(f.col("_last.routing-keys"), f.lit(0)))
        .withColumn("deaths", counts)
        .withColumn("died_at", f.try_to_timestamp(f.col("_last.time")))
        .drop("_deaths", "_last")
    )


def summary(df: DataFrame) -> DataFrame:
    """Count letters by reason and queue: how many, since when, how often they died."""
    from pyspark.sql import functions as f

    return (
        df.groupBy("reason", "queue", "died_from_exchange")
        .agg(
            f.count("*").alias("letters"),
            f.countDistinct("died_from_key").alias("keys"),
            f.min("timestamp").alias("oldest"),
            f.max("timestamp").alias("newest"),
            f.max("deaths").alias("deaths_max"),
        )
        .withColumn("age", _span(f.unix_timestamp() - f.unix_timestamp("oldest")))
        .orderBy(f.desc("letters"), "reason", "queue")
    )


def _span(seconds: Column) -> Column:
    """Write a number of seconds as in 2 d 03:04:05; Spark shows an interval as a literal."""
    from pyspark.sql import functions as f

    parts = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60)
    return f.format_string("%d d %02d:%02d:%02d", *(f.floor(part) for part in parts))


def samples(df: DataFrame, count: int = 3, characters: int = 80) -> DataFrame:
    """Return the newest letters of each reason and queue, with the beginning of their bodies."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    order = Window.partitionBy("reason", "queue").orderBy(
        f.desc("timestamp"), f.desc("partition"), f.desc("offset")
    )
    ranked = df.withColumn("_rank", f.row_number().over(order)).where(f.col("_rank") <= count)
    return ranked.select(
        "reason",
        "queue",
        "partition",
        "offset",
        "timestamp",
        "died_from_key",
        f.substring(f.col("body").cast("string"), 1, characters).alias("body"),
    ).orderBy("reason", "queue", f.desc("timestamp"), f.desc("offset"))


def returned(df: DataFrame) -> DataFrame:
    """Return letters as they are published again: to where they died from, without its traces."""
    from pyspark.sql import functions as f

    known = letters(df) if "died_from_key" not in df.columns else df
    return (
        known.where(f.col("died_from_key").isNotNull())
        .withColumn("exchange", f.coalesce("died_from_exchange", f.lit("")))
        .withColumn("routing_key", f.col("died_from_key"))
        .withColumn("headers", f.map_filter("headers", lambda key, _: ~f.rlike(key, f.lit(TRACES))))
    )


class Redrive(Replay):
    """Sends letters back; `where` may use the columns of `letters`."""

    def __init__(self, spark: SparkSession | None, origin: Origin, plan: ReplayPlan) -> None:
        super().__init__(spark, origin, plan, change=returned, name="redrive")

    def _selected(self, df: DataFrame) -> DataFrame:
        return super()._selected(letters(df))

    def needs_spark(self) -> bool:
        """Whether there are too many letters, or too much is asked, to do it without."""
        if self.plan.archive is not None or few.condition(self.plan.where) is None:
            return True
        return not few.are_few(self.origin)

    def _few(
        self, start: Offsets | None = None, end: Offsets | None = None
    ) -> tuple[pa.Table, list[few.Row]]:
        """Return the selected letters between two positions, or all."""
        holds = few.condition(self.plan.where)
        assert holds is not None
        first, last = moment_us(self.plan.since), moment_us(self.plan.until)
        letters_ = few.read(self.origin, start, end)
        rows = few.rows_of(letters_)
        at_us = letters_.column("timestamp").cast(pa.int64()).to_pylist()
        kept = [
            at
            for at, row in enumerate(rows)
            if (first is None or at_us[at] >= first)
            and (last is None or at_us[at] < last)
            and holds(row)
        ]
        return letters_.take(pa.array(kept, pa.int64())), [rows[at] for at in kept]

    def _survey(self) -> tuple[Offsets, Offsets, int, int]:
        if self.spark is not None:
            return super()._survey()
        _, rows = self._few()
        start, end = self.origin.begin(), self.origin.begin()
        for key, least, most in few.extent(rows, self.origin.stream):
            start[key], end[key] = Position(least, "", least), Position(most + 1, "", least)
        return start, end, len(rows), 0

    def _outgoing(self, start: Offsets, end: Offsets) -> Any:
        if self.spark is not None:
            return super()._outgoing(start, end)
        found = few.returned(*self._few(start, end), TRACES)
        for name in ("exchange", "routing_key"):
            given = getattr(self.plan, name)
            if given is not None:
                column = pa.array([given] * found.num_rows, pa.string())
                found = found.set_column(found.schema.get_field_index(name), name, column)
        return found.sort_by([("partition", "ascending"), ("offset", "ascending")])


@dataclass
class DeadLetters:
    """The pipeline `deadletters`: says what is there."""

    spark: SparkSession | None
    origin: Origin
    archive: str | Path | None = None
    interval_seconds: float = 60.0
    samples_per_reason: int = 3
    name: str = "deadletters"

    @property
    def labels(self) -> Mapping[str, str]:
        """Say which stream of letters it is, for metrics."""
        return self.origin.labels()

    def check(self) -> None:
        """Refuse an archive, or without one a stream, that is not there."""
        if self.archive is None:
            self.origin.parts()
        else:
            existing(self.archive)

    def describe(self) -> list[str]:
        """Say what a run would do."""
        rows = sum(part.end - part.first for part in self.origin.parts().values())
        return [f"look through {rows:,} letters in stream {self.origin.stream!r}"]

    def wait(self, seconds: float) -> None:
        """Return when another letter came, or after the time."""
        self.origin.wait(self.origin.begin("latest"), seconds)

    def needs_spark(self) -> bool:
        """Whether there are too many letters to do it without."""
        return self.archive is not None or not few.are_few(self.origin)

    def step(self) -> Step:
        """Print reasons and samples."""
        if self.spark is None:
            rows = few.rows_of(few.read(self.origin))
            count = len(rows)
            reasons, newest = few.summary(rows), few.samples(rows, self.samples_per_reason)
        else:
            count, reasons, newest = self._of_many()
        for each in (reasons[:REASONS_MAX], newest[:SAMPLES_MAX]):
            sys.stdout.write(few.grid(each) + "\n")
        return Step(count, 0)

    def _of_many(self) -> tuple[int, list[few.Row], list[few.Row]]:
        """Return how many letters there are, their reasons and samples."""
        assert self.spark is not None
        options = self.origin.options
        # A letter counts, whether or not its body fits the archive's schema.
        found = letters(
            table(self.spark, self.origin.stream, self.archive, options=options, include_bad=True)
        )
        found.persist()
        try:
            reasons = summary(found).limit(REASONS_MAX).toArrow().to_pylist()
            newest = samples(found, self.samples_per_reason).limit(SAMPLES_MAX)
            return found.count(), reasons, newest.toArrow().to_pylist()
        finally:
            found.unpersist()
