"""What monitoring costs: long lists over HTTP, and the latency of messages beside scrapers.

    python bench/scrapers.py
    python bench/scrapers.py --queues 10000 --scrapers 4 --seconds 10

Starts a broker of its own and declares queues. Then it asks for each page alone; and takes the
latency of 5,000 messages a second through another queue, first with nobody else, and then beside
processes that ask for all pages in turn: at an interval, as monitoring does, and without a pause.
Responsible for these figures. Invariant: a page that was not answered with 200 ends the run.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import multiprocessing
import statistics
import sys
import time
from collections.abc import Sequence
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.brokers import OwnBroker, own_broker
from bench.latency import Latencies, measure
from bench.policies import LOGIN, declare
from bench.report import machine

from leporid.load.amqp import Client

RATE: Final = 5_000
BODY_BYTES: Final = 100
INTERVAL_SECONDS: Final = 5.0
PATIENCE_SECONDS: Final = 60.0
RUNS: Final = 5

PAGES: Final = (
    "/api/queues",
    "/api/queues?page=1&page_size=100&sort=messages&sort_reverse=true",
    "/api/queues?disable_stats=true",
    "/api/overview",
    "/metrics",
    "/metrics/per-object",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queues", type=int, default=10_000)
    parser.add_argument("--scrapers", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each latency")
    parser.add_argument("--rate", type=int, default=RATE, help="messages a second")
    options = parser.parse_args(arguments)
    print(machine())
    with own_broker() as broker, Client(broker.url) as client:
        declare(
            client, [f"bench.{number}.orders" for number in range(options.queues)], durable=True
        )
        client.declare_queue("latency")
        print(f"{options.queues:,} queues; each page {RUNS} times, medians")
        for page in PAGES:
            print_page(broker, page)
        print(f"{options.rate:,} messages a second, beside {options.scrapers} scrapers; ms")
        for name, scrapers, interval in (
            ("nobody else", 0, 0.0),
            (f"every {INTERVAL_SECONDS:.0f} s", options.scrapers, INTERVAL_SECONDS),
            ("without a pause", options.scrapers, 0.0),
        ):
            found, pages = beside(broker, scrapers, interval, options.seconds, options.rate)
            print(
                f"  {name:16} p50 {found.at(0.5):6.2f}  p99 {found.at(0.99):6.2f}  "
                f"p99.9 {found.at(0.999):6.2f}  {pages:,} pages"
            )
    return 0


def print_page(broker: OwnBroker, page: str) -> None:
    """Ask for a page alone, several times."""
    seconds, used, size = [], [], 0
    with contextlib.closing(connect(broker.http_url)) as connection:
        for _ in range(RUNS):
            before, began = broker.cpu_seconds() or 0.0, time.perf_counter()
            size = get(connection, page)
            seconds.append(time.perf_counter() - began)
            used.append((broker.cpu_seconds() or 0.0) - before)
    print(
        f"  {1000 * statistics.median(seconds):7.0f} ms  "
        f"{1000 * statistics.median(used):5.0f} ms of its processor  {size / 1e6:6.2f} MB  {page}"
    )


def beside(
    broker: OwnBroker, scrapers: int, interval: float, seconds: float, rate: int
) -> tuple[Latencies, int]:
    """Take latencies while so many processes scrape; returns how many pages they got, too."""
    context = multiprocessing.get_context("fork")
    counted = context.Value("Q", 0)
    stopped = context.Event()
    processes = [
        context.Process(
            target=scrape,
            args=(broker.http_url, interval, interval * number / max(1, scrapers)),
            kwargs={"counted": counted, "stopped": stopped},
            daemon=True,
        )
        for number in range(scrapers)
    ]
    for process in processes:
        process.start()
    found = measure(
        broker.url, "latency", rate=rate, seconds=seconds, warm_seconds=1.0, body_bytes=BODY_BYTES
    )
    stopped.set()
    for process in processes:
        process.join()
        if process.exitcode:
            raise SystemExit("a scraper failed")
    return found, counted.value


def scrape(
    url: str, interval: float, wait: float, *, counted: Synchronized[int], stopped: Event
) -> None:
    """Ask for all pages in turn until told to stop."""
    stopped.wait(wait)
    while not stopped.is_set():
        with contextlib.closing(connect(url)) as connection:
            for page in PAGES:
                if stopped.is_set():
                    return
                get(connection, page)
                with counted.get_lock():
                    counted.value += 1
        stopped.wait(interval)


def connect(url: str) -> http.client.HTTPConnection:
    """Return a connection for several requests."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    return http.client.HTTPConnection(parts.hostname, parts.port, PATIENCE_SECONDS)


def get(connection: http.client.HTTPConnection, page: str) -> int:
    """Get a page; returns its length in bytes."""
    connection.request("GET", page, headers={"Authorization": LOGIN})
    answer = connection.getresponse()
    text = answer.read()
    if answer.status != 200:
        raise SystemExit(f"{page}: {answer.status} {text[:200]!r}")
    return len(text)


if __name__ == "__main__":
    sys.exit(main())
