"""A durable queue q behind an exchange f whose binding asks a filter class, on a disk."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence

from tests.engine.disk_fake import Disk, recover
from tests.engine.frames import PERSISTENT, publish
from tests.engine.session_fake import Peer, make_engine

from leporid.engine.engine import Engine
from leporid.engine.queue.queue import Queue
from leporid.filterserver import frames
from leporid.filterserver.message import Message, messages_of

ALL = 1000


class World:
    """`exchange` says that the binding leads to an exchange, whose queues are `beyond`."""

    def __init__(self, *, exchange: bool = False, segment_bytes: int = 4096) -> None:
        self.exchange = exchange
        self.segment_bytes = segment_bytes
        self.asked_ways: list[tuple[str, list[str], bytes]] = []
        self.disk = Disk()
        self.beyond: list[str] = ["q"]
        engine = make_engine(durable_segment_bytes=segment_bytes)
        self.disk.attach(engine)
        self.declare(engine)
        self.open()

    def declare(self, engine: Engine) -> None:
        self.engine = engine
        self.q = engine.queue(1, "q", True)
        self.other = engine.queue(2, "other", True)
        self.verdict_queue = engine.verdict_queue(
            3, "f to q", None if self.exchange else self.q, self.way if self.exchange else None
        )
        cache = engine.route_cache("f", lambda key, raw: [self.verdict_queue], True)
        both = engine.route_cache("both", lambda key, raw: [self.verdict_queue, self.other], True)
        self.caches = {"f": cache, "both": both}

    def open(self) -> None:
        self.peer = Peer(self.engine, {"q": self.q, "other": self.other}, channels=(1, 2))
        self.peer.session.caches |= self.caches

    def way(
        self, exchange: str, keys: Sequence[str], raw: bytes
    ) -> Generator[object, None, list[Queue]]:
        self.asked_ways.append((exchange, list(keys), raw))
        found = [{"q": self.q, "other": self.other}[name] for name in self.beyond]
        yield None
        yield None  # where a clock that `cut_often` has set ends a slice
        return found

    def send(self, *bodies: bytes, raw: bytes = PERSISTENT, exchange: str = "f") -> None:
        for body in bodies:
            self.peer.feed(publish(1, "k", body, raw=raw, exchange=exchange))

    def messages(self, most: int = ALL, bytes_max: int = 2**20) -> list[Message]:
        """The next batch, as a filter sees it."""
        batch = self.verdict_queue.batch(most, bytes_max)
        if batch is None:
            return []
        frame, count = batch
        kind, size = frames.HEAD.unpack_from(frame)
        assert (kind, size) == (frames.BATCH, len(frame) - frames.HEAD.size)
        found = list(messages_of(frame[frames.HEAD.size :]))
        assert len(found) == count
        return found

    def judge(
        self, passes: Callable[[bytes], bool] = lambda body: True, most: int = ALL
    ) -> list[bytes]:
        """Judge one batch; returns what was in it."""
        bodies = [each.body for each in self.messages(most)]
        if bodies:
            self.verdict_queue.judged(bytes(passes(body) for body in bodies))
        return bodies

    def waiting(self) -> int:
        return self.verdict_queue.ready_count + self.verdict_queue.unacked_count

    def came(self, queue: Queue | None = None) -> list[bytes]:
        self.engine.run()
        return self.peer.drain(queue or self.q)

    def sync(self) -> None:
        self.engine.run()
        self.disk.sync(self.engine)

    def restart(self, disk: Disk | None = None) -> None:
        """What was not synced is gone."""
        self.disk = (disk or self.disk).copy()
        recover(self.disk, self.declare, durable_segment_bytes=self.segment_bytes)
        self.open()
