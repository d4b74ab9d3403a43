"""Segment files: a start replays them, and `leporid check` reads them.

An input begins with how it is meant, two octets:

    0x01  the records' checksums and sizes are made right, as far as they can be followed; what then
          verifies was written by a broker, or by somebody who can write what a broker would
    0x02  the files are those of a stream
    0x04  there are two files: the rest is cut in the middle

Damage is no refusal: it is reported, and the start goes on. The refusals are `SegmentUnreadable`,
`SegmentTooNew`. After a replay the engine must work: what came back is delivered, cleaning runs,
and the log can be replayed once more.
"""

from __future__ import annotations

import io
import logging
import struct
from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from fuzz.world import SEGMENT_BYTES, START_MS, START_WALL_MS, defects_raised
from tests.engine.disk_fake import Disk, Files
from tests.engine.frames import publish
from tests.engine.session_fake import Peer
from tests.engine.slices import ended

from leporid.engine.engine import Engine
from leporid.engine.log.replay import Replay
from leporid.engine.log.reports import SegmentReport, SegmentUnreadable
from leporid.engine.queue.queue import Queue
from leporid.engine.stream.replay import StreamReplay
from leporid.engine.stream.stream import Stream
from leporid.engine.wire.crc import checksum
from leporid.server.check import DAMAGED, OK, WRONG_USE, check

RIGHT: Final = 1
OF_STREAM: Final = 2
TWO: Final = 4
HEADER_BYTES: Final = 64
RECORD_BYTES: Final = 32
QUEUES: Final = (1, 2, 3)
STREAM_ID: Final = 7
MAGIC: Final = b"LEPSEG1\n"
# `leporid check` opens a database and syncs directories: a hundred times what the rest takes.
CHECKED_SHARE: Final = 16


def one(data: bytes) -> None:
    """Replay one or two files, and check them."""
    how, content = (data[0] if data else 0), data[2:]
    middle = len(content) // 2 & ~7
    parts = [content[:middle], content[middle:]] if how & TWO else [content]
    files = {number: _file(part, number, how) for number, part in enumerate(parts, 1)}
    with defects_raised():
        if how & OF_STREAM:
            _replay_stream(files)
        else:
            _replay_twice(files)
        if len(data) > 1 and data[1] % CHECKED_SHARE == 0:
            _check_directory(files, how)


def _file(content: bytes, number: int, how: int) -> bytes:
    if not how & RIGHT:
        return content
    made = bytearray(content)
    made.extend(bytes(-len(made) % 8))
    if len(made) < HEADER_BYTES:
        made.extend(bytes(HEADER_BYTES - len(made)))
    made[:16] = MAGIC + struct.pack("<II", 1, number)
    struct.pack_into("<I", made, 28, checksum(bytes(made[:28])))
    (salt,) = struct.unpack_from("<I", made, 16)
    at = HEADER_BYTES
    while at + RECORD_BYTES <= len(made):
        at += _seal(made, at, salt)
    return bytes(made)


def _seal(made: bytearray, at: int, salt: int) -> int:
    """Make a record's size that of its parts, and its checksums right; returns its size."""
    targets, properties = struct.unpack_from("<HI", made, at + 10)
    body, names = struct.unpack_from("<IH", made, at + 24)
    left = len(made) - at
    need = RECORD_BYTES + 12 * targets + names + properties + body
    size = need + -need % 8
    if size > left:
        # As a record of nothing but a body, which is what is left.
        struct.pack_into("<HI", made, at + 10, 0, 0)
        struct.pack_into("<IH", made, at + 24, left - RECORD_BYTES, 0)
        size = left
    struct.pack_into("<I", made, at, size)
    seed = (salt ^ at) & 0xFFFFFFFF
    head = bytes(made[at : at + 4] + made[at + 8 : at + 30])
    struct.pack_into("<H", made, at + 30, checksum(head, seed ^ 0xFFFFFFFF) & 0xFFFF)
    struct.pack_into("<I", made, at + 4, checksum(bytes(made[at + 8 : at + size]), seed))
    return int(size)


# ------------------------------------------------------------------ a start


def _engine(disk: Disk) -> Engine:
    engine = Engine(8, durable_segment_bytes=SEGMENT_BYTES, transient_segment_bytes=SEGMENT_BYTES)
    engine.clock.now_ms, engine.clock.wall_ms = START_MS, START_WALL_MS
    disk.attach(engine)
    return engine


def _read(work: Replay, files: MutableMapping[int, bytes]) -> list[SegmentReport]:
    reports = []
    for number in sorted(files):
        try:
            report = work.segment(number, files[number])
        except SegmentUnreadable:
            del files[number]
            continue
        assert HEADER_BYTES <= report.used <= len(files[number])
        assert all(at + length <= report.used for at, length in report.damaged)
        report.broken_transactions(Path("f"))
        if report.torn:
            files[number] = files[number][: report.used]
        reports.append(report)
    return reports


