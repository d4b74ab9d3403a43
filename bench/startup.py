"""How long one waits for the first result of Spark, and of commands that do without it.

    python bench/startup.py
    python bench/startup.py --runs 5 --only deadletters

Each run is a process of its own, over a stream of a thousand messages on a broker of this checkout.
Responsible for the wall time from the start of the process to its first row, and where it goes.
Must not know how Spark reads. Invariant: a run whose result is not the one that was asked for gives
no figure.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import pika
from bench.brokers import busy_share
from bench.report import machine

from leporid.testing.process import BrokerProcess

MESSAGES = 1000
STREAM = "letters"
RUN_SECONDS = 170

# Prints the seconds since the start of the process, which is given, after each phase.
READ = """
import json, sys, time
began, phases = float(sys.argv[1]), {}
def done(phase):
    phases[phase] = time.time() - began
from leporid.spark.session import session
import pyspark.sql
done("python and its imports")
spark = session("startup", settings={"spark.log.level": "ERROR"})
done("session: Java, and Spark's context")
frame = spark.read.format("leporid").option("stream", sys.argv[2]).load()
done("load: a worker makes the source")
assert frame.first().offset == 0
done("first row: plan, task, worker")
assert frame.where("`offset` > 10").count() == int(sys.argv[3]) - 11
done("a second query")
print(json.dumps(phases))
"""

Figures = dict[str, float]


def spark_read(url: str) -> Figures:
    """Seconds that each phase of a plain batch read takes."""
    command = [sys.executable, "-c", READ, str(time.time()), STREAM, str(MESSAGES)]
    done = ran(command, url)
    phases: Figures = json.loads(done.splitlines()[-1])
    found, before = {}, 0.0
    for phase, at in phases.items():
        found[phase], before = at - before, at
        if phase.startswith("first row"):
            found["the first row, all in all"] = at
    return found


def deadletters(url: str) -> Figures:
    """Seconds of `deadletters` without Spark, and what of them is processor time."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    command = [sys.executable, "-m", "leporid.cli.main", "pipeline", "run", "deadletters"]
    said = ran([*command, "--stream", STREAM, "--once"], url)
    seconds, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if f"deadletters: {MESSAGES:,} records" not in said:
        raise SystemExit(f"deadletters said {said!r}")
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"deadletters without Spark": seconds, "of it processor time": used}


WHAT: dict[str, Callable[[str], Figures]] = {
    "spark-read": spark_read,
    "deadletters": deadletters,
}


def ran(command: Sequence[str], url: str) -> str:
    """Return what a command prints."""
    done = subprocess.run(
        command,
        env={**os.environ, "LEPORID_URL": url},
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{command[:4]} failed: {done.stderr[-2000:]}")
    return done.stdout


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="bench/startup.py", description="Waiting for Spark.")
    parser.add_argument("--runs", type=int, default=3, help="of which the median counts (3)")
    parser.add_argument("--only", choices=list(WHAT), action="append", help="repeatable")
    options = parser.parse_args(arguments)
    print(machine())
    busy = busy_share(0.5)
    with (
        tempfile.TemporaryDirectory(prefix="leporid-startup-") as name,
        BrokerProcess(Path(name, "data")) as broker,
    ):
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            channel = connection.channel()
            channel.queue_declare(STREAM, durable=True, arguments={"x-queue-type": "stream"})
            channel.confirm_delivery()
            for _ in range(MESSAGES):
                channel.basic_publish("", STREAM, b"x" * 100)
        url = f"http://127.0.0.1:{broker.http_port}"
        for what in options.only or WHAT:
            runs = [WHAT[what](url) for _ in range(options.runs)]
            for title in runs[0]:
                print(f"{title:36} {statistics.median(run[title] for run in runs):6.2f} s")
    print(f"Others used {busy:.0%} of the machine before.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
