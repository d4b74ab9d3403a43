"""Cleaning: the log stays in proportion to what is in it, and comes to rest."""

from __future__ import annotations

from random import Random

import pytest
from tests.engine.disk_fake import Disk, recover
from tests.engine.frames import PERSISTENT, ack, publish
from tests.engine.session_fake import Peer, make_engine
from tests.engine.slices import SOME, cut_often, ended, steps_of

from leporid.engine.queue.browse import Browse
from leporid.engine.queue.queue import Queue

SEGMENT_BYTES = 4096


@pytest.fixture
def durable(engine, peer):
    peer.queues["d"] = queue = engine.queue(1, "d", True)
    peer.queues["e"] = engine.queue(2, "e", True)
    return queue


def send(peer: Peer, name: str, *sizes: int) -> None:
    for size in sizes:
        peer.feed(publish(2, name, b"x" * size, raw=PERSISTENT))


def turn(engine, disk: Disk) -> None:
    engine.clock.now_ms += 100
    engine.run()
    disk.sync(engine)


def bytes_of(disk: Disk) -> int:
    return sum(len(file) for file in disk.files.values())


def counts_after_a_crash(disk: Disk) -> tuple[int, int]:
    queues: list[Queue] = []

    def declare(engine) -> None:
        queues.extend(engine.queue(number, name, True) for number, name in enumerate("de", 1))

    recover(disk.copy(), declare, durable_segment_bytes=SEGMENT_BYTES)
    return queues[0].ready_count, queues[1].ready_count


def test_what_is_all_settled_goes(engine, disk, durable, peer):
    send(peer, "d", *[1000] * 30)
    turn(engine, disk)
    assert len(disk.files) == 10
    ended(durable.purging())
    disk.settle(engine)
    assert len(disk.files) <= 2
    assert len(engine.logs.segments) == len(disk.files)


def test_deletion_comes_after_the_facts_that_allow_it(engine, disk, durable, peer):
    send(peer, "d", *[1000] * 12)
    turn(engine, disk)
    ended(durable.purging())
    engine.clock.now_ms += 100
    assert disk.begin(engine)
    assert disk.job is not None
    assert disk.job[2] == []
    disk.complete(engine)
    assert disk.begin(engine)
    assert disk.job[2] == [1, 2, 3]


def test_steady_traffic_needs_a_bounded_log(engine, disk, durable, peer):
    send(peer, "e", *[100] * 20)
    sizes = []
    for number in range(300):
        send(peer, "d", *[200] * 10)
        assert len(peer.drain(durable)) == 10
        turn(engine, disk)
        if number > 50:
            sizes.append(bytes_of(disk))
    assert max(sizes) <= 20 * SEGMENT_BYTES
    assert engine.logs.durable.bytes <= 20 * SEGMENT_BYTES
    assert counts_after_a_crash(disk) == (0, 20)