def _replay_twice(files: Mapping[int, bytes]) -> None:
    _read(Replay(None), dict(files))
    disk = Disk(files)
    for _ in range(2):
        engine = _engine(disk)
        queues = {str(number): engine.queue(number, str(number), True) for number in QUEUES}
        work = Replay(engine.logs)
        _read(work, disk.files)
        work.finish()
        _use(engine, disk, queues)


def _use(engine: Engine, disk: Disk, queues: dict[str, Queue]) -> None:
    """Take what came back, publish more, and let the log be cleaned."""
    peer = Peer(engine, queues)
    for name, queue in queues.items():
        peer.get(queue, no_ack=False)
        peer.feed(publish(1, name, b"x" * 100, raw=b"\x10\0\2"))
        peer.drain(queue)
    ended(peer.channel.recovering())
    for _ in range(3):
        engine.clock.now_ms += 1000
        engine.clock.wall_ms += 1000
        engine.run()
        disk.sync(engine)
    peer.connection.lost()


def _replay_stream(given: Mapping[int, bytes]) -> None:
    disk = Disk()
    files = disk.streams[STREAM_ID] = Files(given)
    for _ in range(2):
        engine = _engine(disk)
        stream = engine.stream(STREAM_ID, "s")
        work = StreamReplay(stream)
        _read(work, files)
        work.finish()
        _read_stream(engine, disk, stream)


def _read_stream(engine: Engine, disk: Disk, stream: Stream) -> None:
    peer = Peer(engine, {"s": stream})
    peer.channel.consume_stream(stream, "c", 10, stream.first)
    peer.events()
    peer.feed(publish(1, "s", b"x" * 100, raw=b"\x10\0\2"))
    for _ in range(2):
        engine.run()
        disk.sync(engine)
    peer.take()
    peer.connection.lost()


def _check_directory(files: dict[int, bytes], how: int) -> None:
    """Run `leporid check`."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with TemporaryDirectory() as made:
            directory = Path(made)
            (directory / "log").mkdir()
            place = directory / "log"
            if how & OF_STREAM:
                place = directory / "streams" / f"{STREAM_ID:08d}"
                place.mkdir(parents=True)
            for number, content in files.items():
                (place / f"{number:08d}.segment").write_bytes(content)
            out = io.StringIO()
            assert check(directory, out) in (OK, DAMAGED, WRONG_USE)
            assert out.getvalue()
    finally:
        logging.disable(before)


# ------------------------------------------------------------------ seeds


def seeds() -> Iterator[bytes]:
    """Logs that the engine wrote, and logs that it wrote with something damaged."""
    for of_stream in (0, OF_STREAM):
        for files in _written(bool(of_stream)):
            for content in files.values():
                used = content.rstrip(b"\0")
                used += bytes(-len(used) % 8)
                for how in (0, RIGHT):
                    yield bytes((of_stream | how, 0)) + used
                    yield bytes((of_stream | how | TWO, 1)) + used + used
                for at in range(HEADER_BYTES, len(used), 72):
                    yield bytes((of_stream, 0)) + used[:at] + b"\xff" + used[at + 1 :]


def _written(of_stream: bool) -> Iterator[Mapping[int, bytes]]:
    disk = Disk()
    engine = _engine(disk)
    if of_stream:
        stream = engine.stream(STREAM_ID, "s")
        for number in range(5):
            engine.publish([stream], "e", "k", b"\x10\0\2", b"%d" % number, b"producer", number)
            engine.run()
            disk.sync(engine)
        yield disk.streams[STREAM_ID]
        return
    queues = {str(number): engine.queue(number, str(number), True) for number in QUEUES}
    peer = Peer(engine, queues)
    for number in range(3):
        peer.feed(publish(1, "1", b"%d" % number, raw=b"\x10\0\2"))
        peer.feed(publish(1, "2", b"%d" % number * 20, raw=b"\x10\0\2"))
    disk.sync(engine)
    peer.get(queues["1"])
    peer.get(queues["2"], no_ack=False)
    ended(peer.channel.recovering())
    disk.sync(engine)
    yield disk.copy().files
    peer.channel.select_tx()
    peer.feed(publish(1, "3", b"tx", raw=b"\x10\0\2"), publish(1, "1", b"tx", raw=b"\x10\0\2"))
    peer.channel.commit()
    disk.sync(engine)
    yield disk.copy().files
    engine.mark_clean()
    disk.sync(engine)
    yield disk.copy().files
