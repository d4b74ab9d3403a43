"""What goes through a stream: rates, sizes, delays, the busiest keys, sessions.

Each question is a function from DataFrame to DataFrame; those that group by time work on batches
and, with a watermark (`late_after`), on streaming queries. `Traffic` is the pipeline that answers
all of them over archive and live stream, and writes tables and a page. It counts each record once
(see `counts`): a report costs what came since the one before.

The delay of a message is the time between `sent_at`, which its publisher wrote, and the broker's
own timestamp. AMQP's `timestamp` property has whole seconds; a header with milliseconds is better,
and is taken where there is one.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leporid.spark.errors import OptionError
from leporid.spark.offsets import Offsets, lag
from leporid.spark.pipelines import counts, traffic_page
from leporid.spark.pipelines.counts import Counts
from leporid.spark.pipelines.origin import Origin
from leporid.spark.pipelines.places import place_of
from leporid.spark.pipelines.runner import Step
from leporid.spark.pipelines.store import existing
from leporid.spark.pipelines.table import BAD_REASON, joined

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
        df: what `measured` returns, or counts.
        every: the length of an interval.
        column: the time that counts: the broker's, or `sent_at`; `at` of counts.
    """
    from pyspark.sql import functions as f

    window = f.window(column, every)
    grouped = df.groupBy(window.alias("window"), "exchange", "routing_key").agg(*figures_of(df))
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


def figures_of(df: DataFrame) -> list[Column]:
    """Return what is computed of any group of messages, or of their counts."""
    return counts.summed_figures() if "delay_class" in df.columns else figures()


