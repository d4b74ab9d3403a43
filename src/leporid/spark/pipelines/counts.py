"""What a report on traffic has counted so far, so that only what is new has to be read.

Each step adds a part: a folder of Parquet files with the counts of the records it read, and the
sessions among them. A manifest names the parts and the position that they reach; it is replaced as
a whole. Parts are merged when there are many.

Counts are of all records of one interval, exchange, routing key, class of size and class of delay.
So every figure of the report is a sum, a greatest value or, for delays, a percentile over classes,
each of which reaches 9 % further than the one before.

Invariant: a record is in exactly one part that the manifest names, if it is before the manifest's
position; what the manifest does not name is not read.
"""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pyarrow.dataset as ds

from leporid.spark.offsets import Offsets, from_json, to_json
from leporid.spark.pipelines.places import sync, written

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

VERSION = 1

# So many parts are merged into one: each costs a read of its files at every report.
PARTS_MAX = 16
# Intervals are kept by the second for so long, if nothing else was asked for, and by the minute.
FINE_SECONDS = 3600
FINE, COARSE = "1 second", "1 minute"
# Classes of delay in a doubling.
CLASSES = 8
# Shorter delays, and those of clocks that disagree, are of one class.
DELAY_MS_MIN = 2.0**-10

COUNTED = (
    "at timestamp, exchange string, routing_key string, bytes_upto bigint, delay_class int, "
    "messages bigint, bytes bigint, bytes_max bigint, delay_ms_max double, bad bigint, "
    "first timestamp, last timestamp"
)
SESSIONS = "key string, messages bigint, bytes bigint, started_at timestamp, ended_at timestamp"


@dataclass
class Counts:
    """The parts and what they reach; the content of the manifest.

    Attributes:
        root: the folder.
        settings: what the counts depend on; with others they are begun anew.
        ends: up to here everything is counted.
        parts: names of folders, the oldest first.
        messages: how many records were counted.
    """

    root: Path
    settings: Mapping[str, Any]
    ends: Offsets = field(default_factory=dict)
    parts: list[str] = field(default_factory=list)
    messages: int = 0

    @classmethod
    def load(cls, root: Path, settings: Mapping[str, Any]) -> Counts:
        """Read the manifest; without one, of other settings or damaged, begin with nothing."""
        fresh = cls(root, settings)
        try:
            content = json.loads((root / "manifest.json").read_text(encoding="utf-8"))
            if content["version"] != VERSION or content["settings"] != settings:
                return fresh
            ends = from_json(content["ends"])
            return cls(root, settings, ends, content["parts"], content["messages"])
        except (OSError, ValueError, KeyError, TypeError):
            return fresh

    def add(self, counts: DataFrame, sessions: DataFrame, ends: Offsets) -> int:
        """Add a part and move the position; return how many records are in it."""
        part = self._write(counts, sessions)
        column = ds.dataset(self.root / part / "counts").to_table(columns=["messages"])["messages"]
        rows = int(pc.sum(column).as_py() or 0)
        self._save([*self.parts, part], ends, self.messages + rows)
        return rows

    def read(self, spark: SparkSession) -> tuple[DataFrame, DataFrame]:
        """Return the counts and the sessions of all parts; neither is summed up yet."""

        def of(kind: str, columns: str) -> DataFrame:
            paths = [str(self.root / part / kind) for part in self.parts]
            return spark.read.schema(columns).parquet(*paths)

        return of("counts", COUNTED), of("sessions", SESSIONS)

    def merge(self, counts: DataFrame, sessions: DataFrame) -> None:
        """Replace all parts by one."""
        self._save([self._write(counts, sessions)], self.ends, self.messages)

    def _write(self, counts: DataFrame, sessions: DataFrame) -> str:
        part = uuid.uuid4().hex
        for kind, df in (("counts", counts), ("sessions", sessions)):
            df.coalesce(1).write.parquet(str(self.root / part / kind))
        return part

    def _save(self, parts: list[str], ends: Offsets, messages: int) -> None:
        content = {
            "version": VERSION,
            "settings": self.settings,
            "ends": to_json(ends),
            "parts": parts,
            "messages": messages,
        }
        written(self.root, json.dumps(content, indent=1)).replace(self.root / "manifest.json")
        sync(self.root)
        self.parts, self.ends, self.messages = parts, ends, messages
        for folder in self.root.iterdir():
            if folder.is_dir() and folder.name not in parts:
                shutil.rmtree(folder, ignore_errors=True)


# ---------------------------------------------------------------- counting


