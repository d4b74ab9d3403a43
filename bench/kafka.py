"""Spark reads the same messages from a stream and from a topic of a local Kafka, turn about.

    python bench/kafka.py
    python bench/kafka.py --messages 5000000 --runs 5 --json kafka.json

Kafka, and Spark's own source for it, come from Maven Central by the Ivy in PySpark's package, into
`--jars`, and stay there. Kafka runs as one process in KRaft mode with its defaults, as ours does;
both hold the same rows, copied from one to the other, and Spark reads both in one session.
Invariant: what was started is ended, and its data goes with it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import pyspark
from bench.brokers import busy_share, own_broker
from bench.report import machine
from bench.table_reader import check, start_spark
from bench.tables import ROOT, filled
from bench.workloads import Plan

from leporid.spark.java import find_java
from leporid.testing import reserve_port

SPARK_JARS = Path(pyspark.__file__).with_name("jars")
# What the source needs beside what Spark has already.
CONNECTOR = {
    "org.apache.spark:spark-sql-kafka-0-10_2.13": "connector",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13": "token_provider",
    "org.apache.kafka:kafka-clients": "clients",
    "org.apache.commons:commons-pool2": "pool",
}
DOWNLOAD_SECONDS = 600
START_SECONDS = 60
TOPIC = "rows"
WARM_PASSES = 2

# A combined broker and controller; what is not here is Kafka's default.
PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={folder}/data
num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
"""


def download(folder: Path, coordinate: str, version: str, *, alone: bool = False) -> list[Path]:
    """Return the jars of an artifact and, unless alone, of what it needs; fetched once."""
    group, name = coordinate.split(":")
    place = folder / f"{name}-{version}{'' if alone else '-all'}"
    if not place.exists():
        part = place.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        done = subprocess.run(
            [
                str(find_java().home / "bin" / "java"),
                *("-jar", str(next(SPARK_JARS.glob("ivy-*.jar")))),
                *("-cache", str(folder / "cache"), "-confs", "default", "-types", "jar", "bundle"),
                *(["-notransitive"] if alone else []),
                *("-dependency", group, name, version),
                *("-retrieve", f"{part}/[artifact]-[revision].[ext]"),
            ],
            capture_output=True,
            text=True,
            timeout=DOWNLOAD_SECONDS,
            check=False,
        )
        missing = sorted({line.strip() for line in done.stdout.splitlines() if "not found" in line})
        if done.returncode or missing or not part.exists():
            raise SystemExit(f"no {coordinate} {version}: {missing or done.stdout[-1000:]}")
        part.rename(place)
    return sorted(place.glob("*.jar"))


