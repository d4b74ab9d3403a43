"""Workload with filter classes that misbehave: what somebody else's messages notice of it.

An unrelated queue carries 5,000 messages a second, first alone, then beside a queue whose class
does one bad thing all the time. Other brokers than ours give no figures. Invariant: a figure is of
a time in which messages waited for the class.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from bench.brokers import Broker
from bench.filter_classes import BLOCK_MESSAGES, EXCHANGE, NAME, one, request
from bench.latency import measure
from bench.workloads import Figures, Plan, queues, workload

from leporid.load.amqp import EXCHANGE_DECLARE, QUEUE_BIND, Client, short, table
from leporid.load.processes import LoadFailed

RATE = 5_000
# To the class: blocks a second, so that it always has something to misbehave about.
BLOCKS = 4
DURABLE = b"\2"
MEMBERS = {
    "sleeps": "import time; time.sleep(3600)",
    "loops": "while True: pass",
    "allocates": "kept = [bytes(2**20) for _ in range(2**20)]",
    "crashes": "import os; os.abort()",
}
"""What each does when it is asked; the broker tries again after half a second, then less often."""


@workload("filters-class-bad")
def filters_class_bad(broker: Broker, plan: Plan) -> Figures:
    """Another queue at 5,000/s while a filter class sleeps, loops, allocates or crashes."""
    if broker.http_url is None:
        return {}
    figures: Figures = {}
    with queues(broker, 2) as (queue, other):
        figures |= latency(broker, plan, queue, "alone")
        for title, line in MEMBERS.items():
            with misbehaving(broker, other, line):
                figures |= latency(broker, plan, queue, title)
    return figures


def latency(broker: Broker, plan: Plan, queue: str, title: str) -> Figures:
    """The median, and what all but a hundredth took."""
    found = measure(
        broker.url,
        queue,
        rate=RATE,
        seconds=plan.seconds,
        warm_seconds=plan.warm_seconds,
        body_bytes=plan.body_bytes,
    )
    if not found.milliseconds:
        raise LoadFailed("nothing arrived while it was measured")
    return {f"{title}_p50_ms": found.at(0.5), f"{title}_p99_ms": found.at(0.99)}


@contextmanager
def misbehaving(broker: Broker, queue: str, line: str) -> Iterator[None]:
    """Register a class that does that, and have messages for it come all the time."""
    source = f"class Filter:\n    def match(self, message):\n        {line}\n".encode()
    request(broker, "PUT", source)
    ending = threading.Event()

    def publish() -> None:
        block = one(100, persistent=False) * (BLOCK_MESSAGES)
        with Client(broker.url) as publisher:
            while not ending.wait(1 / BLOCKS):
                publisher.sock.sendall(block)

    with Client(broker.url) as client:
        asked = b"\0\0" + short(EXCHANGE) + short("fanout") + DURABLE + table({})
        client.request(EXCHANGE_DECLARE, asked)
        names = b"\0\0" + short(queue) + short(EXCHANGE) + short("") + b"\0"
        client.request(QUEUE_BIND, names + table({"x-filter-class": NAME}))
        thread = threading.Thread(target=publish)
        thread.start()
        try:
            yield
            if not waiting(broker):
                raise LoadFailed(f"nothing waits for a class that {line!r}")
        finally:
            ending.set()
            thread.join()
            client.delete_exchange(EXCHANGE)
            # What waits goes with the queue, and then nothing uses the class.
            client.delete_queue(queue)
            client.declare_queue(queue)
            request(broker, "DELETE", None)


def waiting(broker: Broker) -> int:
    """How many messages wait for the class."""
    found: int = json.loads(request(broker, "GET", None))["waiting"]
    return found