def counted(df: DataFrame, every: str) -> DataFrame:
    """Count records.

    Args:
        df: what `traffic.measured` returns, with a column `bad_reason`.
        every: the length of an interval.
    """
    from pyspark.sql import functions as f

    window = f.window("timestamp", every)
    return (
        df.groupBy(
            window.alias("window"),
            "exchange",
            "routing_key",
            size_class(f.col("bytes")).alias("bytes_upto"),
            delay_class(f.col("delay_ms")).alias("delay_class"),
        )
        .agg(
            f.count("*").alias("messages"),
            f.sum("bytes").alias("bytes"),
            f.max("bytes").alias("bytes_max"),
            f.max("delay_ms").alias("delay_ms_max"),
            f.count("bad_reason").alias("bad"),
            f.min("timestamp").alias("first"),
            f.max("timestamp").alias("last"),
        )
        .select(f.col("window.start").alias("at"), *columns_of(COUNTED)[1:])
    )


def size_class(size: Column) -> Column:
    """Return the greatest size of a class: a power of two, in bytes."""
    from pyspark.sql import functions as f

    # By its binary digits, as a logarithm is not exact.
    below = f.greatest(size, f.lit(1)) - 1
    digits = f.when(below > 0, f.length(f.bin(below))).otherwise(0)
    return f.pow(f.lit(2.0), digits).cast("bigint")


def delay_class(delay_ms: Column) -> Column:
    """Return the number of a class of delays; that of class 0 reaches to 1 ms."""
    from pyspark.sql import functions as f

    shown = f.greatest(delay_ms, f.lit(DELAY_MS_MIN))
    found = f.ceil(f.log2(shown) * CLASSES).cast("int")
    return f.when(delay_ms.isNotNull(), found)


def delay_of(number: Column) -> Column:
    """Return the delay that stands for a class, in milliseconds: its middle."""
    from pyspark.sql import functions as f

    return f.pow(f.lit(2.0), (number - 0.5) / CLASSES)


def summed_figures() -> list[Column]:
    """Return what `traffic.figures` computes of messages, of counts."""
    from pyspark.sql import functions as f

    greatest = f.max("delay_ms_max")

    def percentile(share: float) -> Column:
        # Beyond the greatest delay there is none.
        found = f.percentile(delay_of(f.col("delay_class")), share, f.col("messages"))
        return f.when(greatest.isNotNull(), f.least(found, greatest))

    return [
        f.sum("messages").alias("messages"),
        f.sum("bytes").alias("bytes"),
        (f.sum("bytes") / f.sum("messages")).alias("bytes_mean"),
        f.max("bytes_max").alias("bytes_max"),
        percentile(0.5).alias("delay_ms_p50"),
        percentile(0.99).alias("delay_ms_p99"),
        greatest.alias("delay_ms_max"),
    ]


# ---------------------------------------------------------------- merging


def coarser(counts: DataFrame, every: str | None) -> DataFrame:
    """Sum counts up that are of the same group.

    Args:
        counts: of several parts.
        every: the length of an interval; None: by seconds in the newest hour, by minutes before.
    """
    from pyspark.sql import functions as f

    at = f.col("at")
    if every is None:
        newest = counts.agg(f.max("at")).first()
        assert newest is not None
        until = f.lit(newest[0]) - f.expr(f"interval {FINE_SECONDS} seconds")
        at = f.when(at < f.date_trunc("minute", until), f.date_trunc("minute", at)).otherwise(at)
    keys = ["exchange", "routing_key", "bytes_upto", "delay_class"]
    return (
        counts.groupBy(at.alias("at"), *keys)
        .agg(
            f.sum("messages").alias("messages"),
            f.sum("bytes").alias("bytes"),
            f.max("bytes_max").alias("bytes_max"),
            f.max("delay_ms_max").alias("delay_ms_max"),
            f.sum("bad").alias("bad"),
            f.min("first").alias("first"),
            f.max("last").alias("last"),
        )
        .select(*columns_of(COUNTED))
    )


def joined_sessions(parts: DataFrame, gap: str) -> DataFrame:
    """Join the sessions of several parts that no gap divides, and those of one part."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    order = Window.partitionBy("key").orderBy("started_at", "ended_at")
    before = f.max("ended_at").over(order.rowsBetween(Window.unboundedPreceding, -1))
    begins = before.isNull() | (f.col("started_at") > before + f.expr(f"interval {gap}"))
    numbered = parts.withColumn("_begins", begins.cast("int"))
    numbered = numbered.withColumn("_number", f.sum("_begins").over(order))
    return (
        numbered.groupBy("key", "_number")
        .agg(
            f.sum("messages").alias("messages"),
            f.sum("bytes").alias("bytes"),
            f.min("started_at").alias("started_at"),
            f.max("ended_at").alias("ended_at"),
        )
        .select(*columns_of(SESSIONS))
    )


def columns_of(schema: str) -> list[str]:
    """Return the names of columns."""
    return [part.split()[0] for part in schema.split(", ")]
