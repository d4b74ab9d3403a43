"""Start after a stop and after a crash, from files that are whole, cut or overwritten."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from tests.engine.disk_fake import Disk, Files, recover
from tests.engine.frames import PERSISTENT, ack, properties, publish
from tests.engine.restarts import Broker
from tests.engine.session_fake import make_engine
from tests.engine.slices import ended
from tests.storage.format_v1 import (
    COMMIT,
    DELIVERED,
    PUBLISH,
    SETTLE,
    make_record,
    read_header,
    read_records,
)

from leporid.engine.engine import Engine
from leporid.engine.log.replay import Replay
from leporid.engine.log.reports import SegmentUnreadable
from leporid.engine.queue.browse import snapshot

HEADER_BYTES = 64
SECTOR_BYTES = 512


@pytest.fixture
def broker():
    return Broker()


# ------------------------------------------------------------------ what stays


def test_what_is_synced_is_there_again(broker):
    raw = properties(delivery_mode=2, message_id="m", priority=3)
    broker.send("q", b"one", raw)
    broker.send("q", b"")
    broker.peer.feed(publish(1, "q", b"passing"))
    broker.disk.sync(broker.engine)
    broker.send("q", b"too late")
    broker.restart()
    assert not broker.clean
    queue = broker.queues["q"]
    assert (queue.ready_count, queue.ready_bytes, queue.unacked_count) == (2, 3, 0)
    first, second = broker.peer.get(queue), broker.peer.get(queue)
    assert first is not None
    assert second is not None
    assert (first.exchange, first.key, first.raw, first.body) == ("", "q", raw, b"one")
    assert (second.raw, second.body) == (PERSISTENT, b"")
    assert first.redelivered
    assert second.redelivered


def test_a_queue_that_is_not_durable_is_empty_even_if_it_is_there_before(broker):
    passing = broker.engine.queue(0, "passing", False)
    broker.engine.publish([broker.queues["q"], passing], "x", "k", PERSISTENT, b"one")
    broker.disk.sync(broker.engine)
    assert passing.ready_count == 1
    made = []

    def declare(engine):
        made.append(engine.queue(0, "another", False))
        broker.queues["q"] = engine.queue(1, "q", True)

    _, _, _ = recover(broker.disk.copy(), declare, durable_segment_bytes=4096)
    assert made[0].id == passing.id
    assert list(snapshot(made[0])) == []
    assert (made[0].ready_count, broker.queues["q"].ready_count) == (0, 1)
    assert [body for *_, body in snapshot(broker.queues["q"])] == [b"one"]


def test_numbers_go_on_where_they_were(broker):
    for number in range(600):
        broker.send("q", b"%d" % number)
    broker.peer.drain(broker.queues["q"])
    broker.send("q", b"last")
    broker.disk.sync(broker.engine)
    broker.restart()
    assert broker.queues["q"].next_seq == 601
    broker.send("q", b"new")
    assert broker.bodies() == [b"last", b"new"]


def test_an_empty_queue_gives_what_comes_after_a_restart(broker):
    for number in range(300):
        broker.send("q", b"%d" % number)
    assert broker.peer.drain(broker.queues["q"])[-1] == b"299"
    broker.send("q", b"stays")
    broker.disk.sync(broker.engine)
    for _ in range(2):
        broker.restart()
        assert broker.peer.get(broker.queues["q"]) is not None
        assert broker.peer.get(broker.queues["q"]) is None
        broker.send("q", b"new")
        assert broker.bodies() == [b"new"]
        broker.disk.sync(broker.engine)


def test_a_queue_that_is_not_declared_any_more_has_nothing():
    broker = Broker("qr")
    cache = broker.engine.route_cache("x", lambda key, raw: list(broker.queues.values()), True)
    broker.peer.session.caches["x"] = cache
    broker.peer.feed(publish(1, "", b"both", raw=PERSISTENT, exchange="x"))
    broker.disk.sync(broker.engine)
    broker.names = "q"
    broker.restart()
    assert broker.bodies() == [b"both"]
    broker.peer.drain(broker.queues["q"])
    broker.disk.settle(broker.engine)
    assert all(segment.live == 0 for segment in broker.engine.logs.segments)


def test_a_fact_of_each_kind_over_many_segments():
    broker = Broker("qr")
    for number in range(100):
        broker.send("qr"[number % 2], b"%d;" % number + bytes(200))
    assert len(broker.engine.logs.segments) > 5
    broker.disk.sync(broker.engine)
    channel = broker.peer.channel
    for _ in range(50):
        assert channel.get(broker.queues["q"], False)
    for tag in range(1, 51, 2):
        broker.peer.feed(ack(1, tag))
    ended(broker.queues["r"].purging())
    broker.disk.sync(broker.engine)
    broker.restart()
    assert broker.bodies("r") == []
    found = [int(body.partition(b";")[0]) for body in broker.bodies("q")]
    assert found == list(range(2, 100, 4))


# ------------------------------------------------------------------ redelivered


def test_after_an_orderly_stop_only_what_was_delivered_is_marked(broker):
    for body in (b"a", b"b", b"c"):
        broker.send("q", body)
    assert broker.peer.channel.get(broker.queues["q"], False)
    for _ in range(2):
        broker.stop()
        assert broker.clean
    got = [broker.peer.get(broker.queues["q"]) for _ in range(3)]
    assert [(each.body, each.redelivered) for each in got if each] == [
        (b"a", True),
        (b"b", False),
        (b"c", False),
    ]


def test_what_was_delivered_after_an_orderly_start_is_marked_after_a_crash(broker):
    broker.send("q", b"a")
    broker.stop()
    assert broker.clean
    broker.disk.sync(broker.engine)
    got = broker.peer.get(broker.queues["q"], no_ack=False)
    assert got is not None
    assert not got.redelivered
    broker.restart()
    assert not broker.clean
    got = broker.peer.get(broker.queues["q"])
    assert got is not None
    assert got.redelivered


def test_a_missing_segment_makes_the_end_uncertain(broker):
    broker.send("q", b"a")
    broker.peer.connection.lost()
    broker.engine.mark_clean()
    broker.disk.sync(broker.engine)
    engine = make_engine()
    engine.queue(1, "q", True)
    replay = Replay(engine.logs)
    for number, file in broker.disk.files.items():
        replay.segment(number, file)
    assert not replay.finish(True)


# ------------------------------------------------------------------ time to live


def test_time_to_live_goes_on_while_nobody_runs(broker):
    def ttl(text: str) -> bytes:
        return properties(delivery_mode=2, expiration=text)

    broker.send("q", b"short", ttl("50"))
    broker.send("q", b"long", ttl("5000"))
    broker.send("q", b"for ever")
    broker.disk.sync(broker.engine)

    def declare(engine: Engine) -> None:
        engine.clock.wall_ms += 1000
        broker.declare(engine)

    engine, _, _ = recover(broker.disk, declare)
    broker.open(engine)
    engine.run()
    assert broker.bodies() == [b"long", b"for ever"]
    engine.clock.now_ms += 3999
    engine.run()
    assert broker.bodies() == [b"long", b"for ever"]
    engine.clock.now_ms += 1
    engine.run()
    assert broker.bodies() == [b"for ever"]


def test_time_to_live_is_none_the_longer_for_a_clock_that_was_ahead(broker):
    broker.send("q", b"short", properties(delivery_mode=2, expiration="50"))
    broker.disk.sync(broker.engine)

    def declare(engine: Engine) -> None:
        engine.clock.wall_ms -= 10**12
        broker.declare(engine)

    engine, _, _ = recover(broker.disk, declare)
    broker.open(engine)
    engine.clock.now_ms += 49
    engine.run()
    assert broker.bodies() == [b"short"]
    engine.clock.now_ms += 1
    engine.run()
    assert broker.bodies() == []


# ------------------------------------------------------------------ files that are wrong


def one_segment(count: int = 4) -> tuple[Broker, bytes]:
    broker = Broker()
    for number in range(count):
        broker.send("q", b"m%d" % number)
    broker.disk.sync(broker.engine)
    return broker, broker.disk.files[1]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "not a segment"),
        (bytes(4096), "not a segment"),
        (b"LEPSEG1\n", "not a segment"),
        (b"LEPSEG2\n" + bytes(100), "not a segment"),
        (b"LEPSEG1\n" + bytes(100), "header is damaged"),
    ],
)
def test_what_is_no_segment(data, text):
    with pytest.raises(SegmentUnreadable, match=text):
        Replay(None).segment(1, data)


def test_every_byte_of_the_header_is_checked():
    _, file = one_segment()
    for at in range(32):
        wrong = bytearray(file)
        wrong[at] ^= 0x10
        with pytest.raises(SegmentUnreadable):
            Replay(None).segment(1, bytes(wrong))
    with pytest.raises(SegmentUnreadable, match="that of segment 1"):
        Replay(None).segment(2, file)


def test_verifying_changes_nothing_and_counts():
    broker, _ = one_segment()
    broker.peer.get(broker.queues["q"])
    broker.disk.sync(broker.engine)
    report = Replay(None).segment(1, broker.disk.files[1])
    assert (report.publishes, report.settles, report.undone) == (4, 1, 0)
    assert (report.torn, report.damaged) == (0, [])
    assert report.used == broker.engine.logs.segments[0].used


def test_a_flipped_bit_costs_at_most_the_record_it_is_in():
    broker, file = one_segment()
    used = broker.engine.logs.segments[0].used
    size = (used - HEADER_BYTES) // 4
    everything = [b"m%d" % number for number in range(4)]
    for at in range(HEADER_BYTES, used):
        wrong = bytearray(file)
        wrong[at] ^= 1 << at % 8
        broker.disk.files = Files({1: bytes(wrong)})
        broker.restart()
        hit = (at - HEADER_BYTES) // size
        assert broker.bodies() == everything[:hit] + everything[hit + 1 :]
        (report,) = broker.reports
        if hit == 3:
            assert report.torn
        else:
            assert report.damaged == [(HEADER_BYTES + hit * size, size)]


@pytest.mark.parametrize("size", [8, 72, 80, 200])
@pytest.mark.parametrize("filler", [0, 0xFF])
def test_a_stretch_of_garbage_is_set_aside_once(size, filler):
    broker, file = one_segment(20)
    at = HEADER_BYTES + 300
    broker.disk.files = Files({1: file[:at] + bytes((filler,)) * size + file[at + size :]})
    broker.restart()
    left = broker.bodies()
    assert 20 - size // 72 - 2 <= len(left) < 20
    assert set(left) < {b"m%d" % number for number in range(20)}
    ((start, length),) = broker.reports[0].damaged
    assert start <= at
    assert start + length >= at + size
    broker.disk.settle(broker.engine)
    broker.restart()
    assert [report.damaged for report in broker.reports] == [[]] * len(broker.reports)
    assert broker.bodies() == left


def test_a_torn_end_is_cut_off_wherever_it_is_torn():
    broker = Broker()
    broker.send("q", b"whole")
    broker.disk.sync(broker.engine)
    broker.send("q", b"torn" * 10)
    assert broker.disk.begin(broker.engine)
    assert broker.disk.job is not None
    (*_, data), *_ = broker.disk.job[1]
    before = broker.disk
    for written in range(len(data) + 1):
        left = before.crashed(written)
        broker.restart(left)
        complete = written >= len(data.rstrip(b"\0"))
        assert broker.bodies() == [b"whole", b"torn" * 10][: 1 + complete]
        (report,) = broker.reports
        assert bool(report.torn) is bool(not complete and data[:written].strip(b"\0"))
        assert report.damaged == []


def test_a_lost_end_of_an_older_segment_shows():
    broker = Broker()
    for number in range(20):
        broker.send("q", b"%d;" % number + b"x" * 400)
    broker.disk.sync(broker.engine)
    first = broker.engine.logs.segments[0]
    whole = broker.disk.files[1]
    broker.disk.files[1] = whole[: first.used - 400] + bytes(4096 - first.used + 400)
    broker.restart()
    assert broker.reports[1].lost_before > 400
    assert len(broker.bodies()) == 19


# ------------------------------------------------------------------ records that make no sense

NONSENSE: dict[str, tuple[int, dict[str, Any]]] = {
    "a message for no queue": (PUBLISH, {"names": b"\0\0", "properties": PERSISTENT}),
    "a name beyond the names": (PUBLISH, {"targets": ((1, 9),), "names": b"\xff\0"}),
    "names that are too long": (PUBLISH, {"targets": ((1, 9),), "names": b"\0\0x"}),
    "no names": (PUBLISH, {"targets": ((1, 9),), "properties": PERSISTENT}),
    "no properties": (PUBLISH, {"targets": ((1, 9),), "names": b"\0\0"}),
    "properties that are cut": (
        PUBLISH,
        {"targets": ((1, 9),), "names": b"\0\0", "properties": b"\x20\0\0\0\0\x09\1a"},
    ),
    "fewer ranges than are said": (SETTLE, {"body": struct.pack("<IIIIQ", 1, 2, 1, 1, 0)}),
    "no ranges, nor how many": (SETTLE, {"body": b"\1\0\0\0"}),
    "the same of deliveries": (DELIVERED, {"body": struct.pack("<II", 1, 1)}),
    "a commit of nothing": (COMMIT, {}),
    "a producer without a number": (7, {"body": b"short"}),
    "a sync without offsets": (6, {"body": bytes(8)}),
    "a number that no queue gets to": (
        PUBLISH,
        {"targets": ((1, 1 << 63),), "names": b"\0\0", "properties": PERSISTENT},
    ),
    "the same of what is settled": (
        SETTLE,
        {"body": struct.pack("<IIIIQ", 1, 1, 1, 1, (1 << 64) - 1)},
    ),
    "a fact with names": (SETTLE, {"names": b"x", "body": bytes(8)}),
}


@pytest.mark.parametrize("kind", NONSENSE)
def test_a_record_that_verifies_and_makes_no_sense_is_damage(broker, kind):
    broker.send("q", b"before")
    broker.disk.sync(broker.engine)
    (file,) = broker.disk.files.values()
    at = read_records(file)[-1].end
    record_kind, parts = NONSENSE[kind]
    salt = read_header(file).salt
    record = make_record(at, salt, record_kind, **parts)
    after = make_record(
        at + len(record),
        salt,
        PUBLISH,
        targets=((1, 9),),
        names=b"\0\1q",
        properties=PERSISTENT,
        body=b"after",
    )
    content = (file[:at] + record + after).ljust(len(file), b"\0")
    broker.restart(Disk({1: content}))
    assert broker.reports[0].damaged == [(at, len(record))]
    assert broker.bodies() == [b"before", b"after"]


def test_messages_may_be_far_apart(broker):
    """Many came and went between them; a start and the first delivery do not count them all."""
    broker.send("q", b"one")
    broker.disk.sync(broker.engine)
    (file,) = broker.disk.files.values()
    at = read_records(file)[-1].end
    salt = read_header(file).salt
    records = b""
    for kind, parts in (
        (PUBLISH, {"targets": ((1, 1 << 60),), "names": b"\0\1q", "properties": PERSISTENT}),
        (SETTLE, {"body": struct.pack("<IIIIQ", 1, 1, 1, (1 << 32) - 1, 1)}),
    ):
        records += make_record(at + len(records), salt, kind, **parts)
    broker.restart(Disk({1: (file[:at] + records).ljust(len(file), b"\0")}))
    assert broker.reports[0].damaged == []
    broker.send("q", b"new")
    assert broker.bodies() == [b"one", b"", b"new"]


# ------------------------------------------------------------------ copies


@pytest.mark.parametrize("size", range(3440, 3560, 8))
def test_a_copy_that_was_settled_stays_settled_while_its_first_record_exists(size):
    """Whichever of what is copied fits behind a message of that size, and what does not."""
    broker = Broker("qrsz")
    send, queues = broker.send, broker.queues
    for _ in range(8):
        send("r", bytes(400))  # segment 1 lives
    send("q", b"keep" * 100)  # segment 2 has one message that lives,
    for _ in range(6):
        send("z", bytes(400))  # others that die,
    broker.peer.get(queues["r"])
    broker.engine.run()  # and a fact about segment 1
    for _ in range(40):
        for name in "szz":
            send(name, bytes(1000))
    broker.disk.sync(broker.engine)
    broker.peer.drain(queues["z"])
    broker.disk.sync(broker.engine)
    send("s", bytes(3000))
    send("s", bytes(size))
    broker.engine.clock.now_ms += 1000
    broker.disk.sync(broker.engine)
    assert broker.engine.logs.segments[1].live == 0
    # The copies are on disk, but segment 2 is not deleted yet when the broker dies.
    assert broker.disk.begin(broker.engine)
    broker.restart(broker.disk.crashed(10**6))
    assert 2 in broker.disk.files
    assert broker.peer.drain(broker.queues["q"]) == [b"keep" * 100]
    broker.peer.drain(broker.queues["s"])
    broker.disk.settle(broker.engine)
    broker.restart()
    assert broker.bodies("q") == []
