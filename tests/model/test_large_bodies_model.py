"""Large bodies in outputs against a copy: what is sent is what was there when it was written."""

from __future__ import annotations

import struct
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.engine import frames
from tests.engine.disk_fake import Disk
from tests.engine.frames import NO_PROPERTIES, PERSISTENT, publish
from tests.engine.session_fake import Peer, make_engine
from tests.engine.slices import ended

OUTPUT_STOP_BYTES = 1024 * 1024


def random_body(size: int, seed: int) -> bytes:
    """Bytes of which no part is like another."""
    return Random(seed).randbytes(size)


def as_sent(method: bytes, raw: bytes, body: bytes, frame_max: int) -> bytes:
    """The frames of a method with content, built at once."""
    return (
        frames.frame(frames.METHOD, 1, method)
        + frames.content_header(1, len(body), raw)
        + frames.bodies(1, body, frame_max - 8)
    )


def got(tag: int, key: str, left: int, *, redelivered: bool = False) -> bytes:
    names = frames.short("") + frames.short(key)
    return struct.pack(">HHQB", 60, 71, tag, redelivered) + names + struct.pack(">I", left)


def returned(key: str) -> bytes:
    return struct.pack(">HHH", 60, 50, 312) + b"".join(map(frames.short, ("NO_ROUTE", "", key)))


# Copied, one of two in a segment, alone in one, and with a segment of its own.
sizes = st.one_of(st.integers(0, 300), st.integers(120_000, 140_000), st.integers(200_000, 400_000))


class Copies(RuleBasedStateMachine):
    """A reader takes what is sent to it in any pieces, while everything else goes on.

    `expected` is what an output that copies everything would have: it is never looked at before it
    was sent, so that a body that is overwritten meanwhile shows.
    """

    def __init__(self) -> None:
        super().__init__()
        self.engine = make_engine(durable_segment_bytes=300_000, transient_segment_bytes=300_000)
        self.disk = Disk()
        self.disk.attach(self.engine)
        self.queues = {
            "q": self.engine.queue(0, "q", False),
            "d": self.engine.queue(1, "d", True),
            "churn": self.engine.queue(0, "churn", False),
        }
        self.publisher = Peer(self.engine, self.queues)
        self.ready: dict[str, list[bytes]] = {"q": [], "d": []}
        self.number = 0
        self.connect()

    def connect(self) -> None:
        self.frame_max = 4096 if self.number % 3 else 131072
        self.reader = Peer(self.engine, self.queues, frame_max=self.frame_max)
        self.expected = bytearray()
        self.tag = 0

    @rule(key=st.sampled_from(["q", "d"]), size=sizes)
    def publish(self, key: str, size: int) -> None:
        self.number += 1
        body = random_body(size, self.number)
        raw = PERSISTENT if key == "d" else NO_PROPERTIES
        self.publisher.feed(publish(1, key, body, raw=raw, step=100_000))
        self.ready[key].append(body)

    @rule(key=st.sampled_from(["q", "d"]), size=sizes)
    def get(self, key: str, size: int) -> None:
        if not self.ready[key]:
            self.publish(key, size)
        assert self.reader.channel.get(self.queues[key], True)
        self.tag += 1
        body = self.ready[key].pop(0)
        raw = PERSISTENT if key == "d" else NO_PROPERTIES
        method = got(self.tag, key, len(self.ready[key]))
        self.expected += as_sent(method, raw, body, self.frame_max)

    @rule(size=sizes)
    def have_one_returned(self, size: int) -> None:
        if self.reader.connection.output.pending_bytes > OUTPUT_STOP_BYTES:
            return  # its input waits
        body = random_body(size, -size)
        step = self.frame_max - 8
        self.reader.feed(publish(1, "nowhere", body, mandatory=True, step=step))
        self.expected += as_sent(returned("nowhere"), NO_PROPERTIES, body, self.frame_max)

    @rule(method=st.binary(min_size=4, max_size=5000))
    def send(self, method: bytes) -> None:
        self.reader.connection.send(1, method)
        self.expected += frames.frame(frames.METHOD, 1, method)

    @rule()
    def send_heartbeat(self) -> None:
        self.reader.connection.send_heartbeat()
        self.expected += frames.frame(frames.HEARTBEAT, 0, b"")

    @rule(share=st.floats(0, 1))
    def drain(self, share: float) -> None:
        view = self.reader.connection.output.outgoing()
        if view is None:
            assert not self.expected
            return
        part = bytes(view)
        view.release()
        assert part == self.expected[: len(part)]
        sent = int(share * len(part))
        self.reader.connection.sent(sent)
        del self.expected[:sent]

    @rule(share=st.floats(0, 1))
    def drain_unseen(self, share: float) -> None:
        sent = int(share * len(self.expected))
        self.reader.connection.sent(sent)
        del self.expected[:sent]

    @rule()
    def pass_the_time(self) -> None:
        """Logs are synced, mapped, cleaned and compacted."""
        self.disk.settle(self.engine)

    @rule(count=st.sampled_from([1, 3, 20]))
    def use_memory_again(self, count: int) -> None:
        self.publisher.feed(publish(1, "churn", bytes(70_000)) * count)
        ended(self.queues["churn"].purging())

    @precondition(lambda self: self.expected)
    @rule()
    def lose(self) -> None:
        self.reader.connection.lost()
        self.connect()

    @invariant()
    def all_is_pending(self) -> None:
        output = self.reader.connection.output
        assert output.pending_bytes == len(self.expected)
        others = self.publisher.connection.output.memory_bytes
        assert self.engine.connections.output_bytes == output.memory_bytes + others

    def teardown(self) -> None:
        assert self.reader.take() == bytes(self.expected)
        for key in self.ready:
            ended(self.queues[key].purging())
        self.pass_the_time()
        # A few segments are kept for the next append.
        assert self.engine.logs.transient.bytes <= 6 * 300_000
        assert self.engine.logs.durable.bytes <= 3 * 300_000


Copies.TestCase.settings = settings(max_examples=40, stateful_step_count=40)
TestCopies = pytest.mark.slow(Copies.TestCase)
