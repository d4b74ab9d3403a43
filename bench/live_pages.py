"""What open pages of the web UI cost the broker: processor time, and the latency of messages.

    python bench/live_pages.py
    python bench/live_pages.py --queues 1000 --pages 10 --seconds 20

Starts a broker of its own and declares queues. Then it measures the broker's processor time with
nobody and with so many pages: each listens to `/api/live`, watches what it shows, and asks for the
lists and objects that the page of that kind asks for, as often. Last, it takes the latency of
messages, with nobody and with half of the pages. Responsible for these figures. Invariant: an
answer that is not 200 ends the run.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.sharedctypes import Synchronized
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Final, NamedTuple

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.brokers import OwnBroker, own_broker
from bench.latency import Latencies, measure
from bench.policies import LOGIN, declare
from bench.report import machine
from bench.scrapers import connect, get

from leporid.load.amqp import Client

RATE: Final = 5_000
BODY_BYTES: Final = 100
WARM_SECONDS: Final = 2.0


class Page(NamedTuple):
    """A page that somebody looks at.

    Attributes:
        watch: what it watches.
        asked: paths, each with the seconds between two questions.
    """

    watch: str
    asked: tuple[tuple[str, float], ...]


def top(path: str, sort: str) -> str:
    """Return the path of the first rows of a list."""
    return f"/api/{path}?page=1&page_size=20&sort={sort}&sort_reverse=true"


# What the pages of src/leporid/webui ask for, and how often.
OVERVIEW: Final = Page(
    "",
    (
        ("/api/nodes", 10),
        (top("queues", "messages_ready"), 15),
        (top("queues", "messages_unacknowledged"), 15),
        (top("readers", "lag_ms"), 15),
        (top("dead-letters", "messages"), 15),
        (top("connections", "state"), 15),
    ),
)
COLUMNS: Final = (
    "name,vhost,type,state,durable,auto_delete,exclusive,policy,arguments,"
    "effective_policy_definition,consumers,messages,messages_ready,messages_unacknowledged,"
    "message_stats"
)
LIST: Final = Page("", ((f"/api/queues?page=1&page_size=100&columns={COLUMNS}", 5),))
QUEUE: Final = Page(
    "?watch=queue:%252F:bench.1.orders",
    (
        ("/api/queues/%2F/bench.1.orders", 5),
        ("/api/queues/%2F/bench.1.orders/bindings", 10),
    ),
)
KINDS: Final = (OVERVIEW, LIST, QUEUE)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--queues", type=int, default=1000)
    parser.add_argument("--pages", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each figure")
    parser.add_argument("--rate", type=int, default=RATE, help="messages a second")
    options = parser.parse_args(arguments)
    print(machine())
    with own_broker() as broker, Client(broker.url) as client:
        names = [f"bench.{number}.orders" for number in range(options.queues)]
        declare(client, names, durable=True)
        client.declare_queue("latency")
        print(f"{options.queues:,} queues; processor time of the broker, of one core")
        alone = share(broker, (), options.seconds)
        print(f"  {'nobody looks':24} {100 * alone:5.2f} %")
        for name, kinds in (
            ("overviews", (OVERVIEW,)),
            ("lists of queues", (LIST,)),
            ("single queues", (QUEUE,)),
            ("of all kinds", KINDS),
        ):
            used = share(broker, pages_of(kinds, options.pages), options.seconds)
            print(
                f"  {options.pages} {name:21} {100 * used:5.2f} %, more {100 * (used - alone):5.2f}"
            )
        print(f"{options.rate:,} messages a second; ms")
        for count in (0, options.pages // 2):
            found = beside(broker, pages_of(KINDS, count), options.seconds, options.rate)
            print(
                f"  {count} pages  p50 {found.at(0.5):6.2f}  p99 {found.at(0.99):6.2f}  "
                f"p99.9 {found.at(0.999):6.2f}"
            )
    return 0


def pages_of(kinds: Sequence[Page], count: int) -> list[Page]:
    """Return so many pages, of each kind as many."""
    return [kinds[number % len(kinds)] for number in range(count)]


def share(broker: OwnBroker, pages: Sequence[Page], seconds: float) -> float:
    """Return how much of a core the broker uses while these pages are open."""
    with opened(broker, pages):
        time.sleep(WARM_SECONDS)
        began, before = time.monotonic(), broker.cpu_seconds()
        time.sleep(seconds)
        after, took = broker.cpu_seconds(), time.monotonic() - began
    assert before is not None
    assert after is not None
    return (after - before) / took


def beside(broker: OwnBroker, pages: Sequence[Page], seconds: float, rate: int) -> Latencies:
    """Take latencies while these pages are open."""
    with opened(broker, pages):
        return measure(
            broker.url,
            "latency",
            rate=rate,
            seconds=seconds,
            warm_seconds=WARM_SECONDS,
            body_bytes=BODY_BYTES,
        )


@contextlib.contextmanager
def opened(broker: OwnBroker, pages: Sequence[Page]) -> Iterator[None]:
    """Have pages open, in a process of their own."""
    context = multiprocessing.get_context("fork")
    events, stopped = context.Value("Q", 0), context.Event()
    process = context.Process(
        target=look, args=(broker.http_url, pages, events, stopped), daemon=True
    )
    process.start()
    began = time.monotonic()
    try:
        yield
    finally:
        stopped.set()
        process.join()
    took = time.monotonic() - began
    if process.exitcode:
        raise SystemExit("a page failed")
    if pages and events.value < 0.5 * len(pages) * took:
        raise SystemExit(f"{events.value} events came in {took:.0f} s, on {len(pages)} pages")


def look(url: str, pages: Sequence[Page], events: Synchronized[int], stopped: Event) -> None:
    """Be these pages until told to stop."""
    with ThreadPoolExecutor(2 * len(pages) or 1) as threads:
        begun = []
        for number, page in enumerate(pages):
            begun.append(threads.submit(listen, url, page, events, stopped))
            # Nobody opens all pages at once.
            begun.append(threads.submit(ask, url, page, number / len(pages), stopped))
    for each in begun:
        each.result()


def listen(url: str, page: Page, events: Synchronized[int], stopped: Event) -> None:
    """Take the events of one page."""
    with contextlib.closing(connect(url)) as connection:
        connection.request("GET", f"/api/live{page.watch}", headers={"Authorization": LOGIN})
        answer = connection.getresponse()
        if answer.status != 200:
            raise SystemExit(f"/api/live{page.watch}: {answer.status}")
        while not stopped.is_set():
            if answer.readline().startswith(b"data: "):
                with events.get_lock():
                    events.value += 1


def ask(url: str, page: Page, wait: float, stopped: Event) -> None:
    """Ask for what one page shows, as often as it does."""
    due = [(time.monotonic() + wait * every, path, every) for path, every in page.asked]
    while True:
        due.sort()
        moment, path, every = due[0]
        if stopped.wait(max(0.0, moment - time.monotonic())):
            return
        # The broker closes a connection that does nothing for five seconds, and browsers open
        # another one.
        with contextlib.closing(connect(url)) as connection:
            get(connection, path)
        due[0] = (moment + every, path, every)


if __name__ == "__main__":
    sys.exit(main())
