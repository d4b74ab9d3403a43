"""Attacks by not reading, not acknowledging, and not going on."""

from __future__ import annotations

import contextlib
import json
import struct
import time

from bench.attacks.attack import MB, Ground, Steps, attack
from bench.attacks.definitions import PREFETCH, STREAM
from bench.attacks.peer import (
    BASIC_GET,
    Peer,
    consume,
    exchange_declare,
    publish,
    queue_bind,
    queue_declare,
)

from leporid.load.amqp import BASIC_QOS, CHANNEL, method, short

LARGE_BYTES = 100_000_000
READERS = 11
READERS_MANY = 300
# Without acknowledgements a reader gets so many.
PREFETCH_MOST = struct.pack(">IH?", 0, 65_535, False)
# So that what is not read is the broker's to keep, and not the kernel's.
RECEIVE_BYTES = 4096
RETENTION_BYTES = 10 * MB
SEGMENT_BYTES = MB
# Retention looks once a second.
RETENTION_SECONDS = 3.0
FROM_THE_FIRST = {"x-stream-offset": "first"}


@attack("unread-stream", watermark_bytes=720 * MB)
def unread_stream(ground: Ground) -> Steps:
    """11 readers of a stream's message of 100 MB never read."""
    with contextlib.ExitStack() as open_peers:
        writer = open_peers.enter_context(ground.peer())
        writer.push(queue_declare("s", STREAM, flags="d"))
        writer.push(publish("", "s", bytes(ground.count(LARGE_BYTES))))
        writer.settle()
        readers = [
            open_peers.enter_context(ground.peer(receive_bytes=RECEIVE_BYTES))
            for _ in range(READERS)
        ]
        for reader in readers:
            reader.ask(BASIC_QOS, PREFETCH)
        yield
        for reader in readers:
            reader.push(consume("s", "c", FROM_THE_FIRST), reading=False)
        ground.hold()


@attack("unread-get")
def unread_get(ground: Ground) -> Steps:
    """A message of 100 MB lies in 11 queues; 11 clients get it, and never read."""
    with contextlib.ExitStack() as open_peers:
        writer = open_peers.enter_context(ground.peer())
        writer.push(exchange_declare("fan", "fanout"))
        for at in range(READERS):
            writer.push(queue_declare(f"q{at}") + queue_bind(f"q{at}", "fan"))
        writer.push(publish("fan", "", bytes(ground.count(LARGE_BYTES))))
        writer.settle()
        readers = [
            open_peers.enter_context(ground.peer(receive_bytes=RECEIVE_BYTES))
            for _ in range(READERS)
        ]
        yield
        for at, reader in enumerate(readers):
            get = method(CHANNEL, BASIC_GET, b"\0\0" + short(f"q{at}") + b"\0")
            reader.push(get, reading=False)
        ground.hold()


@attack("never-reads")
def never_reads(ground: Ground) -> Steps:
    """A consumer never reads, and a publisher fills its queue (100,000 messages at most)."""
    with ground.peer(receive_bytes=RECEIVE_BYTES) as consumer, ground.peer("other") as publisher:
        publisher.push(queue_declare("q", {"x-max-length": 100_000}))
        publisher.settle()
        yield
        consumer.push(consume("q", "c", no_ack=True), reading=False)
        publish_for(publisher, publish("", "q", bytes(1000)) * 100, ground.plan.seconds)


@attack("never-acks")
def never_acks(ground: Ground) -> Steps:
    """A consumer without a prefetch count takes a million messages, and acknowledges none."""
    with ground.peer() as consumer, ground.peer("other") as publisher:
        publisher.push(queue_declare("q"))
        publisher.settle()
        yield
        consumer.push(consume("q", "c"))
        block = publish("", "q", bytes(100)) * 1000
        for _ in range(ground.count(1_000)):
            if not publisher.push(block):
                break
            consumer.swallow(0.001)
        publisher.settle()
        consumer.swallow(1.0)


@attack("idle-stream-reader")
def idle_stream_reader(ground: Ground) -> Steps:
    """A reader who may only read stands still, while a stream that keeps 10 MB is written 60."""
    ground.need_users()
    limits = {
        "x-max-length-bytes": RETENTION_BYTES,
        "x-stream-max-segment-size-bytes": SEGMENT_BYTES,
    }
    with ground.peer("other") as writer, ground.peer("reader") as reader:
        writer.push(queue_declare("s", STREAM | limits, flags="d"))
        writer.push(publish("", "s", bytes(1000)))
        writer.settle()
        reader.ask(BASIC_QOS, PREFETCH)
        reader.push(consume("s", "c", FROM_THE_FIRST))
        reader.settle()
        yield
        block = publish("", "s", bytes(10_000)) * 100
        for _ in range(60):
            writer.push(block)
        writer.settle()
        time.sleep(RETENTION_SECONDS)
        if ground.leporid:
            _, said = ground.ask("GET", "/api/streams/%2F/s", user="reader")
            kept = sum(one["bytes"] for one in json.loads(said)["partitions"])
            most = 1.5 * RETENTION_BYTES + 2 * SEGMENT_BYTES
            ground.figure("kept_mb", kept / MB, most / MB)


@attack("stream-readers")
def stream_readers(ground: Ground) -> Steps:
    """300 readers of one stream, each with its connection, get what is written without a pause."""
    with contextlib.ExitStack() as open_peers:
        writer = open_peers.enter_context(ground.peer("other"))
        writer.push(queue_declare("s", STREAM, flags="d"))
        writer.settle()
        readers = [
            open_peers.enter_context(ground.peer()) for _ in range(ground.count(READERS_MANY))
        ]
        for reader in readers:
            reader.ask(BASIC_QOS, PREFETCH_MOST)
            reader.push(consume("s", "c"))
            reader.settle()
        yield
        block = memoryview(publish("", "s", bytes(100)) * 100)
        until = time.monotonic() + ground.plan.seconds
        left = block
        while time.monotonic() < until:
            left = writer.offer(left) or block
            for reader in readers:
                reader.offer(memoryview(b""))


def publish_for(publisher: Peer, block: bytes, seconds: float) -> None:
    """Publish as fast as the broker reads, for so long."""
    until = time.monotonic() + seconds
    left = memoryview(block)
    while time.monotonic() < until and not publisher.gone:
        rest = publisher.offer(left)
        if len(rest) == len(left):
            time.sleep(0.001)
        left = rest or memoryview(block)
