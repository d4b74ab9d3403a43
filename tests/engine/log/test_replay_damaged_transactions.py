"""Each byte of a transaction damaged, or missing with all that follows: what a start makes of it.

Of a message that is stored anew there is one after it, the first one or the new one. A client's
transaction loses the message whose record was hit, and none for good that it settled.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from tests.engine import delay_world, verdict_world
from tests.engine.disk_fake import Disk, recover
from tests.engine.frames import PERSISTENT, ack, nack, publish
from tests.engine.restarts import Broker
from tests.engine.session_fake import make_engine
from tests.storage.format_v1 import (
    COMMIT,
    IN_TX,
    PUBLISH,
    RECORD,
    SETTLE,
    crc32c,
    read_header,
    read_records,
)

from leporid.engine.engine import Engine
from leporid.engine.log.reports import SegmentReport
from leporid.engine.queue.queue import Queue

SEGMENT_BYTES = 4096
Counts = tuple[int, ...]


@dataclass
class Written:
    """A log with one transaction in it, and what its queues 1, 2 and 3 have of it.

    Attributes:
        before: ready messages without the transaction.
        after: with it.
        kept: for each record of it that may be damaged; None: `before`.
    """

    disk: Disk
    before: Counts
    after: Counts
    kept: tuple[Counts | None, ...]

    def __post_init__(self) -> None:
        ((self.number, self.file),) = self.disk.files.items()
        records = read_records(self.file)
        first = next(n for n, record in enumerate(records) if record.flags & IN_TX)
        self.records = records[first : first + len(self.kept)]
        assert self.records[-1].kind == COMMIT
        # So that what is damaged at its end is not taken for a write that did not finish.
        assert len(records) > first + len(self.kept)

    def found(self, file: bytes) -> tuple[Counts, list[SegmentReport], Disk]:
        """What a start makes of the file, and then another one."""
        disk, counts = Disk({self.number: file}), []
        for _ in range(2):
            queues: list[Queue] = []

            def declare(engine: Engine, queues: list[Queue] = queues) -> None:
                queues.extend(engine.queue(number, f"{number}", True) for number in (1, 2, 3))

            engine, reports, _ = recover(disk, declare, durable_segment_bytes=SEGMENT_BYTES)
            counts.append(tuple(queue.ready_count for queue in queues))
            if len(counts) == 1:
                first = reports
            disk.settle(engine)
        assert counts[0] == counts[1]
        assert not any(report.damaged or report.broken for report in reports)
        return counts[0], first, disk

    def flipped(self, at: int) -> bytes:
        return self.file[:at] + bytes([self.file[at] ^ 1 << at % 8]) + self.file[at + 1 :]

    def cut(self, at: int) -> bytes:
        return self.file[:at].ljust(len(self.file), b"\0")


def a_clients() -> Written:
    """An ack of queue 1, and a message for queue 1 and one for queue 2."""
    broker = Broker("abc")
    broker.send("a", b"old")
    broker.disk.sync(broker.engine)
    channel = broker.peer.channels[2]
    channel.select_tx()
    assert channel.get(broker.queues["a"], False)
    broker.peer.feed(publish(2, "a", b"new", raw=PERSISTENT))
    broker.peer.feed(publish(2, "b", b"new", raw=PERSISTENT))
    broker.peer.feed(ack(2, 1))
    channel.commit()
    broker.send("c", b"last")
    broker.disk.sync(broker.engine)
    after = (1, 1, 1)
    return Written(broker.disk, (1, 0, 1), after, ((1, 1, 1), (2, 0, 1), (2, 1, 1), after))


def with_dead_letters() -> Broker:
    """Those of queue a go to queue b."""
    broker = Broker("abc")

    def take(reason: str, exchange: str, key: str, properties: bytes, body: bytes) -> None:
        assert reason == "rejected"
        broker.engine.publish([broker.queues["b"]], exchange, key, properties, body)

    broker.queues["a"].dead_letters = take
    return broker


def a_dead_letter() -> Written:
    broker = with_dead_letters()
    broker.send("a", b"old")
    broker.disk.sync(broker.engine)
    broker.peer.get(broker.queues["a"], no_ack=False)
    broker.peer.feed(nack(1, 1, requeue=False))
    broker.send("c", b"last")
    broker.disk.sync(broker.engine)
    return Written(broker.disk, (1, 0, 1), (0, 1, 1), (None, None, (0, 1, 1)))


def a_delayed_message() -> Written:
    """Queue 1 is where it goes, 2 is where it waits."""
    disk, engine = Disk(), make_engine(durable_segment_bytes=SEGMENT_BYTES)
    disk.attach(engine)
    world = delay_world.World(engine, disk)
    world.peer.queues["c"] = engine.queue(3, "c", True)
    world.send(b"late", delay_world.delayed(1000))
    disk.sync(engine)
    world.sleep(1001)
    world.send(b"last", PERSISTENT, exchange="", key="c")
    disk.sync(engine)
    return Written(disk, (0, 1, 1), (1, 0, 1), (None, None, (1, 0, 1)))


def what_a_filter_class_let_pass() -> Written:
    """Queue 1 is where it goes, 3 is where it waits."""
    world = verdict_world.World(segment_bytes=SEGMENT_BYTES)
    world.send(b"judged")
    world.sync()
    world.judge()
    world.peer.feed(publish(1, "other", b"last", raw=PERSISTENT))
    world.sync()
    return Written(world.disk, (0, 1, 1), (1, 1, 0), (None, None, (1, 1, 0)))


ALL = [a_clients, a_dead_letter, a_delayed_message, what_a_filter_class_let_pass]


@pytest.mark.parametrize("make", ALL)
def test_a_flipped_bit(make: Callable[[], Written]):
    written = make()
    assert written.found(written.file)[0] == written.after
    for record, kept in zip(written.records, written.kept, strict=True):
        for at in range(record.offset, record.end):
            found, (report,), _ = written.found(written.flipped(at))
            assert found == (kept or written.before), (record.kind, at - record.offset)
            assert report.damaged == [(record.offset, record.size)]
            assert bool(report.broken) == (record.kind != COMMIT)


@pytest.mark.parametrize("make", ALL)
def test_an_end_that_is_torn(make: Callable[[], Written]):
    """All bytes from one on are missing, and those of the message after the transaction, too."""
    written = make()
    last = 1 if make is what_a_filter_class_let_pass else 2
    for at in range(written.records[0].offset, written.records[-1].end):
        found, (report,), _ = written.found(written.cut(at))
        # The last bytes of a COMMIT are zeros anyway.
        whole = not any(written.file[at : written.records[-1].end])
        expected = list(written.after if whole else written.before)
        expected[last] -= 1
        assert found == tuple(expected), at
        assert not report.broken


@pytest.mark.parametrize("damaged", [(0, 1), (0, 2), (1, 2), (0, 1, 2)])
def test_several_records(damaged: tuple[int, ...]):
    """Of a dead letter: it or its original is there, at worst both."""
    written = a_dead_letter()
    file = written.file
    for number in damaged:
        at = written.records[number].offset + 32
        file = file[:at] + bytes([file[at] ^ 1]) + file[at + 1 :]
    found, _, _ = written.found(file)
    assert found == ((1, 1, 1) if damaged == (1, 2) else written.before)


@pytest.mark.parametrize(("damaged", "expected"), [(0, (1, 0, 1)), (1, (1, 1, 1)), (2, (0, 1, 1))])
def test_a_dead_letter_of_versions_that_did_not_tell_it_from_a_clients(
    damaged: int, expected: Counts
):
    """0.1.0 wrote zeros where COMMIT now says what the transaction is for."""
    written = a_dead_letter()
    commit = written.records[2]
    raw = bytearray(written.file[commit.offset : commit.end])
    assert struct.unpack_from("<II", raw, RECORD.size) == (2, 1)
    struct.pack_into("<I", raw, RECORD.size + 4, 0)
    seed = read_header(written.file).salt ^ commit.offset
    struct.pack_into("<I", raw, 4, crc32c(bytes(raw[8:]), seed))
    file = written.file[: commit.offset] + raw + written.file[commit.end :]
    old = replace(written, disk=Disk({written.number: bytes(file)}))
    at = old.records[damaged].offset + 32
    assert old.found(old.file)[0] == written.after
    assert old.found(old.flipped(at))[0] == expected


def test_two_transactions_next_to_each_other():
    """The COMMIT of one is damaged, or a fact of the other: none takes facts of the other."""
    broker = with_dead_letters()
    for _ in range(2):
        broker.send("a", b"old")
    broker.disk.sync(broker.engine)
    for _ in range(2):
        broker.peer.get(broker.queues["a"], no_ack=False)
    broker.peer.feed(nack(1, 0, multiple=True, requeue=False))
    broker.send("c", b"last")
    broker.disk.sync(broker.engine)
    written = Written(broker.disk, (2, 0, 1), (0, 2, 1), (None,) * 6)
    kinds = [record.kind for record in written.records]
    assert kinds == [PUBLISH, SETTLE, COMMIT] * 2
    assert written.found(written.file)[0] == written.after
    for damaged in range(6):
        found, _, _ = written.found(written.flipped(written.records[damaged].offset + 32))
        assert found == ((0, 2, 1) if kinds[damaged] == COMMIT else (1, 1, 1))
    for first, second in ((2, 3), (2, 4), (2, 5), (1, 3), (0, 5)):
        file = written.flipped(written.records[first].offset + 32)
        at = written.records[second].offset + 32
        found, _, _ = written.found(file[:at] + bytes([file[at] ^ 1]) + file[at + 1 :])
        originals, letters, others = found
        assert originals + letters >= 2
        assert others == 1
