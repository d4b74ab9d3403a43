"""The workloads with a filter class: what goes through Python in another process, and comes out.

Messages with one header and bodies of 100 bytes go to a queue whose binding asks a class that looks
at the header and lets all of them pass; or they stand in a queue or a stream, whose consumer asks
it. Other brokers than ours give no figures. Invariant: a figure is of messages that the class gave
a verdict about and a consumer then got, all of them.
"""

from __future__ import annotations

import base64
import json
import selectors
import struct
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

from bench.brokers import Broker
from bench.workloads import Figures, Plan, queues, workload

from leporid.load.amqp import (
    BASIC_ACK,
    BASIC_PUBLISH,
    CHANNEL,
    EXCHANGE_DECLARE,
    FRAME_BODY,
    FRAME_HEADER,
    QUEUE_BIND,
    Client,
    frame,
    method,
    short,
    table,
)
from leporid.load.processes import SELECT_SECONDS, LoadFailed, Receiver

NAME = "bench-late"
SOURCE = b"""
class Filter:
    def match(self, message):
        return message.headers["dep_delay"] > 60
"""
EXCHANGE = "bench-filter-class"
LOGIN = "Basic " + base64.b64encode(b"guest:guest").decode()
BLOCK_MESSAGES = 500
# Sent and not received: enough for batches to be full, and few enough to stay in memory's caches.
OUTSTANDING = 20_000
PATIENCE_SECONDS = 60.0
FILL_MESSAGES = 1_000
CONFIRM = struct.Struct(">QB")
DURABLE = b"\2"
HAS_HEADERS_AND_MODE = 0x3000


@workload("filters-class")
def filters_class(broker: Broker, plan: Plan) -> Figures:
    """Messages that pass a filter class in Python: transient, and persistent."""
    if broker.http_url is None:
        return {}
    with queues(broker, durable=True) as (queue,), bound(broker, queue):
        return {
            "passed_per_s": rate(broker, plan, queue, persistent=False),
            "passed_persistent_per_s": rate(broker, plan, queue, persistent=True),
        }


@workload("filters-class-stream")
def filters_class_stream(broker: Broker, plan: Plan) -> Figures:
    """Read a stream from its beginning through a filter class in Python, prefetch 2000."""
    return consumed(broker, plan, "stream")


@workload("filters-class-queue")
def filters_class_queue(broker: Broker, plan: Plan) -> Figures:
    """Take what a queue has through a filter class in Python, prefetch 2000."""
    return consumed(broker, plan, "classic")


def consumed(broker: Broker, plan: Plan, kind: str) -> Figures:
    """Fill a queue or stream, and have a consumer with the class take all of it."""
    if broker.http_url is None:
        return {}
    with queues(broker, durable=True, kind=kind) as (name,), registered(broker):
        fill(broker, name, plan)
        before = broker.cpu_seconds()
        offset = "first" if kind == "stream" else None
        figures = {"read_per_s": plan.messages / read(broker, name, plan, offset)}
        after = broker.cpu_seconds()
        if before is not None and after is not None:
            figures["broker_cpu_ns"] = (after - before) / plan.messages * 1e9
        judging = Broker("class", broker.url, class_pid(broker)).cpu_seconds()
        if judging is not None:
            figures["class_cpu_ns"] = judging / plan.messages * 1e9
        return figures


@contextmanager
def registered(broker: Broker) -> Iterator[None]:
    """Have the class for the time of a workload."""
    request(broker, "PUT", SOURCE)
    try:
        yield
    finally:
        request(broker, "DELETE", None)


def fill(broker: Broker, queue: str, plan: Plan) -> None:
    """Publish what is read, each block confirmed before the next but one."""
    message = one(plan.body_bytes, persistent=True, exchange="", key=queue)
    with Client(broker.url) as client:
        client.select_confirm()
        sent = confirmed = 0
        while confirmed < plan.messages:
            if sent < plan.messages and sent - confirmed <= FILL_MESSAGES:
                size = min(FILL_MESSAGES, plan.messages - sent)
                client.sock.sendall(message * size)
                sent += size
            else:
                confirmed, _ = CONFIRM.unpack(client.wait_for(BASIC_ACK)[4:])


