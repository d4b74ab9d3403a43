"""Syncs of very many streams, which are collected and noted in steps.

Clients publish to streams while a generation is closed, collected stream by stream, written and
noted. At any moment the power may go. The model keeps for each message the generation that its
publisher waits for, and what has been read.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.engine.disk_fake import Disk, Files
from tests.engine.frames import PERSISTENT, publish
from tests.engine.session_fake import Peer, make_engine
from tests.engine.slices import cut_often

from leporid.engine.log.reports import SegmentUnreadable
from leporid.engine.stream.replay import StreamReplay
from leporid.engine.stream.stream import Stream

STREAMS = 12


class StreamSyncsMachine(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.disk = Disk()
        self.streams: dict[str, Stream] = {}
        # By stream: the body and the generation of each message, oldest first.
        self.sent: list[list[tuple[bytes, int]]] = [[] for _ in range(STREAMS)]
        self.read: list[list[bytes]] = [[] for _ in range(STREAMS)]
        self.number = 0
        self.open()

    def open(self) -> None:
        self.engine = make_engine()
        self.disk.attach(self.engine)
        for at in range(STREAMS):
            stream = self.streams[f"s{at}"] = self.engine.stream(at + 1, f"s{at}")
            replay = StreamReplay(stream)
            files = self.disk.streams.get(at + 1, Files())
            for number in sorted(files):
                try:
                    report = replay.segment(number, files[number])
                except SegmentUnreadable:
                    del files[number]
                else:
                    files[number] = files[number][: report.used]
            replay.finish(False)
        cut_often(self.engine, units=8)
        self.publisher = Peer(self.engine, dict(self.streams))
        self.readers = [Peer(self.engine, dict(self.streams)) for _ in range(STREAMS)]
        for at, reader in enumerate(self.readers):
            stream = self.streams[f"s{at}"]
            reader.channel.consume_stream(stream, "r", 60000, len(self.read[at]))

    @rule(ats=st.lists(st.integers(0, STREAMS - 1), min_size=1, max_size=2 * STREAMS))
    def send(self, ats: list[int]) -> None:
        self.engine.clock.monotonic_ns = None  # no publish is left for later
        for at in ats:
            self.number += 1
            body = b"%d" % self.number
            self.publisher.feed(publish(1, f"s{at}", body, raw=PERSISTENT))
            self.sent[at].append((body, self.engine.logs.generation))
        cut_often(self.engine, units=8)

    @property
    def is_quiet(self) -> bool:
        return self.disk.job is None and self.disk.closed is None

    @precondition(lambda self: self.is_quiet)
    @rule()
    def close(self) -> None:
        self.disk.close(self.engine)

    @precondition(lambda self: self.disk.closed is not None)
    @rule()
    def collect(self) -> None:
        self.disk.collect(self.engine)

    @precondition(lambda self: self.disk.job is not None)
    @rule()
    def complete(self) -> None:
        self.disk.complete(self.engine, whole=False)

    @rule()
    def turn(self) -> None:
        self.engine.run()
        for at, reader in enumerate(self.readers):
            self.read[at] += reader.bodies()

    @rule(at=st.integers(0, STREAMS - 1))
    def lose_power(self, at: int) -> None:
        """Some files of the generation under way were written, others not."""
        left = self.disk.copy()
        if self.disk.job is not None:
            written, self.disk.stream_work = self.disk.stream_work[:at], []
            for number, parts, _ in written:
                left.write_stream(number, parts)
        synced = self.engine.logs.synced
        self.disk = left
        self.open()
        for sent, read, stream in zip(self.sent, self.read, self.streams.values(), strict=True):
            safe = sum(generation <= synced for _, generation in sent)
            assert stream.end >= safe, "a confirmed message is gone"
            assert stream.end >= len(read), "a message that was read is gone"
            assert stream.end <= len(sent)
            sent[:] = [(body, 0) for body, _ in sent[: stream.end]]

    @invariant()
    def what_is_read_is_in_order(self) -> None:
        for at in range(STREAMS):
            bodies = [body for body, _ in self.sent[at]]
            assert self.read[at] == bodies[: len(self.read[at])]

    def teardown(self) -> None:
        """In the end everything can be read."""
        while self.disk.closed is not None:
            self.collect()
        if self.disk.job is not None:
            self.complete()
        while self.disk.begin(self.engine):
            self.complete()
        while self.engine.busy:
            self.turn()
        self.turn()  # what came to one peer while another one's output was taken
        self.what_is_read_is_in_order()
        assert list(map(len, self.read)) == list(map(len, self.sent))


TestStreamSyncs = StreamSyncsMachine.TestCase
TestStreamSyncs.settings = settings(max_examples=60, stateful_step_count=40)
