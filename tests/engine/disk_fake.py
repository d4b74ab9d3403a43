"""A disk in memory, under the durable log: what was written, what was synced, what a crash leaves.

It does what the sync thread does, in the same order, and can stop half-way.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence

from leporid.engine.engine import Engine
from leporid.engine.log.replay import Replay
from leporid.engine.log.reports import SegmentReport, SegmentUnreadable

SECTOR_BYTES = 512
Write = tuple[int, int, int, bytes]  # number, file size, offset, bytes
Given = tuple[int, int, int, memoryview | bytes]  # the same, as the engine gives it
GivenStream = tuple[int, list[Given] | None, list[int] | None]


@functools.cache
def zeros(size: int) -> bytes:
    """Return a new file; each has megabytes, and to have them of the system takes a while."""
    return bytes(size)


class Files(MutableMapping[int, bytes]):
    """Files by number. What is written to one is put in when somebody looks at it.

    Files have many megabytes, are written often and looked at seldom, and whoever looked keeps what
    there was then.
    """

    def __init__(self, files: Mapping[int, bytes] | None = None) -> None:
        self._files = dict(files or {})
        self._written: dict[int, list[tuple[int, bytes]]] = {}

    def write(self, writes: Sequence[Write]) -> None:
        for number, size, offset, data in writes:
            if number not in self._files:
                self._files[number] = zeros(size)
            self._written.setdefault(number, []).append((offset, data))

    def copy(self) -> Files:
        copy = Files(self._files)
        copy._written = {number: list(parts) for number, parts in self._written.items()}
        return copy

    def __getitem__(self, number: int) -> bytes:
        parts = self._written.pop(number, None)
        if parts is not None:
            file = bytearray(self._files[number])
            for offset, data in parts:
                file[offset : offset + len(data)] = data
            self._files[number] = bytes(file)
        return self._files[number]

    def __setitem__(self, number: int, file: bytes) -> None:
        self._written.pop(number, None)
        self._files[number] = file

    def __delitem__(self, number: int) -> None:
        del self._files[number]
        self._written.pop(number, None)

    def __iter__(self) -> Iterator[int]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


class Disk:
    """Segment files by number. Files have their whole size from the start, as on a real disk."""

    def __init__(self, files: Mapping[int, bytes] | None = None) -> None:
        self.files = Files(files)
        self.job: tuple[int, list[Write], list[int]] | None = None
        self.closed: tuple[int, list[Given], list[int]] | None = None
        self.streams: dict[int, Files] = {}
        self.stream_work: list[tuple[int, list[Write], list[int] | None]] = []

    def attach(self, engine: Engine) -> None:
        engine.logs.map_segment = self.map
        engine.streams.map_segment = lambda stream, number: self.streams[stream][number]

    def map(self, number: int) -> bytes:
        return self.files[number]

    def copy(self) -> Disk:
        copy = Disk()
        copy.files = self.files.copy()
        copy.streams = {number: files.copy() for number, files in self.streams.items()}
        return copy

    def write(self, writes: Sequence[Write]) -> None:
        self.files.write(writes)

    def write_stream(self, stream: int, parts: Sequence[Write]) -> None:
        self.streams.setdefault(stream, Files()).write(parts)

    # ------------------------------------------------------------- the sync thread

    def begin(self, engine: Engine) -> bool:
        """Take a generation's work, without doing it; False when there is none."""
        assert self.job is None
        work = engine.begin_sync()
        if work is None:
            return False
        self.closed = work[:3]
        self._take(work[3])
        return True

    def close(self, engine: Engine) -> bool:
        """Close a generation, so that `collect` takes its work; False when there is none."""
        assert self.job is self.closed is None
        self.closed = engine.close_generation()
        return self.closed is not None

    def collect(self, engine: Engine) -> bool:
        """Take some of it; returns whether all is taken."""
        streams = engine.collected_streams()
        if streams is not None:
            self._take(streams)
        return streams is not None

    def _take(self, streams: list[GivenStream]) -> None:
        assert self.closed is not None
        (generation, views, drops), self.closed = self.closed, None
        self._streams_given = streams
        self.stream_work = [
            (stream, [(n, size, at, bytes(data)) for n, size, at, data in parts or ()], gone)
            for stream, parts, gone in streams
        ]
        writes = [(number, size, at, bytes(data)) for number, size, at, data in views]
        self.job = generation, writes, drops
        self._given = views

    def complete(self, engine: Engine, *, whole: bool = True) -> None:
        """Do the work that was taken, and say so."""
        assert self.job is not None
        generation, writes, drops = self.job
        for (*_, data), (*_, view) in zip(writes, self._given, strict=True):
            assert bytes(view) == data, "bytes changed while they were being written"
        self.write(writes)
        for number in drops:
            del self.files[number]
        for stream, parts, gone in self.stream_work:
            if gone is None:
                self.streams.pop(stream, None)
                continue
            self.write_stream(stream, parts)
            for number in gone:
                del self.streams[stream][number]
        self.job = None
        engine.end_sync(generation, self._given, self._streams_given, whole=whole)

    def sync(self, engine: Engine) -> bool:
        if not self.begin(engine):
            return False
        self.complete(engine)
        return True

    def settle(self, engine: Engine, turns: int = 200) -> int:
        """Sync, with time passing, until there is nothing to do; returns how often that took."""
        for turn in range(turns):
            engine.clock.now_ms += 100
            engine.run()
            if not self.sync(engine):
                return turn
        raise AssertionError(f"the log finds no rest within {turns} syncs")

    # ------------------------------------------------------------- crashes

    def crashed(
        self, written: int = 0, dropped: int = 0, lost: Callable[[], bool] | None = None
    ) -> Disk:
        """What a crash leaves: that many bytes of the work under way, and so many deletions.

        Args:
            lost: asked for each sector that was written; when power goes, a later one may be on
                disk and an earlier one not.
        """
        left = self.copy()
        if self.job is None:
            return left
        _, writes, drops = self.job
        if written >= sum(len(data) for *_, data in writes) and lost is None:
            for number in drops[:dropped]:
                del left.files[number]
        for number, size, offset, data in writes:
            part = data[:written]
            written -= len(part)
            if part:
                left.write([(number, size, offset, part)])
        if lost is not None:
            for number in {write[0] for write in writes} & set(left.files):
                left.files[number] = self._without(number, left.files[number], lost)
        return left

    def _without(self, number: int, file: bytes, lost: Callable[[], bool]) -> bytes:
        before = self.files.get(number, bytes(len(file)))
        return b"".join(
            source[at : at + SECTOR_BYTES]
            for at in range(0, len(file), SECTOR_BYTES)
            for source in [
                before
                if file[at:][:SECTOR_BYTES] != before[at:][:SECTOR_BYTES] and lost()
                else file
            ]
        )


def recover(
    disk: Disk, declare: Callable[[Engine], None], seed: int = 8, **options: int
) -> tuple[Engine, list[SegmentReport], bool]:
    """What a broker's start does: queues first, then the log; (engine, reports, was it clean)."""
    engine = Engine(seed, **options)
    engine.clock.now_ms, engine.clock.wall_ms = 1_000, 1_700_000_000_000
    disk.attach(engine)
    declare(engine)
    replay = Replay(engine.logs)
    reports = []
    for number in sorted(disk.files):
        try:
            report = replay.segment(number, disk.files[number])
        except SegmentUnreadable:
            del disk.files[number]
            continue
        if report.torn:
            disk.files[number] = disk.files[number][: report.used]
        reports.append(report)
    return engine, reports, replay.finish()