def top_keys(df: DataFrame, count: int = TOP_KEYS) -> DataFrame:
    """Return the busiest routing keys of each exchange, with their share of its messages.

    Args:
        df: what `measured` returns, or counts.
        count: how many of each exchange.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    found = df.groupBy("exchange", "routing_key").agg(*figures_of(df))
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
    return lasting(found).drop("session")


def totals(df: DataFrame) -> DataFrame:
    """Return one row about everything that was counted."""
    from pyspark.sql import functions as f

    return df.agg(
        *figures_of(df),
        f.sum("bad").alias("bad"),
        f.countDistinct("routing_key").alias("keys"),
        f.min("first").alias("first"),
        f.max("last").alias("last"),
    )


def sizes(df: DataFrame) -> DataFrame:
    """Sum counts up by size, in powers of two: `upto` is the greatest size of a class."""
    from pyspark.sql import functions as f

    classes = df.groupBy(f.col("bytes_upto").alias("upto"))
    return classes.agg(f.sum("messages").alias("messages")).orderBy("upto")


def delays(df: DataFrame) -> DataFrame:
    """Sum counts up by delay, in powers of two of a millisecond from the first one on.

    Times of records are whole milliseconds, so that shorter delays are all alike.
    """
    from pyspark.sql import functions as f

    doublings = f.greatest(f.ceil(f.col("delay_class") / counts.CLASSES), f.lit(0))
    upto = f.pow(f.lit(2.0), doublings)
    classes = df.where("delay_class is not null").groupBy(upto.alias("upto"))
    return classes.agg(f.sum("messages").alias("messages")).orderBy("upto")


# ---------------------------------------------------------------- the pipeline

TABLES = ("per_minute", "top_keys", "sessions")


@dataclass(frozen=True)
class TrafficPlan:
    """What is measured, and where the answers go.

    Attributes:
        place: the folder for `report.html` and the tables.
        archive: the stream's archive, if there is one.
        since_seconds: how far back the report looks; None is from the beginning.
        every: the length of an interval, as Spark writes it; None: a minute in the table, and in
            the charts what suits the time that the report is of.
        gap: what ends a session.
        sent_at: an SQL expression for the time a message was sent.
        interval_seconds: how often the report is made anew.
        tables: whether the tables are written, too.
    """

    place: Path
    archive: str | Path | None = None
    since_seconds: float | None = None
    every: str | None = None
    gap: str = SESSION_GAP
    sent_at: str | None = None
    interval_seconds: float = 60.0
    tables: bool = True

    def settings(self, stream: str) -> dict[str, Any]:
        """Return what the counts depend on."""
        return {
            "stream": stream,
            "archive": None if self.archive is None else str(self.archive),
            "since_seconds": self.since_seconds,
            "every": self.every,
            "gap": self.gap,
            "sent_at": self.sent_at,
        }


@dataclass
class Traffic:
    """The pipeline `traffic`."""

    spark: SparkSession | None
    origin: Origin
    plan: TrafficPlan
    name: str = "traffic"
    clock: Callable[[], float] = time.time
    _counts: Counts | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        # What retention removed uncounted is said, and no reason to stop.
        self.origin = replace(self.origin, fail_on_loss=False)
        for name, text in (("every", self.plan.every or MINUTE), ("gap", self.plan.gap)):
            if seconds_of(text) <= 0:
                raise OptionError(
                    f"{name} = {text!r}: must be a time such as `10 seconds` or `5 minutes`"
                )

    @property
    def labels(self) -> Mapping[str, str]:
        """Say which report it is, for metrics."""
        return self.origin.labels(self.plan.place)

    @property
    def interval_seconds(self) -> float:
        """How long to wait between reports."""
        return self.plan.interval_seconds

    def check(self) -> None:
        """Refuse a stream or an archive that is not there, and a report to nowhere."""
        place_of(self.plan.place).check("")
        self.origin.parts()
        if self.plan.archive is not None:
            existing(self.plan.archive)

    def describe(self) -> list[str]:
        """Say what a run would do."""
        parts, known = self.origin.parts(), self._known()
        rows = sum(part.end - part.first for part in parts.values())
        source = f"and its archive {self.plan.archive}" if self.plan.archive else "alone"
        return [
            f"stream {self.origin.stream!r} ({rows:,} records) {source}",
            f"{known.messages:,} messages are counted already",
            f"report to {self.plan.place / 'report.html'}",
            *(f"table to {self.plan.place / name}" for name in TABLES if self.plan.tables),
        ]

    def wait(self, seconds: float) -> None:
        """Return when there is something new, or after the time."""
        self.origin.wait(self._known().ends, seconds)

    def _known(self) -> Counts:
        if self._counts is None:
            settings = self.plan.settings(self.origin.stream)
            self._counts = Counts.load(self.plan.place / "counts", settings)
        return self._counts

    def step(self) -> Step:
        """Count what is new, and make the report and the tables of all that was counted."""
        assert self.spark is not None
        known, since = self._known(), self._since()
        df, ends = joined(
            self.spark,
            self.origin,
            self.plan.archive,
            first_us=None if known.parts else since,
            include_bad=True,
            after=known.ends,
        )
        rows, first = 0, not known.parts
        if first or ends != known.ends:
            rows = self._count(df, ends)
        elif since is None and (self.plan.place / "report.html").exists():
            return Step(0, lag(ends, self.origin.parts()))
        total = self._answer(since, merge=first or len(known.parts) > counts.PARTS_MAX)
        bad = f", {total['bad']:,} of them bad" if total["bad"] else ""
        note = f"report of {total['messages']:,}{bad}"
        return Step(rows, lag(ends, self.origin.parts()), note)

    def _since(self) -> int | None:
        """Return the beginning of the report's time, in microseconds since 1970."""
        back = self.plan.since_seconds
        return None if back is None else int((self.clock() - back) * 1_000_000)

    def _count(self, df: DataFrame, ends: Offsets) -> int:
        """Count records; return how many."""
        # The bodies are not needed beyond their length; without them it all fits in memory.
        slim = measured(df, self.plan.sent_at).select(
            "timestamp", "exchange", "routing_key", "bytes", "delay_ms", BAD_REASON
        )
        slim.persist()
        try:
            new = counts.counted(slim, self.plan.every or counts.FINE)
            busy = sessions(slim, self.plan.gap).select(*counts.columns_of(counts.SESSIONS))
            return self._known().add(new, busy, ends)
        finally:
            slim.unpersist()

    def _answer(self, since_us: int | None, *, merge: bool) -> Mapping[str, Any]:
        """Write the report and the tables; return the totals."""
        from pyspark.sql import functions as f

        assert self.spark is not None
        known = self._known()
        found, busy = known.read(self.spark)
        busy = counts.joined_sessions(busy, self.plan.gap)
        if since_us is not None:
            moment = f.timestamp_micros(f.lit(since_us))
            found, busy = (
                found.where(f.col("at") >= moment),
                busy.where(f.col("ended_at") >= moment),
            )
        if merge:
            known.merge(counts.coarser(found, self.plan.every), busy)
            found, busy = known.read(self.spark)
        found, busy = found.persist(), lasting(busy).persist()
        try:
            return self._report(found, busy)
        finally:
            found.unpersist()
            busy.unpersist()

    def _report(self, found: DataFrame, busy: DataFrame) -> Mapping[str, Any]:
        (total,) = rows_of(totals(found))
        total = {**total, "messages": total["messages"] or 0, "bad": total["bad"] or 0}
        tables: dict[str, list[Mapping[str, Any]]] = {"totals": [total]}
        every = seconds_of(self.plan.every or MINUTE)
        if total["messages"]:
            if self.plan.every is None:
                every = traffic_page.interval_seconds(
                    (total["last"] - total["first"]).total_seconds()
                )
            tables |= {
                "minutes": rows_of(by_minute(found, f"{every:.0f} seconds")),
                "keys": rows_of(top_keys(found)),
                "sizes": rows_of(sizes(found)),
                "delays": rows_of(delays(found)),
                "sessions": rows_of(longest(busy)),
            }
        page = traffic_page.page(self.origin.stream, tables, self.clock(), every)
        draft = self.plan.place / ".report.html.draft"
        draft.write_text(page, encoding="utf-8")
        draft.replace(self.plan.place / "report.html")
        if self.plan.tables:
            self._write("per_minute", per_minute(found, self.plan.every or MINUTE, "at"))
            self._write("top_keys", top_keys(found))
            self._write("sessions", busy)
        return total

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
    """Sum counts of all exchanges and keys up, by interval."""
    from pyspark.sql import functions as f

    grouped = df.groupBy(f.window("at", every).alias("window")).agg(*figures_of(df))
    return grouped.withColumn("minute", f.col("window.start")).drop("window").orderBy("minute")


def lasting(found: DataFrame) -> DataFrame:
    """Add `seconds`, how long a session was."""
    from pyspark.sql import functions as f

    seconds = (f.unix_micros("ended_at") - f.unix_micros("started_at")) / 1_000_000
    return found.withColumn("seconds", seconds)


def longest(found: DataFrame, count: int = 10) -> DataFrame:
    """Return the sessions with the most messages."""
    from pyspark.sql import functions as f

    return found.orderBy(f.desc("messages"), "key").limit(count)


def rows_of(df: DataFrame) -> list[Mapping[str, Any]]:
    """Return a small table's rows, times in UTC."""
    rows: list[Mapping[str, Any]] = df.toArrow().to_pylist()
    return rows


UNITS_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800}


def seconds_of(text: str) -> int:
    """Return a length of time as Spark writes it, such as `5 minutes`; 0 if it is none."""
    part = r"([0-9]{1,9})\s+(second|minute|hour|day|week)s?"
    if not re.fullmatch(rf"\s*{part}(\s+{part})*\s*", text):
        return 0
    return sum(int(count) * UNITS_SECONDS[unit] for count, unit in re.findall(part, text))
