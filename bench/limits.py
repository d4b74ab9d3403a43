"""Workloads with queues that bound themselves: what that costs, and whether they do it on time.

`ttl` knows of each message the earliest and the latest moment at which it expires: so long after it
was handed over, and so long after it was confirmed. Hence it knows for any moment how many messages
there may be. Invariant: what is counted as a mistake can be none of the load's.
"""

from __future__ import annotations

import bisect
import random
import statistics
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from bench.brokers import Broker
from bench.workloads import Figures, Plan, queues, rates, workload

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
from leporid.load.processes import Load, LoadFailed

# So long that nothing is ever dropped: what costs is to look, not to drop.
LIMITS = {"x-message-ttl": 3_600_000, "x-max-length": 10**9, "x-max-length-bytes": 10**12}
PAIRS = 3
LIFE_MIN_MS = 1_000
# As a multiple of the time for which a rate is measured.
LIFE_FACTOR = 4
BLOCK_MESSAGES = 1_000
CONFIRM = struct.Struct(">QB")
# Between two questions how many messages there are.
PAUSE_SECONDS = 0.01
# The broker counts milliseconds, and a question may come just before the next.
ROUNDING_SECONDS = 0.001
PATIENCE_SECONDS = 60.0


# ------------------------------------------------------------------ what limits cost


@workload("limits")
def limits(broker: Broker, plan: Plan) -> Figures:
    """As transient, plain and with a time to live and two limits of length, turn about."""
    share = replace(plan, seconds=plan.seconds / PAIRS, warm_seconds=plan.warm_seconds / PAIRS)
    found: dict[str, list[float]] = {"plain_per_s": [], "limited_per_s": []}
    with (
        queues(broker, label="plain") as plain,
        queues(broker, label="bound", arguments=LIMITS) as limited,
    ):
        for _ in range(PAIRS):
            for title, names in (("plain_per_s", plain), ("limited_per_s", limited)):
                load = Load(queues=names, body_bytes=plan.body_bytes)
                found[title].append(rates(broker, share, load)["delivered_per_s"])
    figures = {title: statistics.median(values) for title, values in found.items()}
    cost = 1 - figures["limited_per_s"] / figures["plain_per_s"]
    return figures | {"cost_percent": 100 * cost}


# ------------------------------------------------------------------ expiry on time


@dataclass(frozen=True, slots=True)
class Lives:
    """When messages end at the earliest, and at the latest: Unix time in seconds, sorted."""

    earliest: Sequence[float]
    latest: Sequence[float]

    def off(self, count: int, asked: float, answered: float) -> int:
        """How many more or fewer messages were counted between two moments than can have been."""
        least = len(self.earliest) - bisect.bisect_right(self.earliest, answered)
        most = len(self.latest) - bisect.bisect_left(self.latest, asked)
        return max(count - most, least - count, 0)


@workload("ttl")
def ttl(broker: Broker, plan: Plan) -> Figures:
    """A backlog, each message with a random time to live: is exactly there what should be?"""
    if broker.http_url is None:
        return {}
    with queues(broker) as (name,), Client(broker.url) as client:
        began = time.monotonic()
        lives = publish(client, name, plan)
        figures = {"published_per_s": plan.messages / (time.monotonic() - began)}
        return figures | watch(client, name, lives)


def publish(client: Client, queue: str, plan: Plan) -> Lives:
    """Publish messages with random times to live, each block confirmed before the next."""
    client.select_confirm()
    life_max_ms = LIFE_MIN_MS + int(LIFE_FACTOR * plan.seconds * 1000)
    messages = [mortal(queue, life_ms, plan.body_bytes) for life_ms in range(life_max_ms)]
    choose = random.Random(8)
    earliest, latest = [], []
    count = 0
    while count < plan.messages:
        size = min(BLOCK_MESSAGES, plan.messages - count)
        block = [choose.randrange(LIFE_MIN_MS, life_max_ms) for _ in range(size)]
        data = b"".join([messages[life_ms] for life_ms in block])
        before = time.time()
        client.sock.sendall(data)
        count += size
        confirmed = 0
        while confirmed < count:
            confirmed, _ = CONFIRM.unpack(client.wait_for(BASIC_ACK)[4:])
        after = time.time()
        earliest += [before + life_ms / 1000 for life_ms in block]
        latest += [after + life_ms / 1000 for life_ms in block]
    return Lives(sorted(earliest), sorted(latest))


def mortal(queue: str, life_ms: int, body_bytes: int) -> bytes:
    """The frames of a message that expires."""
    head = method(CHANNEL, BASIC_PUBLISH, b"\0\0" + short("") + short(queue) + b"\0")
    # Flag 0x0100: expiration is there.
    properties = b"\x01\0" + short(str(life_ms))
    header = struct.pack(">HHQ", BASIC_PUBLISH[0], 0, body_bytes) + properties
    return (
        head + frame(FRAME_HEADER, CHANNEL, header) + frame(FRAME_BODY, CHANNEL, bytes(body_bytes))
    )


def watch(client: Client, queue: str, lives: Lives) -> Figures:
    """Count what is there again and again, until nothing is."""
    end = lives.latest[-1]
    seen: list[tuple[int, int]] = []  # how many are there, and how many of them should not be
    while True:
        asked = time.time()
        count = client.declare_queue(queue, passive=True)
        answered = time.time()
        off = lives.off(count, asked - ROUNDING_SECONDS, answered + ROUNDING_SECONDS)
        seen.append((count, off))
        if not count:
            break
        if answered > end + PATIENCE_SECONDS:
            raise LoadFailed(f"{count} messages outlived their time by {PATIENCE_SECONDS} s")
        if answered < end - PAUSE_SECONDS:
            time.sleep(PAUSE_SECONDS)
    if len(seen) < 2:
        raise LoadFailed("everything had expired before it was looked at")
    return {
        "counted_times": len(seen),
        "there_at_first_messages": seen[0][0],
        "off_max_messages": max(off for _, off in seen),
        "last_late_ms": max(0.0, 1000 * (answered - end)),
    }
