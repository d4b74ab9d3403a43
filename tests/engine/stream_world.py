"""A stream on a disk through its restarts, for tests of streams."""

from __future__ import annotations

from tests.engine.disk_fake import Disk, Files
from tests.engine.frames import PERSISTENT, publish
from tests.engine.session_fake import Peer, make_engine

from leporid.engine.log.reports import SegmentUnreadable
from leporid.engine.stream.replay import StreamReplay
from leporid.engine.stream.stream import Stream

STREAM = 7


class World:
    """One stream on a disk, through its restarts."""

    def __init__(self, segment_bytes: int | None = None, **retention: int) -> None:
        self.disk = Disk()
        self.options = {"segment_bytes": segment_bytes, **retention}
        self.lost: list[tuple[int, int]] = []
        self.missing = False
        self.open()

    def open(self) -> None:
        self.engine = make_engine()
        self.disk.attach(self.engine)
        self.stream: Stream = self.engine.stream(STREAM, "s")
        self.stream.set_retention(**self.options)
        replay = StreamReplay(self.stream)
        files = self.disk.streams.get(STREAM, Files())
        reports = []
        for number in sorted(files):
            try:
                reports.append(replay.segment(number, files[number]))
            except SegmentUnreadable:
                del files[number]
        replay.finish(self.missing)
        for report in reports:
            files[report.number] = files[report.number][: report.used]
        self.lost = [lost for report in reports for lost in report.lost]
        self.peer = Peer(self.engine, {"s": self.stream})

    def restart(self, disk: Disk | None = None) -> None:
        self.disk = self.disk.copy() if disk is None else disk
        self.open()

    def send(self, *bodies: bytes) -> None:
        for body in bodies:
            self.peer.feed(publish(1, "s", body, raw=PERSISTENT))

    def sync(self) -> None:
        self.disk.sync(self.engine)
        self.engine.run()

    def read(self, first: int | None = None) -> dict[int, bytes]:
        """Everything readable, by offset."""
        reader = Peer(self.engine, {"s": self.stream})
        reader.channel.consume_stream(
            self.stream, "r", 60000, self.stream.first if first is None else first
        )
        self.engine.run()
        return {offset_of(event.raw): event.body for event in reader.deliveries()}


def offset_of(raw: bytes) -> int:
    at = raw.index(b"x-stream-offsetl") + 16
    return int.from_bytes(raw[at : at + 8], "big")


def numbered(count: int, start: int = 0, size: int = 0) -> list[bytes]:
    return [b"%d" % number + bytes(size) for number in range(start, start + count)]


def skipped_in(raw: bytes) -> int:
    """What a delivery reports as skipped; 0 if it reports nothing."""
    name = b"x-stream-skippedl"
    if name not in raw:
        return 0
    at = raw.index(name) + len(name)
    return int.from_bytes(raw[at : at + 8], "big")
