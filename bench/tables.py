"""Workloads that read and write streams as tables: Polars over HTTP, and Spark.

What is measured runs in a process of its own (`table_reader`), since Spark's and Polars' threads
would disturb the loads of other workloads. It does not know how a figure is taken. Brokers that
have no such streams give no figures.
"""

from __future__ import annotations

import base64
import contextlib
import json
import multiprocessing
import socket
import subprocess
import sys
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.brokers import Broker
from bench.workloads import (
    Figures,
    Plan,
    backlog_load,
    fill,
    latency_at,
    queues,
    workload,
)

from leporid.load.processes import LoadFailed

ROOT = Path(__file__).parents[1]
# Of the messages of a backlog: reading is so much faster that fewer would measure its start.
ROWS_FACTOR = 5
# Three passes over five million rows on a slow machine.
READER_SECONDS = 600
LOG_TAIL_CHARACTERS = 2000


@contextlib.contextmanager
def filled(broker: Broker, plan: Plan) -> Iterator[dict[str, Any]]:
    """A stream with rows in it, as a reader wants to know of it."""
    with queues(broker, durable=True, kind="stream", label="table") as (name,):
        load = backlog_load(plan, (name,), persistent=True, factor=ROWS_FACTOR)
        _, done = fill(broker, load)
        yield {"url": broker.http_url, "stream": name, "rows": done.published}


def measured(what: str, facts: dict[str, Any]) -> Figures:
    """Run a reader; returns the figures that it prints."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "bench.table_reader", what, json.dumps(facts)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=READER_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise LoadFailed(f"{what} took more than {READER_SECONDS} s") from None
    if done.returncode:
        raise LoadFailed(f"{what} failed: {done.stderr[-LOG_TAIL_CHARACTERS:]}")
    figures: Figures = json.loads(done.stdout.splitlines()[-1])
    return figures


@workload("polars")
def polars(broker: Broker, plan: Plan) -> Figures:
    """A stream into a data frame of Polars, over HTTP: all columns, and the plain ones."""
    if broker.http_url is None:
        return {}
    with filled(broker, plan) as facts:
        return measured("polars", facts)


@workload("spark-read")
def spark_read(broker: Broker, plan: Plan) -> Figures:
    """Count and sum over a stream in Spark: columns times partitions."""
    if broker.http_url is None:
        return {}
    with filled(broker, plan) as facts:
        return measured("spark-read", facts)


@workload("spark-stream")
def spark_stream(broker: Broker, plan: Plan) -> Figures:
    """A streaming query: all that is there, then batches of 1,000 rows as they come."""
    if broker.http_url is None:
        return {}
    with filled(broker, plan) as facts, queues(broker, durable=True, kind="stream") as (live,):
        batches = max(3, round(4 * plan.seconds))
        return measured("spark-stream", {**facts, "live": live, "batches": batches})


@workload("spark-write")
def spark_write(broker: Broker, plan: Plan) -> Figures:
    """Rows that Spark makes into a stream, from two tasks, each row confirmed after a sync."""
    if broker.http_url is None:
        return {}
    with queues(broker, durable=True, kind="stream") as (name,):
        facts = {"url": broker.http_url, "stream": name, "rows": plan.messages}
        return measured("spark-write", {**facts, "body_bytes": plan.body_bytes})


# ------------------------------------------------------------------ what others feel of it

READERS = 4


@workload("latency-tables")
def latency_tables(broker: Broker, plan: Plan) -> Figures:
    """From sent to received at 5,000/s, beside 4 readers of tables that do not pause."""
    if broker.http_url is None:
        return {}
    context = multiprocessing.get_context("fork")
    with filled(broker, plan) as facts:
        readers = [
            context.Process(target=_download, args=(facts["url"], facts["stream"]), daemon=True)
            for _ in range(READERS)
        ]
        for reader in readers:
            reader.start()
        try:
            return latency_at(broker, plan, 5_000)
        finally:
            for reader in readers:
                reader.kill()
                reader.join()


def _download(url: str, stream: str) -> None:
    """All columns, again and again; what comes is dropped, as a client that works takes from us."""
    where = urllib.parse.urlsplit(url)
    credentials = base64.b64encode(b"guest:guest").decode()
    request = (
        f"GET /api/streams/%2F/{stream}/records HTTP/1.1\r\nHost: {where.hostname}\r\n"
        f"Connection: close\r\nAuthorization: Basic {credentials}\r\n\r\n"
    ).encode()
    buffer = bytearray(1 << 20)
    while True:
        with socket.create_connection((str(where.hostname), where.port or 80)) as peer:
            peer.sendall(request)
            while peer.recv_into(buffer):
                pass
