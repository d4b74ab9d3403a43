"""Latency at a fixed rate: from the moment a message is sent to the moment it was received.

One process publishes by the clock, each message stamped when it is sent; another receives and
compares. It does not know which broker is between them. Invariant: publishing does not wait for
anything but the clock, so a broker that is slow for a moment is seen by all messages of that
moment, not by one.
"""

from __future__ import annotations

import array
import multiprocessing
import selectors
import struct
import time
from dataclasses import dataclass

from leporid.load.amqp import Client, message
from leporid.load.processes import SELECT_SECONDS, Receiver

LEAD_SECONDS = 0.3
TAIL_SECONDS = 0.3
STAMP = struct.Struct(">Q")
STAMP_BYTES = STAMP.size


@dataclass(frozen=True, slots=True)
class Latencies:
    """Sorted, in milliseconds."""

    per_second: float
    milliseconds: array.array[float]

    def at(self, share: float) -> float:
        """The latency that this share of the messages did not exceed."""
        last = len(self.milliseconds) - 1
        return self.milliseconds[min(last, int(len(self.milliseconds) * share))]


def measure(
    url: str, queue: str, *, rate: int, seconds: float, warm_seconds: float, body_bytes: int
) -> Latencies:
    """Send at that rate through an existing queue, and take the times.

    Args:
        url: where the broker is.
        queue: what to send through; it exists and is empty.
        rate: messages a second.
        seconds: how long to measure.
        warm_seconds: how long before that.
        body_bytes: of a message; at least those of a stamp.
    """
    body_bytes = max(body_bytes, STAMP_BYTES)
    samples = array.array("d")
    began = time.monotonic()
    measured_from = began + LEAD_SECONDS + warm_seconds
    measured_to = measured_from + seconds

    def note(receiver: Receiver, buffer: memoryview, whole: int) -> None:
        now = time.monotonic_ns()
        if not measured_from <= now / 1e9 < measured_to:
            return
        size = receiver.delivery_bytes
        before = size - 1 - body_bytes  # the body ends the delivery, but for the frame's end
        each = struct.Struct(f">{before}xQ{size - before - STAMP_BYTES}x")
        samples.extend((now - stamp) / 1e6 for (stamp,) in each.iter_unpack(buffer[: whole * size]))

    sender = multiprocessing.get_context("fork").Process(
        target=_publish_by_the_clock,
        args=(url, queue, rate, began + LEAD_SECONDS, measured_to + TAIL_SECONDS, body_bytes),
        daemon=True,
    )
    sender.start()
    client = Client(url)
    receiver = Receiver(client, queue, on_deliveries=note)
    with selectors.DefaultSelector() as selector:
        selector.register(client.sock, selectors.EVENT_READ)
        while time.monotonic() < measured_to:
            if selector.select(SELECT_SECONDS):
                receiver.receive()
    client.sock.close()
    sender.join()
    return Latencies(len(samples) / seconds, array.array("d", sorted(samples)))


def _publish_by_the_clock(
    url: str, queue: str, rate: int, start: float, end: float, body_bytes: int
) -> None:
    client = Client(url)
    body = bytes(body_bytes)
    one = message("", queue, body, persistent=False, frame_bytes_max=client.frame_bytes_max)
    stamp_at = len(one) - 1 - len(body)
    sent = 0
    while (now := time.monotonic()) < end:
        due = int((now - start) * rate) - sent
        if due <= 0:
            time.sleep(max(0.0, start + (sent + 1) / rate - now))
            continue
        block = bytearray(one * due)
        stamp = time.monotonic_ns()
        for at in range(due):
            STAMP.pack_into(block, at * len(one) + stamp_at, stamp)
        client.sock.sendall(block)
        sent += due
    client.sock.close()
