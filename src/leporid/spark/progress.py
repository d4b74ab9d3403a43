"""How far streaming queries are, in the log and for Prometheus.

Spark tells a listener of each batch; a source's offsets in that report are those of our
checkpoint (see `offsets`): next offsets by stream and partition. Responsible for reading reports
and for writing what they say. Must not know how a query is run, nor ask the broker.

Invariant: what goes wrong here is logged, and stops no query.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, write_to_textfile
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from pyspark.sql.streaming import StreamingQueryListener

from leporid.spark.errors import SparkSourceError
from leporid.spark.offsets import Key, Offsets, from_json

log = logging.getLogger(__name__)

# Queries that have ended are told of, too, up to so many; a notebook may start any number.
QUERIES_MAX = 100


@dataclass(frozen=True, slots=True)
class Position:
    """Where a query is in one partition.

    Attributes:
        key: the partition.
        next_offset: the offset after the last record of the batch.
        lag: how many records there were beyond it; None if Spark does not say.
    """

    key: Key
    next_offset: int
    lag: int | None


@dataclass
class Query:
    """What is known of a query."""

    name: str
    running: bool = True
    failed: bool = False
    batches: int = 0
    rows: int = 0
    batch_seconds: float = 0.0
    progress_seconds: float | None = None
    positions: list[Position] = field(default_factory=list)


def positions(source: Any) -> list[Position]:
    """Return where a report says a query is; nothing of a source that is none of ours.

    Args:
        source: with `endOffset` and `latestOffset`, as JSON.
    """
    ends, latest = _offsets(source.endOffset), _offsets(source.latestOffset)
    return [
        Position(key, at.offset, max(0, latest[key].offset - at.offset) if key in latest else None)
        for key, at in sorted(ends.items())
    ]


def _offsets(text: str | None) -> Offsets:
    try:
        return from_json(json.loads(text or "null"))
    except (ValueError, AttributeError, SparkSourceError):
        return {}


class QueryProgress(StreamingQueryListener):
    """Logs where each query is after each batch, and rewrites a file for Prometheus.

    Args:
        metrics: for the textfile collector of Prometheus's node exporter; None: log only.
        clock: seconds since 1970.
    """

    def __init__(self, metrics: Path | None = None, clock: Callable[[], float] = time.time) -> None:
        super().__init__()
        self._metrics = metrics
        self._clock = clock
        # Spark calls from one thread, Spark Connect from another one for each session.
        self._lock = threading.Lock()
        self._queries: dict[str, Query] = {}

    def onQueryStarted(self, event: Any) -> None:
        """Note a query."""
        with self._lock:
            self._queries.pop(str(event.id), None)
            self._queries[str(event.id)] = Query(event.name or str(event.id))
            ended = [id_ for id_, query in self._queries.items() if not query.running]
            for id_ in ended[: max(0, len(self._queries) - QUERIES_MAX)]:
                del self._queries[id_]
        self._write()

    def onQueryProgress(self, event: Any) -> None:
        """Note a batch."""
        report = event.progress
        with self._lock:
            new = Query(report.name or str(report.id))
            query = self._queries.setdefault(str(report.id), new)
            query.progress_seconds = self._clock()
            if report.numInputRows:
                query.batches += 1
                query.rows += report.numInputRows
                query.batch_seconds = report.batchDuration / 1000
            query.positions = [one for source in report.sources for one in positions(source)]
            places = "; ".join(map(_said, query.positions))
        if report.numInputRows:
            log.info(
                "query %s: batch %d, %d rows in %.3f s; %s",
                query.name, report.batchId, report.numInputRows, query.batch_seconds, places,
            )  # fmt: skip
        self._write()

    def onQueryIdle(self, event: Any) -> None:
        """Note that a query waits: it is alive."""
        with self._lock:
            if str(event.id) in self._queries:
                self._queries[str(event.id)].progress_seconds = self._clock()
        self._write()

    def onQueryTerminated(self, event: Any) -> None:
        """Note the end of a query."""
        with self._lock:
            query = self._queries.setdefault(str(event.id), Query(str(event.id)))
            query.running, query.failed = False, bool(event.exception)
        if event.exception:
            log.error("query %s failed: %s", query.name, str(event.exception).split("\n", 1)[0])
        self._write()

    def _write(self) -> None:
        if self._metrics is None:
            return
        registry = CollectorRegistry()
        registry.register(self)
        try:
            write_to_textfile(str(self._metrics), registry)
        except OSError as error:
            log.warning("the metrics of queries were not written: %s", error)

    def collect(self) -> Iterator[Metric]:
        """Give the metrics; asked for by prometheus_client."""
        with self._lock:
            queries = list(self._queries.values())
        yield from (_of_query(*each, queries) for each in OF_QUERIES)
        for name, text, value in OF_POSITIONS:
            metric = GaugeMetricFamily(name, text, labels=["query", "stream", "partition"])
            for query in queries:
                for one in query.positions:
                    number = value(one)
                    if number is not None:
                        labels = [query.name, one.key.stream, str(one.key.partition)]
                        metric.add_metric(labels, number)
            yield metric


def _said(one: Position) -> str:
    lag = "" if one.lag is None else f", {one.lag} behind"
    return f"{one.key} next offset {one.next_offset}{lag}"


Value = Callable[[Query], float | None]

OF_QUERIES: tuple[tuple[type[Any], str, str, Value], ...] = (
    (GaugeMetricFamily, "leporid_query_running", "Whether it runs", lambda each: each.running),
    (GaugeMetricFamily, "leporid_query_failed", "Whether it ended so", lambda each: each.failed),
    (CounterMetricFamily, "leporid_query_batches", "Batches with rows", lambda each: each.batches),
    (CounterMetricFamily, "leporid_query_rows", "Rows read", lambda each: each.rows),
    (
        GaugeMetricFamily,
        "leporid_query_batch_seconds",
        "Length of the last batch with rows",
        lambda each: each.batch_seconds,
    ),
    (
        GaugeMetricFamily,
        "leporid_query_last_progress_timestamp_seconds",
        "When Spark last told of it, in seconds since 1970",
        lambda each: each.progress_seconds,
    ),
)

OF_POSITIONS: tuple[tuple[str, str, Callable[[Position], float | None]], ...] = (
    (
        "leporid_query_next_offset",
        "The offset after the last record read",
        lambda one: one.next_offset,
    ),
    (
        "leporid_query_lag_messages",
        "Records beyond it, as of the last look at the stream",
        lambda one: one.lag,
    ),
)


def _of_query(kind: type[Any], name: str, text: str, value: Value, queries: list[Query]) -> Metric:
    metric: Metric = kind(name, text, labels=["query"])
    for query in queries:
        number = value(query)
        if number is not None:
            metric.add_metric([query.name], float(number))  # type: ignore[attr-defined]
    return metric


def follow(spark: Any, metrics: Path | str | None = None) -> QueryProgress:
    """Log how far the streaming queries of a session are, and keep a file of metrics.

    Args:
        spark: the session, classic or Connect.
        metrics: a file for the textfile collector of Prometheus's node exporter.

    Returns:
        The listener; `spark.streams.removeListener` ends it.
    """
    listener = QueryProgress(None if metrics is None else Path(metrics))
    spark.streams.addListener(listener)
    return listener
