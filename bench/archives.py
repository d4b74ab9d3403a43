"""How fast the pipeline `archive` writes a stream into a table.

    python bench/archives.py
    python bench/archives.py --rows 2000000 --format iceberg --partitions 1 --no-schema

Starts a broker of its own, fills a stream with JSON bodies of 100 bytes, and archives it twice with
Spark on two cores, each time into a new table: the first time warms Java up. Prints rows a second
of each, from the first step to the last commit, without Spark's start, and the processor time for
a million rows, of the broker and of Spark. Responsible for these figures.

Invariant: a table that does not have each row once, decoded, ends the run.
"""

from __future__ import annotations

import argparse
import base64
import io
import os
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.brokers import OwnBroker, own_broker
from bench.report import machine

from leporid.load.amqp import Client

STREAM: Final = "archived"
BODY_BYTES: Final = 100
SCHEMA: Final = "id bigint, customer string, amount double, paid boolean, note string"
REQUEST_ROWS: Final = 100_000
TICKS: Final = os.sysconf("SC_CLK_TCK")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--commit-rows", type=int, default=2_000_000)
    parser.add_argument("--partitions", type=int, default=2, help="of the stream")
    parser.add_argument("--format", default="delta")
    parser.add_argument("--no-schema", action="store_true", help="keep bytes only")
    parser.add_argument("--passes", type=int, default=2)
    options = parser.parse_args(arguments)
    print(machine())
    with own_broker() as broker, tempfile.TemporaryDirectory(prefix="leporid-bench-") as folder:
        fill(broker, options.rows, options.partitions)
        spark = start()
        for number in range(options.passes):
            print_pass(spark, broker, Path(folder) / str(number), options)
        spark.stop()
    return 0


def body(number: int) -> bytes:
    """A body of exactly so many bytes, with the fields of the schema."""
    head = (
        f'{{"id": {number}, "customer": "c-{number % 5000}", "amount": {number % 997}.25, '
        f'"paid": {"true" if number % 3 else "false"}, "note": "'
    )
    return f'{head}{"x" * (BODY_BYTES - len(head) - 2)}"}}'.encode()


def fill(broker: OwnBroker, rows: int, partitions: int) -> None:
    """Publish the bodies."""
    import pyarrow as pa

    arguments: dict[str, Any] = {"x-queue-type": "stream"}
    names = [STREAM]
    with Client(broker.url) as client:
        if partitions > 1:
            request(broker, f"/api/streams/%2F/{STREAM}", b'{"partitions": %d}' % partitions, "PUT")
            names = [f"{STREAM}-{number}" for number in range(partitions)]
        else:
            client.declare_queue(STREAM, durable=True, arguments=arguments)
    for begin in range(0, rows, REQUEST_ROWS):
        numbers = range(begin, min(rows, begin + REQUEST_ROWS))
        keys = [names[number % len(names)] for number in numbers]
        table = pa.table({"routing_key": keys, "body": [body(number) for number in numbers]})
        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        request(broker, "/api/publish/%2F/amq.default", sink.getvalue())


def request(broker: OwnBroker, path: str, data: bytes, method: str = "POST") -> bytes:
    """Ask the broker's HTTP side, as guest."""
    credentials = base64.b64encode(b"guest:guest").decode()
    headers = {"Authorization": f"Basic {credentials}", "Content-Type": "application/json"}
    asked = urllib.request.Request(broker.http_url + path, data, headers, method=method)
    with urllib.request.urlopen(asked) as answer:
        content: bytes = answer.read()
        return content


def start() -> Any:
    """A session on two cores, as quiet as it can be."""
    from leporid.spark.session import session

    settings = {"spark.driver.memory": "4g", "spark.log.level": "ERROR"}
    return session("bench", master="local[2]", settings=settings)


def print_pass(spark: Any, broker: OwnBroker, place: Path, options: argparse.Namespace) -> None:
    """Archive everything once, check it, and print the figures."""
    from leporid.spark.pipelines.archive import Archive, Plan
    from leporid.spark.pipelines.origin import Origin

    schema = None if options.no_schema else SCHEMA
    plan = Plan(place, options.format, schema=schema, commit_rows=options.commit_rows)
    pipeline = Archive(spark, Origin(STREAM, {"url": broker.http_url}), plan)
    used, mine, began = broker.cpu_seconds() or 0.0, tree_cpu_seconds(), time.monotonic()
    rows = 0
    while (step := pipeline.step()).rows:
        rows += step.rows
        if not step.lag:
            break
    seconds = time.monotonic() - began
    spent, brokers = tree_cpu_seconds() - mine, (broker.cpu_seconds() or 0.0) - used
    check(spark, pipeline, rows, options)
    million = rows / 1e6
    print(
        f"{rows / seconds:,.0f} rows/s into {options.format}: {rows:,} in {seconds:.1f} s; "
        f"for a million rows {(spent - brokers) / million:.2f} s of Spark's processor time, "
        f"{brokers / million:.2f} s of the broker's",
        flush=True,
    )


def check(spark: Any, pipeline: Any, rows: int, options: argparse.Namespace) -> None:
    """A rate of rows that are not there would be a lie."""
    files, _ = pipeline.store.state()
    frame = spark.read.parquet(*files)
    found = frame.count() if options.no_schema else frame.where("value.id >= 0").count()
    if not rows == found == options.rows:
        raise SystemExit(f"{found:,} rows of {rows:,} archived, {options.rows:,} published")


def tree_cpu_seconds() -> float:
    """Processor time of this process and of all below it: the broker, Java, Python's workers."""
    parents, used = {}, {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        number = int(path.parent.name)
        parents[number] = int(fields[1])
        # With those of its children that have ended.
        used[number] = sum(map(int, fields[11:15]))
    found, ours = 0, {os.getpid()}
    while ours:
        found += sum(used.get(number, 0) for number in ours)
        ours = {number for number, parent in parents.items() if parent in ours}
    return found / TICKS


if __name__ == "__main__":
    sys.exit(main())
