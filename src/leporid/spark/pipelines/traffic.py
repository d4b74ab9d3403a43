"""What goes through a stream: rates, sizes, delays, the busiest keys, sessions.

Each question is a function from DataFrame to DataFrame; those that group by time work on batches
and, with a watermark (`late_after`), on streaming queries. `Traffic` is the pipeline that answers
all of them over archive and live stream, and writes tables and a page.

The delay of a message is the time between `sent_at`, which its publisher wrote, and the broker's
own timestamp. AMQP's `timestamp` property has whole seconds; a header with milliseconds is better,
and is taken where there is one.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leporid.spark.offsets import Offsets, lag
from leporid.spark.pipelines import report
from leporid.spark.pipelines.origin import Origin
from leporid.spark.pipelines.runner import Step
from leporid.spark.pipelines.table import BAD_REASON, table

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

MINUTE = "1 minute"
# How long a key may be silent within one session.
SESSION_GAP = "5 minutes"
# How much later than others a message may be counted, in a streaming query.
LATE_AFTER = "2 minutes"
TOP_KEYS = 20

# Headers in which publishers write milliseconds since 1970: RabbitMQ's own, and Celery-like ones.
SENT_HEADERS = ("x-sent-ms", "timestamp_in_ms")


def measured(df: DataFrame, sent_at: Column | str | None = None) -> DataFrame:
    """Add `bytes`, `sent_at` and `delay_ms` (null where the publisher wrote no time).

    Args:
        df: a stream's columns.
        sent_at: when the message was sent, as a column or an SQL expression.
    """
    from pyspark.sql import functions as f

    if sent_at is None:
        stated = [
            f.expr(f"timestamp_millis(try_cast(element_at(headers, '{name}') as bigint))")
            for name in SENT_HEADERS
        ]
        sent = f.coalesce(*stated, f.col("properties.timestamp"))
    else:
        sent = f.expr(sent_at) if isinstance(sent_at, str) else sent_at
    sized = df.withColumn("bytes", f.length("body").cast("bigint")).withColumn("sent_at", sent)
    between = (f.unix_micros("timestamp") - f.unix_micros("sent_at")) / 1000
    return sized.withColumn("delay_ms", between)


def late_after(df: DataFrame, delay: str = LATE_AFTER, column: str = "timestamp") -> DataFrame:
    """Say how late a row of a streaming query may come to be counted: its watermark."""
    return df.withWatermark(column, delay)


def per_minute(df: DataFrame, every: str = MINUTE, column: str = "timestamp") -> DataFrame:
    """Count by exchange, routing key and minute: messages, bytes, sizes, delays.

    Args:
        df: what `measured` returns.
        every: the length of an interval.
        column: the time that counts: the broker's, or `sent_at`.
    """
    from pyspark.sql import functions as f

    window = f.window(column, every)
    grouped = df.groupBy(window.alias("window"), "exchange", "routing_key").agg(*figures())
    return grouped.select(
        f.col("window.start").alias("minute"),
        *(name for name in grouped.columns if name != "window"),
    )


def figures() -> list[Column]:
    """Return what is computed of any group of messages."""
    from pyspark.sql import functions as f

    return [
        f.count("*").alias("messages"),
        f.sum("bytes").alias("bytes"),
        f.avg("bytes").alias("bytes_mean"),
        f.max("bytes").alias("bytes_max"),
        f.percentile_approx("delay_ms", 0.5).alias("delay_ms_p50"),
        f.percentile_approx("delay_ms", 0.99).alias("delay_ms_p99"),
        f.max("delay_ms").alias("delay_ms_max"),
    ]


def top_keys(df: DataFrame, count: int = TOP_KEYS) -> DataFrame:
    """Return the busiest routing keys of each exchange, with their share of its messages."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    found = df.groupBy("exchange", "routing_key").agg(*figures())
    whole = Window.partitionBy("exchange")
    order = whole.orderBy(f.desc("messages"), "routing_key")
    shares = found.withColumn("share", f.col("messages") / f.sum("messages").over(whole))
    ranked = shares.withColumn("rank", f.row_number().over(order)).where(f.col("rank") <= count)
    return ranked.orderBy(f.desc("messages"), "exchange", "routing_key")