@contextlib.contextmanager
def kafka(jars: Sequence[Path]) -> Iterator[str]:
    """A Kafka of one process; the address clients connect to."""
    java = str(find_java().home / "bin" / "java")
    with tempfile.TemporaryDirectory(prefix="leporid-kafka-") as folder:
        port, controller = reserve_port(), 0
        while controller in (0, port):
            controller = reserve_port()
        settings = Path(folder, "server.properties")
        settings.write_text(PROPERTIES.format(port=port, controller=controller, folder=folder))
        command = [java, "-Xmx1g", "-Xms1g", "-cp", os.pathsep.join(map(str, jars))]
        storage = ["kafka.tools.StorageTool", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c"]
        with Path(folder, "log").open("w+") as log:
            subprocess.run([*command, *storage, str(settings)], stdout=log, stderr=log, check=True)
            server = subprocess.Popen(
                [*command, "kafka.Kafka", str(settings)], stdout=log, stderr=log
            )
            try:
                wait_for_port(port, server)
                yield f"127.0.0.1:{port}"
            finally:
                server.terminate()
                server.wait()


def wait_for_port(port: int, server: subprocess.Popen[bytes]) -> None:
    """Return when something listens there."""
    deadline = time.monotonic() + START_SECONDS
    while server.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise SystemExit("Kafka did not start")


def readers(spark: Any, url: str, stream: str, servers: str) -> dict[str, Callable[[int], Any]]:
    """A frame over all columns by so many tasks, for each of the two."""

    def leporid(tasks: int) -> Any:
        wanted = {"url": url, "stream": stream, "minPartitions": str(tasks)}
        return spark.read.format("leporid").options(**wanted).load()

    def of_kafka(tasks: int) -> Any:
        wanted = {"kafka.bootstrap.servers": servers, "subscribe": TOPIC}
        wanted |= {"minPartitions": str(tasks), "includeHeaders": "true"}
        return (
            spark.read.format("kafka").options(**wanted).load().withColumnRenamed("value", "body")
        )

    return {"leporid": leporid, "kafka": of_kafka}


def count_and_sum(frame: Any) -> int:
    """The same question to both."""
    return int(frame.selectExpr("count(1)", "sum(length(body))", "max(`offset`)").collect()[0][0])


def compare(spark: Any, made: dict[str, Callable[[int], Any]], rows: int, runs: int) -> Any:
    """Rows a second of each run: by source, by number of tasks."""
    rates: dict[str, dict[int, list[float]]] = {name: {1: [], 2: []} for name in made}
    for run in range(WARM_PASSES + runs):
        for tasks in (1, 2):
            for name, frame in made.items():
                began = time.monotonic()
                check(name, count_and_sum(frame(tasks)), rows)
                seconds = time.monotonic() - began
                if run >= WARM_PASSES:
                    rates[name][tasks].append(rows / seconds)
    return rates


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    options = parser().parse_args(arguments)
    versions = {title: getattr(options, field) for title, field in CONNECTOR.items()}
    source = [
        jar
        for coordinate, version in versions.items()
        for jar in download(options.jars, coordinate, version, alone=True)
    ]
    server = download(options.jars, "org.apache.kafka:kafka_2.13", options.kafka)
    plan = Plan(messages=-(-options.messages // 5))
    busy = busy_share(0.5)
    with own_broker() as broker, kafka(server) as servers, filled(broker, plan) as facts:
        spark = start_spark(**{"spark.jars": ",".join(map(str, source))})
        made = readers(spark, facts["url"], facts["stream"], servers)
        frame = made["leporid"](1).selectExpr("cast(routing_key as binary) as key", "body as value")
        frame.write.format("kafka").options(
            **{"kafka.bootstrap.servers": servers, "topic": TOPIC}
        ).save()
        rates = compare(spark, made, facts["rows"], options.runs)
        spark.stop()
    for tasks in (1, 2):
        middle = {name: statistics.median(rates[name][tasks]) for name in rates}
        times = middle["leporid"] / middle["kafka"]
        cells = "  ".join(f"{name} {value:>12,.0f}/s" for name, value in middle.items())
        print(f"{tasks} task{'s' if tasks > 1 else ' '}  {cells}  times {times:.2f}")
    print(f"Others used {busy:.0%} of the machine before.")
    if options.json:
        facts = {"machine": machine(), "rows": facts["rows"], "busy_before": busy, "rates": rates}
        options.json.write_text(json.dumps(facts, indent=1) + "\n")
    return 0


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        prog="bench/kafka.py", description="Spark over our stream and over a Kafka topic."
    )
    made.add_argument("--messages", type=int, default=5_000_000, help="in each (%(default)s)")
    made.add_argument("--runs", type=int, default=5, help="that count (%(default)s)")
    made.add_argument("--jars", type=Path, default=ROOT / ".cache" / "kafka", metavar="DIR")
    made.add_argument("--kafka", default="4.1.0", metavar="VERSION", help="(%(default)s)")
    spark = pyspark.__version__
    made.add_argument("--connector", default=spark, metavar="VERSION", help="(%(default)s)")
    made.add_argument("--token-provider", default=spark, metavar="VERSION", help="(%(default)s)")
    made.add_argument("--clients", default="3.9.2", metavar="VERSION", help="(%(default)s)")
    made.add_argument("--pool", default="2.13.1", metavar="VERSION", help="(%(default)s)")
    made.add_argument("--json", type=Path, metavar="FILE", help="write everything there")
    return made


if __name__ == "__main__":
    sys.exit(main())
