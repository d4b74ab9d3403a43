"""No attacks, but more than a broker is usually given: connections, queues, bindings, messages."""

from __future__ import annotations

import contextlib
import selectors
import struct
import time

from bench.attacks.attack import LOAD, MB, Bounds, Ground, Steps, attack
from bench.attacks.definitions import send_all
from bench.attacks.peer import (
    BASIC_GET,
    Peer,
    consume,
    exchange_declare,
    publish,
    queue_bind,
    queue_declare,
)

from leporid.load.amqp import BASIC_ACK, BASIC_QOS, CHANNEL, QUEUE_DELETE, method, short

# Beyond the memory that 100,000 queues take anywhere: here others' waiting is looked at.
WATERMARK_BYTES = 2_000 * MB
LARGEST_BYTES = 128 * 2**20
BUSY = 2_000
BUSY_PER_SECOND = 4_000
TICK_SECONDS = 0.01
CONSUMED_PER_SECOND = 1_000
FLOODING = 500
FLOOD_BLOCK = 1000
TIMES = 20
PREFETCH = 1_000


@attack("idle-connections", bounds=LOAD)
def idle_connections(ground: Ground) -> Steps:
    """10,000 connections are opened, and stay idle."""
    with contextlib.ExitStack() as stack:
        yield
        for _ in range(ground.count(10_000)):
            stack.enter_context(ground.peer())
        ground.hold()


@attack("busy-connections", bounds=LOAD)
def busy_connections(ground: Ground) -> Steps:
    """2,000 connections, each with a queue of its own, publish and consume 2 messages a second."""
    with contextlib.ExitStack() as stack, selectors.DefaultSelector() as selector:
        peers = []
        for at in range(ground.count(BUSY)):
            peer = stack.enter_context(ground.peer())
            name = f"busy.{at}"
            peer.push(queue_declare(name, flags="e") + consume(name, "c", no_ack=True))
            peer.settle()
            selector.register(peer.sock, selectors.EVENT_READ)
            peers.append(peer)
        messages = [publish("", f"busy.{at}", bytes(100)) for at in range(len(peers))]
        yield
        began = time.monotonic()
        sent = 0
        while (now := time.monotonic()) < began + ground.plan.seconds:
            for _ in range(int((now - began) * BUSY_PER_SECOND) - sent):
                peers[sent % len(peers)].sock.sendall(messages[sent % len(peers)])
                sent += 1
            for key, _ in selector.select(TICK_SECONDS):
                key.fileobj.recv(65536)  # type: ignore[union-attr]


@attack("flooding-connections")
def flooding_connections(ground: Ground) -> Steps:
    """500 connections of one user declare the same queue without end, and without waiting."""
    block = queue_declare("flood") * FLOOD_BLOCK
    with contextlib.ExitStack() as stack, selectors.DefaultSelector() as selector:
        for _ in range(ground.count(FLOODING)):
            peer = stack.enter_context(ground.peer())
            peer.sock.setblocking(False)
            selector.register(peer.sock, selectors.EVENT_WRITE)
        yield
        began = time.monotonic()
        while time.monotonic() < began + ground.plan.seconds:
            for key, _ in selector.select(TICK_SECONDS):
                left = memoryview(key.data or block)
                with contextlib.suppress(BlockingIOError):
                    left = left[key.fileobj.send(left) :]  # type: ignore[union-attr]
                selector.modify(key.fileobj, selectors.EVENT_WRITE, left)


def monitor(ground: Ground) -> None:
    """Monitoring asks for the broker's figures."""
    status, _ = ground.ask("GET", ground.target.metrics_path, user="canary")
    if status != 200:
        raise ConnectionError(f"no figures: {status}")


@attack(
    "queues",
    bounds=Bounds(probe_ms=50.0),
    watermark_bytes=WATERMARK_BYTES,
    probe=monitor,
    probe_every_seconds=1.0,
)
def queues(ground: Ground) -> Steps:
    """100,000 queues are declared, while monitoring asks for figures."""
    with ground.peer() as peer:
        yield
        send_all(peer, (queue_declare(f"many.{at}") for at in range(ground.count(100_000))))
        ground.hold()


@attack("bindings", watermark_bytes=WATERMARK_BYTES)
def bindings(ground: Ground) -> Steps:
    """100 queues are bound a million times to a direct exchange."""
    with ground.peer() as peer:
        peer.push(exchange_declare("many", "direct"))
        send_all(peer, (queue_declare(f"many.{at}") for at in range(100)))
        yield
        count = ground.count(1_000_000)
        send_all(peer, (queue_bind(f"many.{at % 100}", "many", f"k{at}") for at in range(count)))


@attack("largest-message", bounds=LOAD)
def largest_message(ground: Ground) -> Steps:
    """A message of 128 MiB is published and got."""
    with ground.peer() as peer:
        peer.push(queue_declare("q"))
        peer.settle()
        yield
        peer.push(publish("", "q", bytes(ground.count(LARGEST_BYTES))))
        if peer.settle() and peer.ask(BASIC_GET, b"\0\0" + short("q") + b"\1"):
            peer.settle()


@attack("publisher-ahead", bounds=LOAD)
def publisher_ahead(ground: Ground) -> Steps:
    """A publisher of messages of 1 KB is 20 times faster than its consumer."""
    with ground.peer("other") as publisher, ground.peer("other") as consumer:
        publisher.push(queue_declare("q"))
        publisher.settle()
        consumer.ask(BASIC_QOS, struct.pack(">IH?", 0, PREFETCH, False))
        consumer.push(consume("q", "c"))
        consumer.settle()
        yield
        sent, acked = _publish_ahead(publisher, consumer, ground.plan.load_seconds)
        # What is left is nobody's: with it, the cause of an alarm goes.
        consumer.ask(QUEUE_DELETE, b"\0\0" + short("q") + b"\0")
        ground.note(f"{sent:,} messages published, {acked:,} consumed")


def _publish_ahead(publisher: Peer, consumer: Peer, seconds: float) -> tuple[int, int]:
    per_tick = round(CONSUMED_PER_SECOND * TICK_SECONDS)
    block = memoryview(publish("", "q", bytes(1000)) * per_tick * TIMES)
    left = memoryview(b"")
    blocks = acked = 0
    began = time.monotonic()
    while (now := time.monotonic()) < began + seconds and not publisher.gone:
        due = int((now - began) / TICK_SECONDS)
        while left or blocks < due:
            if not left:
                left = block
                blocks += 1
            left = publisher.offer(left)
            if left:
                break
        consumer.offer(memoryview(b""))
        wanted = min(consumer.received[60, 60], int((now - began) * CONSUMED_PER_SECOND))
        if wanted > acked:
            acked = wanted
            consumer.push(method(CHANNEL, BASIC_ACK, struct.pack(">QB", acked, 1)))
        time.sleep(TICK_SECONDS)
    return blocks * per_tick * TIMES, acked
