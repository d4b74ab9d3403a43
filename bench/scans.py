"""A workload that looks for ten messages among millions of a stream, by one filter after another.

The messages are those of `filters`: flights with six headers and a body of 100 bytes. The last of
the ten is the last message, so what is measured is how long the broker takes to look at all of
them, what it takes to begin included. Brokers without such filters give no figures.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Mapping

from bench.brokers import Broker
from bench.filters import flight
from bench.workloads import Figures, Plan, queues, workload

from leporid.load.amqp import BASIC_ACK, Client
from leporid.load.processes import LoadFailed

BASIC_DELIVER = (60, 60)
FOUND = 10
# Of the messages of a backlog; fewer are looked through before a clock has moved.
MESSAGES_FACTOR = 10
BLOCK_MESSAGES = 1_000
# Sent and not confirmed, so that neither side's memory grows.
WINDOW_MESSAGES = 200_000
PASSES = 3
CONFIRM = struct.Struct(">QB")

FILTERS: dict[str, Mapping[str, str]] = {
    "sql_scanned_per_s": {"x-filter-sql": "dep_delay > 1000 AND origin = 'JFK'"},
    "tag_scanned_per_s": {"x-filter-tags": "late"},
    "tag_sql_scanned_per_s": {"x-filter-sql": "\"x-tag\" = 'late' AND dep_delay > 1000"},
    # A tag that nearly all messages have rules nothing out.
    "usual_tag_scanned_per_s": {"x-filter-tags": "flight || late", "x-filter-sql": "flight = 9000"},
}


@workload("filters-stream")
def filters_stream(broker: Broker, plan: Plan) -> Figures:
    """Ten messages among ten millions of a stream: by SQL, by tag, by both."""
    if broker.http_url is None:
        return {}
    count = plan.messages * MESSAGES_FACTOR
    with queues(broker, durable=True, kind="stream", label="scan") as (name,):
        fill(broker, name, count)
        figures = {
            figure: count / min(scan(broker, name, arguments) for _ in range(PASSES))
            for figure, arguments in FILTERS.items()
        }
        before = broker.cpu_seconds()
        scan(broker, name, FILTERS["sql_scanned_per_s"])
        after = broker.cpu_seconds()
        if before is not None and after is not None:
            figures["sql_cpu_ns"] = (after - before) / count * 1e9
    return figures


def fill(broker: Broker, stream: str, count: int) -> None:
    """Publish so many flights, of which every tenth part ends with one that is late."""
    usual = b"".join(flight(number + 1, stream) for number in range(BLOCK_MESSAGES))
    last = b"".join(
        flight(number + 1 if number < BLOCK_MESSAGES - 1 else 0, stream)
        for number in range(BLOCK_MESSAGES)
    )
    blocks = count // BLOCK_MESSAGES
    late = {(part + 1) * blocks // FOUND - 1 for part in range(FOUND)}
    if len(late) < FOUND:
        raise LoadFailed(f"{count} messages are too few to look for {FOUND} of them")
    with Client(broker.url) as client:
        client.select_confirm()
        confirmed = 0
        for block in range(blocks):
            client.sock.sendall(last if block in late else usual)
            sent = (block + 1) * BLOCK_MESSAGES
            wanted = sent if block == blocks - 1 else sent - WINDOW_MESSAGES
            while confirmed < wanted:
                confirmed, _ = CONFIRM.unpack(client.wait_for(BASIC_ACK)[4:])


def scan(broker: Broker, stream: str, arguments: Mapping[str, str]) -> float:
    """Consume until all that match have come; returns seconds."""
    with Client(broker.url) as client:
        began = time.perf_counter()
        client.consume(stream, no_ack=False, prefetch=1000, offset="first", arguments=arguments)
        for _ in range(FOUND):
            client.wait_for(BASIC_DELIVER)
        return time.perf_counter() - began
