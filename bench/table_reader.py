"""Reads and writes a stream as a table, by the clock, in a process of its own.

    python -m bench.table_reader spark-read '{"url": …, "stream": …, "rows": 5000000}'

Prints the figures as JSON, as its last line. It does not start a broker nor fill a stream.
Invariant: a figure is of the last of `PASSES` passes, since a JVM is slow before it has compiled
what it does; and what was read is counted.
"""

from __future__ import annotations

import base64
import io
import json
import math
import queue
import statistics
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from functools import partial
from typing import Any

Facts = dict[str, Any]
Figures = dict[str, float]

PASSES = 3
PLAIN_COLUMNS = "offset,timestamp,exchange,routing_key,body"
SLIM_SCHEMA = "`offset` bigint, body binary"
# All that is not the same in every row of a stream without properties.
SIX_SCHEMA = (
    "`offset` bigint, timestamp timestamp, exchange string, routing_key string, "
    "headers map<string,string>, body binary"
)
SCHEMAS = {"all_columns": None, "six_columns": SIX_SCHEMA, "offset_and_body": SLIM_SCHEMA}
# One micro-batch, and what is between two of them: the query waits for rows then.
BATCH_ROWS = 1000
BATCHES_WARM = 5
PAUSE_SECONDS = 0.2
BATCH_SECONDS = 60.0


def rate(rows: int, action: Callable[[], None]) -> float:
    """Rows a second, of the last pass."""
    for _ in range(PASSES):
        began = time.monotonic()
        action()
        seconds = time.monotonic() - began
    return rows / seconds


def check(what: str, found: int, wanted: int) -> None:
    """A rate of too few rows would be a lie."""
    if found != wanted:
        raise SystemExit(f"{what}: {found} rows instead of {wanted}")


def request(url: str, data: bytes | None = None) -> Any:
    """Ask the broker's HTTP side, as guest."""
    credentials = base64.b64encode(b"guest:guest").decode()
    headers = {"Authorization": f"Basic {credentials}"}
    return urllib.request.urlopen(urllib.request.Request(url, data, headers))


# ------------------------------------------------------------------ over HTTP


def polars(facts: Facts) -> Figures:
    """Into a data frame of Polars."""
    import polars as pl
    import pyarrow as pa

    path = f"{facts['url']}/api/streams/%2F/{facts['stream']}/records?to={facts['rows']}"

    def read(columns: str = "") -> None:
        with request(path + columns) as answer, pa.ipc.open_stream(answer) as stream:
            frame = pl.from_arrow(stream.read_all())
        check("polars", len(frame), facts["rows"])

    return {
        "all_columns_per_s": rate(facts["rows"], read),
        "plain_columns_per_s": rate(facts["rows"], partial(read, f"&columns={PLAIN_COLUMNS}")),
    }


# ------------------------------------------------------------------ Spark


def start_spark(**settings: str) -> Any:
    """A session on two cores, as quiet as it can be."""
    from leporid.spark.session import session

    wanted = {"spark.driver.memory": "4g", "spark.log.level": "ERROR", **settings}
    return session("bench", master="local[2]", settings=wanted)


def count_and_sum(frame: Any, column: str) -> int:
    """Make Spark look at every row; returns how many there are."""
    found = frame.selectExpr("count(1)", f"sum(length({column}))", "max(`offset`)").collect()
    return int(found[0][0])


def spark_read(facts: Facts) -> Figures:
    """A batch."""
    spark = start_spark()

    def read(partitions: int, schema: str | None) -> None:
        reader = spark.read.format("leporid").options(
            url=facts["url"], stream=facts["stream"], minPartitions=str(partitions)
        )
        frame = (reader.schema(schema) if schema else reader).load()
        check("spark-read", count_and_sum(frame, "body"), facts["rows"])

    figures = {}
    for title, schema in SCHEMAS.items():
        for tasks, word in ((1, "1_task"), (2, "2_tasks")):
            figures[f"{title}_{word}_per_s"] = rate(facts["rows"], partial(read, tasks, schema))
    return figures


def spark_stream(facts: Facts) -> Figures:
    """A streaming query that ends, and one that waits for rows."""
    spark = start_spark()
    with tempfile.TemporaryDirectory(prefix="leporid-bench-") as folder:
        numbers = iter(range(1000))

        def query(stream: str) -> Any:
            frame = (
                spark.readStream.format("leporid")
                .options(url=facts["url"], stream=stream, startingOffsets="earliest")
                .load()
            )
            place = f"{folder}/{next(numbers)}"
            return frame.writeStream.format("noop").option("checkpointLocation", place)

        def available_now() -> None:
            run = query(facts["stream"]).trigger(availableNow=True).start()
            run.awaitTermination()
            found = sum(one["numInputRows"] for one in run.recentProgress)
            check("spark-stream", found, facts["rows"])

        figures = {"available_now_per_s": rate(facts["rows"], available_now)}
        return figures | micro_batches(spark, query(facts["live"]), facts)


def micro_batches(spark: Any, writer: Any, facts: Facts) -> Figures:
    """From the confirm of 1,000 rows to Spark's word that their batch is done."""
    from pyspark.sql.streaming import StreamingQueryListener

    done: queue.SimpleQueue[tuple[float, int]] = queue.SimpleQueue()

    class Listener(StreamingQueryListener):  # type: ignore[misc]
        def onQueryStarted(self, event: Any) -> None:  # noqa: N802
            pass

        def onQueryProgress(self, event: Any) -> None:  # noqa: N802
            done.put((time.monotonic(), event.progress.numInputRows))

        def onQueryIdle(self, event: Any) -> None:  # noqa: N802
            pass

        def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
            pass

    listener = Listener()
    spark.streams.addListener(listener)
    rows = arrow_rows(facts["live"], BATCH_ROWS)
    run = writer.start()
    milliseconds = []
    for _ in range(BATCHES_WARM + facts["batches"]):
        with request(f"{facts['url']}/api/publish/%2F/amq.default", rows) as answer:
            answer.read()
        confirmed, seen = time.monotonic(), 0
        while seen < BATCH_ROWS:
            at, count = done.get(timeout=BATCH_SECONDS)
            seen += count
        milliseconds.append((at - confirmed) * 1000)
        time.sleep(PAUSE_SECONDS)
    run.stop()
    spark.streams.removeListener(listener)
    counted = sorted(milliseconds[BATCHES_WARM:])
    return {
        "batch_of_1000_median_ms": statistics.median(counted),
        "batch_of_1000_p95_ms": counted[math.ceil(0.95 * len(counted)) - 1],
    }


def arrow_rows(stream: str, count: int) -> bytes:
    """A table of messages for a stream, in Arrow's format."""
    import pyarrow as pa

    table = pa.table({"routing_key": [stream] * count, "body": [b"x" * 100] * count})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def spark_write(facts: Facts) -> Figures:
    """A batch of rows, published."""
    spark = start_spark()
    frame = spark.range(facts["rows"], numPartitions=2).selectExpr(
        f"cast(repeat('x', {facts['body_bytes']}) as binary) as body"
    )
    sink = frame.write.format("leporid").mode("append")

    def write() -> None:
        sink.options(url=facts["url"], stream=facts["stream"]).save()

    return {"written_per_s": rate(facts["rows"], write)}


READERS: dict[str, Callable[[Facts], Figures]] = {
    "polars": polars,
    "spark-read": spark_read,
    "spark-stream": spark_stream,
    "spark-write": spark_write,
}

if __name__ == "__main__":
    print(json.dumps(READERS[sys.argv[1]](json.loads(sys.argv[2]))))