def sessions(df: DataFrame, gap: str = SESSION_GAP, by: str = "routing_key") -> DataFrame:
    """Return the times during which a key was busy: between two of them there is a gap.

    Args:
        df: what `measured` returns.
        gap: how long nothing must come for a session to end.
        by: the key; any SQL expression, as `split(routing_key, '[.]')[1]`.
    """
    from pyspark.sql import functions as f

    window = f.session_window("timestamp", gap)
    grouped = df.withColumn("key", f.expr(by)).groupBy(window.alias("session"), "key")
    found = grouped.agg(
        f.count("*").alias("messages"),
        f.sum("bytes").alias("bytes"),
        f.min("timestamp").alias("started_at"),
        f.max("timestamp").alias("ended_at"),
    )
    seconds = (f.unix_micros("ended_at") - f.unix_micros("started_at")) / 1_000_000
    return found.withColumn("seconds", seconds).drop("session")


def totals(df: DataFrame) -> DataFrame:
    """Return one row about everything."""
    from pyspark.sql import functions as f

    return df.agg(
        *figures(),
        f.countDistinct("routing_key").alias("keys"),
        f.min("timestamp").alias("first"),
        f.max("timestamp").alias("last"),
    )


def sizes(df: DataFrame) -> DataFrame:
    """Count messages by size, in powers of two: `upto` is the greatest size of a class."""
    return _classes(df, "bytes")


def delays(df: DataFrame) -> DataFrame:
    """Count messages by delay, in powers of two of a millisecond."""
    return _classes(df.where("delay_ms is not null"), "delay_ms")


def _classes(df: DataFrame, column: str) -> DataFrame:
    from pyspark.sql import functions as f

    power = f.ceil(f.log2(f.greatest(f.col(column).cast("double"), f.lit(1.0))))
    upto = f.pow(f.lit(2.0), power).cast("bigint")
    return df.groupBy(upto.alias("upto")).agg(f.count("*").alias("messages")).orderBy("upto")


# ---------------------------------------------------------------- the pipeline

TABLES: dict[str, Callable[[Any], Any]] = {
    "per_minute": per_minute,
    "top_keys": top_keys,
    "sessions": sessions,
}


@dataclass(frozen=True)
class TrafficPlan:
    """What is measured, and where the answers go.

    Attributes:
        place: the folder for `report.html` and the tables.
        archive: the stream's archive, if there is one.
        since_seconds: how far back the report looks; None is from the beginning.
        every: the length of an interval, as Spark writes it.
        gap: what ends a session.
        sent_at: an SQL expression for the time a message was sent.
        interval_seconds: how often the report is made anew.
        tables: whether the tables are written, too.
    """

    place: Path
    archive: Path | None = None
    since_seconds: float | None = None
    every: str = MINUTE
    gap: str = SESSION_GAP
    sent_at: str | None = None
    interval_seconds: float = 60.0
    tables: bool = True