@pytest.mark.parametrize("keep", [2, 3, 5, 20])
def test_a_log_of_mostly_dead_messages_is_copied_together(engine, disk, durable, peer, keep):
    send(peer, "d", *[300] * 600)
    turn(engine, disk)
    channel = peer.channel
    for _ in range(600):
        assert channel.get(durable, False)
    peer.take()
    for tag in range(1, 601):
        if tag % keep:
            peer.feed(ack(1, tag))
    disk.settle(engine)
    live = 600 // keep * 400
    assert bytes_of(disk) <= 3 * live + 8 * SEGMENT_BYTES
    assert counts_after_a_crash(disk) == (600 // keep, 0)
    peer.connection.close_channel(1)
    assert [each.number for each in engine.logs.segments] == sorted(disk.files)


def test_small_messages_that_stay_keep_no_large_ones(engine, disk, durable, peer):
    """Of the messages of a segment six in seven stay, and of its bytes a sixth."""
    for _ in range(100):
        send(peer, "d", *[0] * 6)
        send(peer, "e", 3000)
    turn(engine, disk)
    assert bytes_of(disk) > 300_000
    ended(peer.queues["e"].purging())
    disk.settle(engine)
    live = 600 * 100
    assert bytes_of(disk) <= 3 * live + 8 * SEGMENT_BYTES
    assert counts_after_a_crash(disk) == (600, 0)


@pytest.mark.parametrize("seed", range(4))
def test_a_log_of_tiny_messages_settled_in_any_order_comes_to_rest(seed):
    """Facts are then as large as messages, and are copied with them."""
    random = Random(seed)
    engine = make_engine(durable_segment_bytes=SEGMENT_BYTES)
    disk = Disk()
    disk.attach(engine)
    queues = {name: engine.queue(number, name, True) for number, name in enumerate("de", 1)}
    peer = Peer(engine, queues, channels=(1, 2))
    send(peer, "d", *[0] * 1500)
    send(peer, "e", *[0] * 300)
    disk.settle(engine)
    tags = {}
    for tag in range(1, 1501):
        assert peer.channel.get(queues["d"], False)
        tags[tag] = tag
    order = list(tags)
    random.shuffle(order)
    for at, tag in enumerate(order[: random.choice([500, 745, 1000, 1400])]):
        peer.feed(ack(1, tag))
        if at % 3 == 0:
            engine.run()  # a fact of its own
        if at % 50 == 0:
            turn(engine, disk)
    left = queues["d"].unacked_count
    disk.settle(engine)
    assert counts_after_a_crash(disk) == (left, 300)


def large_segment(engine, disk: Disk, peer: Peer, count: int) -> None:
    """One transaction, so one segment, of which every second message was settled."""
    peer.channels[2].select_tx()
    send(peer, "d", *[300] * count)
    peer.channels[2].commit()
    turn(engine, disk)
    for _ in range(count):
        assert peer.channel.get(peer.queues["d"], False)
    peer.take()
    peer.feed(*(ack(1, tag) for tag in range(1, count, 2)))
    engine.run()
    assert len(disk.files) == 1


def moved(engine) -> int:
    """Messages of newer segments."""
    return sum(segment.live for segment in engine.logs.segments if segment.number > 1)


def test_a_segment_is_copied_in_steps(engine, disk, durable, peer):
    large_segment(engine, disk, peer, 4000)
    cut_often(engine)
    turn(engine, disk)
    assert 0 < moved(engine) < SOME
    assert max(steps_of(engine, lambda: moved(engine))) < SOME
    disk.settle(engine)
    assert bytes_of(disk) < 3 * 2000 * 400
    assert counts_after_a_crash(disk) == (2000, 0)


def test_entries_are_settled_while_their_segment_is_copied(engine, disk, durable, peer):
    """Some whose copies exist, and some that are still to be copied; with a crash after each."""
    large_segment(engine, disk, peer, 4000)
    cut_often(engine)
    turn(engine, disk)
    left = 2000
    for tag in range(2, 4000, 400):
        peer.feed(ack(1, tag), ack(1, 4002 - tag))
        left -= 2
        turn(engine, disk)
        assert counts_after_a_crash(disk) == (left, 0)
    disk.settle(engine)
    assert counts_after_a_crash(disk) == (left, 0)
    assert durable.unacked_count == left


def test_a_segment_that_is_copied_may_be_browsed_meanwhile(engine, disk, durable, peer):
    large_segment(engine, disk, peer, 4000)
    peer.connection.close_channel(1)
    cut_often(engine)
    turn(engine, disk)
    browse = Browse(durable, first=3000)
    window = browse.window(10, 10_000)
    engine.clock.monotonic_ns = None
    for _ in range(5):
        turn(engine, disk)
    assert not engine.busy
    assert 1 in disk.files
    window.close()
    disk.settle(engine)
    assert 1 not in disk.files
    assert counts_after_a_crash(disk) == (2000, 0)


VAST = 7 * 2**20 + 1


@pytest.mark.parametrize("settled", [False, True])
def test_a_vast_message_is_copied_in_steps(engine, disk, durable, peer, settled):
    """It is in a segment of several, as of a transaction; and may be settled meanwhile."""
    peer.channels[2].select_tx()
    bodies = [Random(number).randbytes(VAST) for number in range(3)]
    peer.feed(*(publish(2, "d", body, raw=PERSISTENT, step=100_000) for body in bodies))
    peer.channels[2].commit()
    turn(engine, disk)
    for _ in bodies:
        assert peer.channel.get(durable, False)
    peer.take()
    peer.feed(ack(1, 1), ack(1, 2))
    engine.run()
    cut_often(engine)
    turn(engine, disk)
    taken = 0
    while not moved(engine) and taken < 100:
        taken += 1
        engine.run()
        if settled and taken == 3:
            peer.feed(ack(1, 3))
            break
    assert settled or taken >= VAST // 2**21
    engine.clock.monotonic_ns = None
    disk.settle(engine)
    assert counts_after_a_crash(disk) == (0 if settled else 1, 0)
    if not settled:
        assert bytes_of(disk) < 2 * VAST
        peer.connection.close_channel(1)
        other = Peer(engine, {"d": durable})
        assert other.drain(durable) == bodies[2:]


def test_a_small_message_after_a_large_one_keeps_no_large_segment(engine, disk, durable, peer):
    """A segment that is the memory of one message has room behind it, for its own facts alone."""
    for _ in range(4):
        peer.feed(publish(1, "e", bytes(5 * 2**20), raw=PERSISTENT, step=100_000))
        send(peer, "d", 5)
        turn(engine, disk)
    assert bytes_of(disk) > 20 * 2**20
    ended(peer.queues["e"].purging())
    disk.settle(engine)
    assert bytes_of(disk) < 2**20
    assert counts_after_a_crash(disk) == (4, 0)


def test_a_settle_after_a_large_message_keeps_no_large_segment(engine, disk, durable, peer):
    """It would have to stay as long as the segment of what was settled."""
    send(peer, "d", *[0] * 20)
    turn(engine, disk)
    for tag in range(1, 5):
        peer.feed(publish(1, "e", bytes(5 * 2**20), raw=PERSISTENT, step=100_000))
        assert peer.channel.get(durable, False)
        peer.take()
        peer.feed(ack(1, tag))
        turn(engine, disk)
    assert bytes_of(disk) > 20 * 2**20
    ended(peer.queues["e"].purging())
    disk.settle(engine)
    assert bytes_of(disk) < 2**20
    assert counts_after_a_crash(disk) == (16, 0)


def test_a_deleted_queue_frees_its_segments(engine, disk, durable, peer):
    send(peer, "d", *[1000] * 30)
    send(peer, "e", 10)
    turn(engine, disk)
    durable.retire()
    engine.logs.note_change()
    disk.settle(engine)
    assert len(disk.files) == 1
    assert counts_after_a_crash(disk)[1] == 1


def test_a_message_of_two_queues_is_kept_for_the_one_that_has_it(engine, disk, durable, peer):
    both = [durable, peer.queues["e"]]
    peer.session.caches["x"] = engine.route_cache("x", lambda key, raw: both, True)
    for _ in range(40):
        peer.feed(publish(2, "k", b"x" * 500, raw=PERSISTENT, exchange="x"))
    turn(engine, disk)
    ended(durable.purging())
    for _ in range(35):
        peer.get(peer.queues["e"])
    disk.settle(engine)
    assert counts_after_a_crash(disk) == (0, 5)
    assert bytes_of(disk) < 10 * SEGMENT_BYTES


def test_copies_keep_their_content_and_place(engine, disk, durable, peer):
    for number in range(200):
        peer.feed(publish(2, "d", b"%d;" % number + bytes(300), raw=PERSISTENT))
        peer.feed(publish(2, "e", b"x" * 300, raw=PERSISTENT) * 3)
    turn(engine, disk)
    before = bytes_of(disk)
    ended(peer.queues["e"].purging())
    disk.settle(engine)
    assert bytes_of(disk) < before * 2 // 3
    assert disk.files.keys() - set(range(1, 80))
    found = [int(body.partition(b";")[0]) for body in peer.drain(durable)]
    assert found == list(range(200))


def test_cleaning_waits_for_its_time(engine, disk, durable, peer):
    send(peer, "d", *[1000] * 12)
    disk.sync(engine)
    before = len(disk.files)
    ended(durable.purging())
    for _ in range(3):
        engine.logs.note_change()
        disk.sync(engine)
    assert len(disk.files) >= before
    engine.clock.now_ms += 100
    engine.logs.note_change()
    disk.sync(engine)
    disk.sync(engine)
    assert len(disk.files) < before


# ------------------------------------------------------------- the transient log


@pytest.mark.parametrize("seed", range(3))
def test_few_messages_do_not_keep_the_memory_of_many(seed):
    """One queue keeps a message in forty ready, two keep some unacked, of all that passes."""
    random = Random(seed)
    engine = make_engine(transient_segment_bytes=SEGMENT_BYTES)
    ready, *unacked = [engine.queue(0, name, False) for name in "rab"]
    peer, taker = Peer(engine), Peer(engine)
    kept: dict[str, list[bytes]] = {queue.name: [] for queue in (ready, *unacked)}
    for number in range(6000):
        body = b"%d " % number * random.randrange(1, 60)
        parked = random.randrange(40) == 0
        engine.publish([*unacked, ready] if parked else unacked, "x", "k", b"\0\0", body)
        if parked:
            kept["r"].append(body)
        for queue in unacked:
            got = taker.get(queue, no_ack=False)
            assert got is not None
            assert got.body == body
            if random.randrange(40):
                taker.feed(ack(1, got.tag))
            else:
                kept[queue.name].append(body)
        if number % 20 == 0:
            engine.clock.now_ms += 100
            engine.run()
    used = sum(len(body) for bodies in kept.values() for body in bodies)
    assert engine.logs.transient.bytes < 32 * SEGMENT_BYTES + 3 * used
    taker.connection.lost()
    for queue in (ready, *unacked):
        assert peer.drain(queue) == kept[queue.name]
    assert engine.logs.transient.bytes < 10 * SEGMENT_BYTES


def test_small_messages_that_stay_keep_no_memory_of_large_ones():
    engine = make_engine(transient_segment_bytes=SEGMENT_BYTES)
    kept, passing = engine.queue(0, "kept", False), engine.queue(0, "passing", False)
    peer = Peer(engine)
    for _ in range(400):
        engine.publish([kept], "", "k", b"\0\0", b"small")
        engine.publish([passing], "", "k", b"\0\0", bytes(3000))
        assert peer.drain(passing) == [bytes(3000)]
        engine.clock.now_ms += 100
        engine.run()
    assert engine.logs.transient.bytes < 32 * SEGMENT_BYTES + 3 * 400 * 100
    assert peer.drain(kept) == [b"small"] * 400
    assert engine.logs.transient.bytes < 10 * SEGMENT_BYTES


@pytest.mark.parametrize("taken", [0, 9])
def test_a_large_message_is_not_copied_again_and_again(taken):
    """Of ten queues that have it, some give it away, while small messages pass."""
    engine = make_engine(transient_segment_bytes=SEGMENT_BYTES)
    queues = [engine.queue(0, f"q{at}", False) for at in range(10)]
    passing = engine.queue(0, "passing", False)
    peer = Peer(engine)
    large = bytes(100 * SEGMENT_BYTES + 1)
    engine.publish(queues, "x", "k", b"\0\0", large)
    for queue in queues[:taken]:
        assert peer.drain(queue) == [large]
    before = engine.logs.transient.appended
    for _ in range(400):
        engine.publish([passing], "x", "k", b"\0\0", b"small")
        assert peer.drain(passing) == [b"small"]
        engine.clock.now_ms += 100
        engine.run()
    assert engine.logs.transient.appended - before == 400
    assert peer.drain(queues[-1]) == [large]


def test_one_message_does_not_keep_the_file_of_a_large_transaction(engine, disk, durable, peer):
    peer.channel.select_tx()
    for _ in range(100):
        peer.feed(publish(1, "d", b"x" * 1000, raw=PERSISTENT))
    peer.channel.commit()
    turn(engine, disk)
    assert bytes_of(disk) > 100_000  # its facts are in one segment
    for _ in range(99):
        assert peer.get(durable).body == b"x" * 1000
    disk.settle(engine)
    assert bytes_of(disk) < 5 * SEGMENT_BYTES
    assert counts_after_a_crash(disk) == (1, 0)
