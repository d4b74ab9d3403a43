"""Transactions after a crash, from files that are cut, flipped or missing sectors."""

from __future__ import annotations

import pytest
from tests.engine.frames import PERSISTENT, ack, publish
from tests.engine.restarts import Broker

HEADER_BYTES = 64
SECTOR_BYTES = 512


def transaction(broker: Broker, count: int = 3, filler: bytes = b"", name: bytes = b"t") -> int:
    """Publishes, and acks of everything that is there."""
    channel = broker.peer.channels[2]
    channel.select_tx()
    while channel.get(broker.queues["q"], False):
        pass
    broker.peer.feed(ack(2, 0, multiple=True))
    for number in range(count):
        broker.peer.feed(publish(2, "q", name + b"%d" % number + filler, raw=PERSISTENT))
    return channel.commit()


def test_a_transaction_is_there_as_a_whole_wherever_its_end_is_cut():
    broker = Broker()
    for body in (b"a", b"b"):
        broker.send("q", body)
    broker.disk.sync(broker.engine)
    assert transaction(broker) == broker.engine.logs.generation
    assert broker.disk.begin(broker.engine)
    assert broker.disk.job is not None
    before = broker.disk
    total = sum(len(data) for *_, data in broker.disk.job[1])
    outcomes = set()
    for written in range(total + 1):
        broker.restart(before.crashed(written))
        found = tuple(body[:2] for body in broker.bodies())
        outcomes.add(found)
        if written == total:
            assert found == (b"t0", b"t1", b"t2")
    assert outcomes == {(b"a", b"b"), (b"t0", b"t1", b"t2")}


def test_a_transaction_larger_than_a_segment():
    broker = Broker()
    broker.send("q", b"a")
    broker.disk.sync(broker.engine)
    transaction(broker, 20, bytes(1000))
    broker.crash(short=8)
    assert broker.bodies() == [b"a"]
    transaction(broker, 20, bytes(1000))
    broker.crash(short=0)
    assert len(broker.bodies()) == 20


def test_a_transaction_that_was_undone_stays_undone_when_its_segment_is_copied():
    broker = Broker("qr")
    for number in range(8):
        broker.send("q", b"%d" % number * 300)
    broker.send("r", bytes(500))
    for _ in range(10):
        broker.send("r", bytes(300))
    broker.disk.sync(broker.engine)
    assert len(broker.engine.logs.segments) == 2
    channel = broker.peer.channels[2]
    assert channel.get(broker.queues["q"], False)
    channel.select_tx()
    broker.peer.feed(ack(2, 1))
    channel.commit()
    broker.crash(short=8)
    assert [report.undone for report in broker.reports] == [0, 1]
    # Most of that segment dies, and of those after it, but not of the first.
    for _ in range(60):
        broker.send("r", bytes(1000))
    broker.disk.sync(broker.engine)
    while broker.peer.channel.get(broker.queues["r"], False):
        pass
    for tag in range(1, 72):
        if tag != 8 and (tag < 13 or tag % 3):
            broker.peer.feed(ack(1, tag))
    broker.disk.settle(broker.engine)
    numbers = [segment.number for segment in broker.engine.logs.segments]
    assert 1 in numbers
    assert 2 not in numbers
    broker.restart()
    assert len(broker.bodies("q")) == 8


@pytest.mark.parametrize("filler", [bytes(900), b"x" * 900, b"x" * 100, b""])
def test_a_sector_that_was_never_written_undoes_its_transaction_and_no_other(filler):
    """Power may go when a later sector of a write is on disk and an earlier one is not."""
    broker = Broker()
    broker.send("q", b"a" * 500)
    broker.disk.sync(broker.engine)
    for name in (b"t", b"u"):
        transaction(broker, 3, filler, name)
    assert broker.disk.begin(broker.engine)
    synced, whole = broker.disk, broker.disk.crashed(10**6)
    for number, file in whole.files.items():
        before = synced.files.get(number, bytes(len(file)))
        for at in range(0, len(file), SECTOR_BYTES):
            end = at + SECTOR_BYTES
            left = whole.copy()
            left.files[number] = file[:at] + before[at:end] + file[end:]
            broker.restart(left)
            found = b"".join(body[:1] for body in broker.bodies())
            # The first one settles a, the second one what the first one brought.
            assert found in (b"a", b"ttt", b"uuu", b"auuu"), (number, at, broker.reports)


def test_a_flipped_bit_costs_a_transaction_at_most_the_record_it_is_in():
    """Once written it may have been answered, so what is left of it counts: COMMIT or not."""
    broker = Broker()
    for name in (b"t", b"u"):
        channel = broker.peer.channels[2]
        channel.select_tx()
        for number in range(2):
            broker.peer.feed(publish(2, "q", name + b"%d" % number, raw=PERSISTENT))
        channel.commit()
    broker.send("q", b"last")
    broker.disk.sync(broker.engine)
    (file,) = broker.disk.files.values()
    used = broker.engine.logs.segments[0].used
    for at in range(HEADER_BYTES, used):
        left = broker.disk.copy()
        left.files[1] = file[:at] + bytes([file[at] ^ 0x10]) + file[at + 1 :]
        broker.restart(left)
        found = broker.bodies()
        missing = {b"t0", b"t1", b"u0", b"u1", b"last"} - set(found)
        assert len(missing) + len(found) == 5
        assert len(missing) <= 1, (at, missing, broker.reports)