@dataclass
class Traffic:
    """The pipeline `traffic`."""

    spark: SparkSession | None
    origin: Origin
    plan: TrafficPlan
    name: str = "traffic"
    clock: Callable[[], float] = time.time
    _reported: Offsets = field(default_factory=dict, repr=False)

    @property
    def labels(self) -> Mapping[str, str]:
        """Say which report it is, for metrics."""
        return self.origin.labels(self.plan.place)

    @property
    def interval_seconds(self) -> float:
        """How long to wait between reports."""
        return self.plan.interval_seconds

    def check(self) -> None:
        """Refuse a stream that is not there."""
        self.origin.parts()

    def describe(self) -> list[str]:
        """Say what a run would do."""
        parts = self.origin.parts()
        rows = sum(part.end - part.first for part in parts.values())
        source = f"and its archive {self.plan.archive}" if self.plan.archive else "alone"
        return [
            f"stream {self.origin.stream!r} ({rows:,} records) {source}",
            f"report to {self.plan.place / 'report.html'}",
            *(f"table to {self.plan.place / name}" for name in TABLES if self.plan.tables),
        ]

    def wait(self, seconds: float) -> None:
        """Return when there is something new, or after the time."""
        self.origin.wait(self._reported, seconds)

    def step(self) -> Step:
        """Make the report and the tables over everything there is now."""
        assert self.spark is not None
        now = self.clock()
        back = self.plan.since_seconds
        since = None
        if back is not None:
            since = (datetime.fromtimestamp(now, UTC) - timedelta(seconds=back)).isoformat()
        at = self.origin.begin("latest")
        rows = table(
            self.spark,
            self.origin.stream,
            self.plan.archive,
            options=self.origin.options,
            since=since,
            include_bad=True,
        )
        # The bodies are not needed beyond their length; without them it all fits in memory.
        slim = measured(rows, self.plan.sent_at).select(
            "timestamp", "exchange", "routing_key", "bytes", "sent_at", "delay_ms", BAD_REASON
        )
        slim.persist()
        try:
            count, bad = self._answer(slim, now)
        finally:
            slim.unpersist()
        self._reported = at
        note = f"report of {count:,}" + (f", {bad:,} of them bad" if bad else "")
        return Step(count, lag(at, self.origin.parts()) if count else 0, note)

    def _answer(self, slim: DataFrame, now: float) -> tuple[int, int]:
        """Write the report and the tables; return how many messages, and how many of them bad."""
        minutes = per_minute(slim, self.plan.every)
        bad = slim.where(slim[BAD_REASON].isNotNull()).count()
        found: dict[str, list[Mapping[str, Any]]] = {
            "totals": [{**row, "bad": bad} for row in rows_of(totals(slim))],
            "minutes": rows_of(by_minute(slim, self.plan.every)),
            "keys": rows_of(top_keys(slim)),
            "sizes": rows_of(sizes(slim)),
            "delays": rows_of(delays(slim)),
            "sessions": rows_of(longest(sessions(slim, self.plan.gap))),
        }
        page = report.page(self.origin.stream, found, now, self.plan.every)
        self.plan.place.mkdir(parents=True, exist_ok=True)
        draft = self.plan.place / ".report.html.draft"
        draft.write_text(page, encoding="utf-8")
        draft.replace(self.plan.place / "report.html")
        if self.plan.tables:
            self._write("per_minute", minutes)
            self._write("top_keys", top_keys(slim))
            self._write("sessions", sessions(slim, self.plan.gap))
        return int(found["totals"][0]["messages"]), bad

    def _write(self, name: str, df: DataFrame) -> None:
        """Replace a table: a reader finds the old one or the new one."""
        target, fresh = self.plan.place / name, self.plan.place / f".{name}.new"
        old = self.plan.place / f".{name}.old"
        df.write.mode("overwrite").parquet(str(fresh))
        shutil.rmtree(old, ignore_errors=True)
        if target.exists():
            target.rename(old)
        fresh.rename(target)
        shutil.rmtree(old, ignore_errors=True)


def by_minute(df: DataFrame, every: str = MINUTE) -> DataFrame:
    """Count all exchanges and keys together, by minute."""
    from pyspark.sql import functions as f

    grouped = df.groupBy(f.window("timestamp", every).alias("window")).agg(*figures())
    return grouped.withColumn("minute", f.col("window.start")).drop("window").orderBy("minute")


def longest(found: DataFrame, count: int = 10) -> DataFrame:
    """Return the sessions with the most messages."""
    from pyspark.sql import functions as f

    return found.orderBy(f.desc("messages"), "key").limit(count)


def rows_of(df: DataFrame) -> list[Mapping[str, Any]]:
    """Return a small table's rows, times in UTC."""
    rows: list[Mapping[str, Any]] = df.toArrow().to_pylist()
    return rows
