"""Workloads with delayed messages: what waiting costs, and how punctual the broker is.

Messages are sent with `x-deliver-at`, each with a moment of its own, and received by a consumer
that knows from the body when each was due. Other brokers than ours give no figures. Invariant: a
figure of time is of messages that were all confirmed before the first of them was due.
"""

from __future__ import annotations

import array
import random
import selectors
import struct
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.brokers import Broker
from bench.workloads import Figures, Plan, queues, workload

from leporid.load.amqp import (
    BASIC_ACK,
    BASIC_PUBLISH,
    CHANNEL,
    FRAME_BODY,
    FRAME_HEADER,
    Client,
    frame,
    method,
    short,
)
from leporid.load.processes import SELECT_SECONDS, LoadFailed, Receiver

RATE_PER_S = 5_000
BURST = 100_000
HOUR_MS = 3_600_000
# For what is published in advance to be confirmed, on a machine that does much else.
LEAD_MS = 5_000
PATIENCE_SECONDS = 60.0
BLOCK_MESSAGES = 2_000
MOMENT = struct.Struct(">q")
CONFIRM = struct.Struct(">QB")


@workload("delays")
def delays(broker: Broker, plan: Plan) -> Figures:
    """Memory and restart with a backlog that waits; punctuality at 5,000 due/s, and of 100,000."""
    if broker.http_url is None:
        return {}
    with queues(broker, durable=True) as (name,):
        figures = punctuality(broker, plan, name)
        figures |= burst(broker, plan, name)
        return figures | backlog(broker, plan, name)


def backlog(broker: Broker, plan: Plan, queue: str) -> Figures:
    """A backlog that is due in hours, in random order."""
    choose = random.Random(5)
    before = anonymous_bytes(broker)
    now_ms = time.time_ns() // 1_000_000
    began = time.monotonic()
    publish(
        broker, queue, plan,
        (now_ms + HOUR_MS + choose.randrange(HOUR_MS) for _ in range(plan.messages)),
    )  # fmt: skip
    seconds = time.monotonic() - began
    figures = {
        "delayed_per_s": plan.messages / seconds,
        "each_bytes": (anonymous_bytes(broker) - before) / plan.messages,
    }
    restart = broker.crash()
    return figures if restart is None else figures | {"recovery_s": restart}


def punctuality(broker: Broker, plan: Plan, queue: str) -> Figures:
    """How late messages are that are due at a fixed rate."""
    count = int(RATE_PER_S * plan.seconds)
    start_ms = time.time_ns() // 1_000_000 + LEAD_MS
    moments = [start_ms + number * 1000 // RATE_PER_S for number in range(count)]
    publish(broker, queue, plan, moments)
    late, _ = receive(broker, queue, plan, count)
    if late[0] < 0:
        raise LoadFailed(f"a message came {-late[0]} ms before its time")
    return {
        "late_p50_ms": late[count // 2],
        "late_p99_ms": late[count * 99 // 100],
        "late_max_ms": late[-1],
    }


def burst(broker: Broker, plan: Plan, queue: str) -> Figures:
    """How long it takes until all have come that are due within one second."""
    choose = random.Random(6)
    start_ms = time.time_ns() // 1_000_000 + LEAD_MS
    publish(broker, queue, plan, [start_ms + choose.randrange(1000) for _ in range(BURST)])
    _, last = receive(broker, queue, plan, BURST)
    return {"burst_out_s": last - start_ms / 1000}


def publish(broker: Broker, queue: str, plan: Plan, moments: Sequence[int] | Iterator[int]) -> None:
    """Send one message for each moment; returns when all are confirmed."""
    with Client(broker.url) as client:
        client.select_confirm()
        one, places = template(queue, max(plan.body_bytes, MOMENT.size))
        block = bytearray()
        count = 0
        for moment in moments:
            at = len(block)
            block += one
            for place in places:
                MOMENT.pack_into(block, at + place, moment)
            count += 1
            if count % BLOCK_MESSAGES == 0:
                client.sock.sendall(block)
                block.clear()
        client.sock.sendall(block)
        confirmed = 0
        while confirmed < count:
            confirmed, _ = CONFIRM.unpack(client.wait_for(BASIC_ACK)[4:])


def template(queue: str, body_bytes: int) -> tuple[bytes, tuple[int, int]]:
    """A message, and where its moment stands: in the header and in the body."""
    head = method(CHANNEL, BASIC_PUBLISH, b"\0\0" + short("") + short(queue) + b"\0")
    field = short("x-deliver-at") + b"l"
    properties = b"\x30\0" + struct.pack(">I", len(field) + MOMENT.size) + field
    content = struct.pack(">HHQ", BASIC_PUBLISH[0], 0, body_bytes) + properties
    header = frame(FRAME_HEADER, CHANNEL, content + bytes(MOMENT.size) + b"\x02")
    body = frame(FRAME_BODY, CHANNEL, bytes(body_bytes))
    in_header = len(head) + 7 + len(content)
    return head + header + body, (in_header, len(head) + len(header) + 7)


def receive(broker: Broker, queue: str, plan: Plan, count: int) -> tuple[array.array[float], float]:
    """Take so many messages; returns by how many ms each was late, and when the last came."""
    body_bytes = max(plan.body_bytes, MOMENT.size)
    late = array.array("d")

    def note(receiver: Receiver, buffer: memoryview, whole: int) -> None:
        now_ms = time.time_ns() / 1e6
        size = receiver.delivery_bytes
        before = size - 1 - body_bytes
        each = struct.Struct(f">{before}xq{size - before - MOMENT.size}x")
        late.extend(now_ms - due for (due,) in each.iter_unpack(buffer[: whole * size]))

    client = Client(broker.url)
    receiver = Receiver(client, queue, on_deliveries=note)
    deadline = time.monotonic() + PATIENCE_SECONDS
    with selectors.DefaultSelector() as selector:
        selector.register(client.sock, selectors.EVENT_READ)
        while receiver.delivered < count:
            if time.monotonic() > deadline:
                raise LoadFailed(f"{receiver.delivered} of {count} delayed messages came")
            if selector.select(SELECT_SECONDS):
                receiver.receive()
    last = time.time()
    client.sock.close()
    return array.array("d", sorted(late)), last


def anonymous_bytes(broker: Broker) -> int:
    """Memory that is no mapping of a file."""
    status = Path(f"/proc/{broker.pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if "RssAnon" in line)) * 1024
