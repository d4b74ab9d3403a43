"""An engine on a disk through its restarts, for tests of what replay makes of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.engine.disk_fake import Disk, recover
from tests.engine.frames import PERSISTENT, publish
from tests.engine.session_fake import Peer, make_engine

from leporid.engine.engine import Engine
from leporid.engine.log.reports import SegmentReport
from leporid.engine.queue.queue import Queue


@dataclass
class Broker:
    """An engine on a disk, with durable queues, through its restarts."""

    names: str = "q"
    segment_bytes: int = 4096
    disk: Disk = field(default_factory=Disk)
    reports: list[SegmentReport] = field(default_factory=list)
    clean: bool = False

    def __post_init__(self) -> None:
        self.queues: dict[str, Queue] = {}
        engine = make_engine(durable_segment_bytes=self.segment_bytes)
        self.disk.attach(engine)
        self.declare(engine)
        self.open(engine)

    def declare(self, engine: Engine) -> None:
        for number, name in enumerate(self.names, 1):
            self.queues[name] = engine.queue(number, name, True)

    def open(self, engine: Engine) -> None:
        self.engine = engine
        self.peer = Peer(engine, self.queues, channels=(1, 2))

    def send(self, name: str, body: bytes, raw: bytes = PERSISTENT) -> None:
        self.peer.feed(publish(1, name, body, raw=raw))

    def restart(self, disk: Disk | None = None) -> None:
        """What was not synced is gone."""
        self.disk = self.disk.copy() if disk is None else disk
        self.queues = {}
        engine, self.reports, self.clean = recover(
            self.disk, self.declare, durable_segment_bytes=self.segment_bytes
        )
        self.open(engine)

    def crash(self, short: int) -> None:
        """In the middle of a sync, whose last bytes are not on disk."""
        assert self.disk.begin(self.engine)
        assert self.disk.job is not None
        total = sum(len(data) for *_, data in self.disk.job[1])
        self.restart(self.disk.crashed(total - short))

    def stop(self) -> None:
        """In order."""
        self.peer.connection.lost()
        self.engine.run()
        self.engine.mark_clean()
        self.disk.sync(self.engine)
        self.restart()

    def bodies(self, name: str = "q") -> list[bytes]:
        """What is in a queue, which keeps it."""
        reader = Peer(self.engine)
        found = []
        while (got := reader.get(self.queues[name], no_ack=False)) is not None:
            found.append(got.body)
        reader.connection.lost()
        return found