def read(broker: Broker, queue: str, plan: Plan, offset: str | None) -> float:
    """Read all of it; returns seconds. The class's process is started in them."""
    with Client(broker.url) as client, selectors.DefaultSelector() as selector:
        began = time.monotonic()
        asked = {"x-filter-class": NAME}
        receiver = Receiver(
            client, queue, ack_every=500, prefetch=2000, offset=offset, arguments=asked
        )
        selector.register(client.sock, selectors.EVENT_READ)
        while receiver.delivered < plan.messages:
            if not selector.select(PATIENCE_SECONDS):
                raise LoadFailed(f"{receiver.delivered} of {plan.messages} messages came")
            receiver.receive()
        seconds = time.monotonic() - began
        client.sock.setblocking(True)
        return seconds


@contextmanager
def bound(broker: Broker, queue: str) -> Iterator[None]:
    """Register the class, and bind a queue with it."""
    with registered(broker), Client(broker.url) as client:
        asked = b"\0\0" + short(EXCHANGE) + short("fanout") + DURABLE + table({})
        client.request(EXCHANGE_DECLARE, asked)
        names = b"\0\0" + short(queue) + short(EXCHANGE) + short("") + b"\0"
        client.request(QUEUE_BIND, names + table({"x-filter-class": NAME}))
        try:
            yield
        finally:
            client.delete_exchange(EXCHANGE)


def class_pid(broker: Broker) -> int:
    """The process of the class."""
    found: int = json.loads(request(broker, "GET", None))["pid"]
    return found


def request(broker: Broker, kind: str, body: bytes | None) -> bytes:
    """Register, look at or delete the class."""
    url = f"{broker.http_url}/api/filter-classes/{NAME}"
    asked = urllib.request.Request(url, body, {"Authorization": LOGIN}, method=kind)
    with urllib.request.urlopen(asked) as answer:
        told: bytes = answer.read()
        return told


def rate(broker: Broker, plan: Plan, queue: str, *, persistent: bool) -> float:
    """Publish for the plan's time, a bounded number ahead; returns messages received a second."""
    block = one(plan.body_bytes, persistent=persistent) * BLOCK_MESSAGES
    consumer = Client(broker.url)
    receiver = Receiver(consumer, queue)
    began = time.monotonic()
    sent = 0
    ending = threading.Event()

    def receive() -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(consumer.sock, selectors.EVENT_READ)
            while not ending.is_set():
                if selector.select(SELECT_SECONDS):
                    receiver.receive()

    thread = threading.Thread(target=receive, daemon=True)
    thread.start()
    with Client(broker.url) as publisher:
        while time.monotonic() < began + plan.seconds:
            if sent - receiver.delivered < OUTSTANDING:
                publisher.sock.sendall(block)
                sent += BLOCK_MESSAGES
            else:
                time.sleep(0.001)
        while receiver.delivered < sent:
            if time.monotonic() > began + plan.seconds + PATIENCE_SECONDS:
                raise LoadFailed(f"{receiver.delivered} of {sent} messages came")
            time.sleep(0.001)
        seconds = time.monotonic() - began
    ending.set()
    thread.join()
    consumer.sock.close()
    return sent / seconds


def one(body_bytes: int, *, persistent: bool, exchange: str = EXCHANGE, key: str = "") -> bytes:
    """The frames of one message."""
    head = struct.pack(">HHQH", BASIC_PUBLISH[0], 0, body_bytes, HAS_HEADERS_AND_MODE)
    mode = b"\x02" if persistent else b"\x01"
    return b"".join(
        (
            method(CHANNEL, BASIC_PUBLISH, b"\0\0" + short(exchange) + short(key) + b"\0"),
            frame(FRAME_HEADER, CHANNEL, head + table({"dep_delay": 75}) + mode),
            frame(FRAME_BODY, CHANNEL, bytes(body_bytes)),
        )
    )
