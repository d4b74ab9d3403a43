"""Workload with consumers that have filters: what it costs to give each what it wants.

A queue is filled with messages of as many kinds as there are consumers, whose kinds are in random
order; then all consumers come at once, each with a filter of its own. Invariant: every message is
delivered once, or the run stops; a filter that lets nothing pass gets nothing.
"""

from __future__ import annotations

import random
import struct
import threading
import time
from collections.abc import Callable

from bench.brokers import Broker
from bench.workloads import Figures, Plan, queues, workload

from leporid.load.amqp import (
    BASIC_ACK,
    BASIC_CONSUME,
    BASIC_PUBLISH,
    CHANNEL,
    FRAME_BODY,
    FRAME_HEADER,
    Client,
    frame,
    method,
    short,
    table,
)
from leporid.load.processes import LoadFailed, delivery_size

CONSUMERS = 100
BLOCK_MESSAGES = 1_000
CONFIRM = struct.Struct(">QB")
RECEIVE_BYTES = 1024 * 1024
PATIENCE_SECONDS = 60.0
# Properties: headers are there.
HEADERS = b"\x20\0"
PAUSE_SECONDS = 0.002


@workload("filters-consumers")
def filters_consumers(broker: Broker, plan: Plan) -> Figures:
    """A backlog for 100 consumers, each with its own filter; and beside one that finds nothing."""
    if broker.http_url is None:
        return {}
    figures: Figures = {}
    filters: dict[str, Callable[[int], str]] = {
        "equal_per_s": lambda kind: f"kind = 'k{kind:02d}' AND size > 5",
        "ranges_per_s": lambda kind: f"number BETWEEN {kind} AND {kind}",
    }
    for title, sql in filters.items():
        with queues(broker) as (name,):
            fill(broker, name, plan)
            figures[title] = plan.messages / drain(broker, name, plan, sql)
    with queues(broker, 2) as (name, other):
        fill(broker, name, plan)
        return figures | beside_a_search(broker, name, other, plan)


def fill(broker: Broker, queue: str, plan: Plan) -> None:
    """Publish the backlog, each block confirmed before the next but one."""
    choose = random.Random(3)
    kinds = [flight(queue, kind, bytes(plan.body_bytes)) for kind in range(CONSUMERS)]
    with Client(broker.url) as client:
        client.select_confirm()
        sent = confirmed = 0
        while sent < plan.messages:
            size = min(BLOCK_MESSAGES, plan.messages - sent)
            client.sock.sendall(b"".join(choose.choices(kinds, k=size)))
            sent += size
            enough = sent - BLOCK_MESSAGES if sent < plan.messages else sent
            while confirmed < enough:
                confirmed, _ = CONFIRM.unpack(client.wait_for(BASIC_ACK)[4:])


def flight(queue: str, kind: int, body: bytes) -> bytes:
    """The frames of a message with six headers, two of which say its kind."""
    head = method(CHANNEL, BASIC_PUBLISH, b"\0\0" + short("") + short(queue) + b"\0")
    headers = table(
        {
            "carrier": "UA",
            "origin": "JFK",
            "late": kind % 2 == 0,
            "size": 100,
            "number": kind,
            "kind": f"k{kind:02d}",
        }
    )
    header = struct.pack(">HHQ", BASIC_PUBLISH[0], 0, len(body)) + HEADERS + headers
    return head + frame(FRAME_HEADER, CHANNEL, header) + frame(FRAME_BODY, CHANNEL, body)


def consume(client: Client, queue: str, tag: str, sql: str, *, wait: bool) -> None:
    """Start a consumer that acknowledges automatically; only with `wait` is that confirmed."""
    bits = b"\x02" if wait else b"\x0a"
    arguments = b"\0\0" + short(queue) + short(tag) + bits + table({"x-filter-sql": sql})
    if wait:
        client.request(BASIC_CONSUME, arguments)
    else:
        client.sock.sendall(method(CHANNEL, BASIC_CONSUME, arguments))


def drain(broker: Broker, queue: str, plan: Plan, sql: Callable[[int], str]) -> float:
    """Have all consumers take all there is; returns seconds."""
    with Client(broker.url) as client:
        began = time.monotonic()
        for kind in range(CONSUMERS):
            consume(client, queue, f"c{kind:02d}", sql(kind), wait=False)
        buffer = bytearray(RECEIVE_BYTES)
        first = bytearray()
        size = received = 0
        while not size or received < plan.messages * size:
            count = client.sock.recv_into(buffer)
            if not count:
                raise LoadFailed("the broker closed a consumer's connection")
            received += count
            if not size:
                first += buffer[:count]
                size = delivery_size(memoryview(first))
        seconds = time.monotonic() - began
        if client.declare_queue(queue, passive=True) or received != plan.messages * size:
            raise LoadFailed(f"{received} bytes are not {plan.messages} deliveries of {size}")
        return seconds


def beside_a_search(broker: Broker, queue: str, other: str, plan: Plan) -> Figures:
    """How long the broker takes to answer a question while a filter looks through the backlog."""
    figures: Figures = {}
    with Client(broker.url) as client, Client(broker.url) as searcher:
        figures["answer_alone_p99_ms"] = answers(client, other, lambda count: count < 500)
        searched = threading.Event()

        def search() -> None:
            # The answer to a question asked afterwards says nothing: the search goes on meanwhile.
            # That it is over is seen by a message at the end, which it wants.
            consume(searcher, queue, "s", "number = -1", wait=True)
            searcher.wait_for((60, 60))
            searched.set()

        last = flight(queue, -1, bytes(plan.body_bytes))
        client.sock.sendall(last)
        client.declare_queue(other, passive=True)
        began = time.monotonic()
        thread = threading.Thread(target=search)
        thread.start()
        figures["answer_p99_ms"] = answers(client, other, lambda _: not searched.is_set())
        thread.join(PATIENCE_SECONDS)
        figures["search_s"] = time.monotonic() - began
    return figures


def answers(client: Client, queue: str, go_on: Callable[[int], bool]) -> float:
    """Ask about a queue again and again; the time of all but a hundredth of the answers."""
    times: list[float] = []
    while not times or go_on(len(times)):
        began = time.monotonic()
        client.declare_queue(queue, passive=True)
        times.append(1000 * (time.monotonic() - began))
        time.sleep(PAUSE_SECONDS)
    return sorted(times)[len(times) * 99 // 100]
