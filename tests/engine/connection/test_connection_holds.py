"""Answers that wait for the disk, and the input that waits behind them."""

from __future__ import annotations

import struct

import pytest
from tests.engine import frames
from tests.engine.disk_fake import Disk
from tests.engine.frames import PERSISTENT, ack, frame, method, nack, publish
from tests.engine.session_fake import Peer, make_engine
from tests.engine.slices import ended

FLOW = method(1, frames.CHANNEL, 20, b"\x01")
FLOW_OK = struct.pack(">HHB", frames.CHANNEL, 21, 1)
RECOVER = method(1, frames.BASIC, 110, b"\x01")
GET = method(1, frames.BASIC, 70, b"\x00\x00\x01q\x01")


@pytest.fixture
def engine():
    return make_engine(durable_segment_bytes=4096)


@pytest.fixture
def queue(engine):
    return engine.queue(1, "q", True)


@pytest.fixture
def peer(engine, queue):
    peer = Peer(engine, {"q": queue})
    peer.session.on[frames.CHANNEL, 20] = lambda channel: peer.connection.send(channel, FLOW_OK)
    return peer


def answers(peer: Peer) -> int:
    return sum(
        isinstance(event, frames.Method) and (event.class_id, event.method_id) == (20, 21)
        for event in peer.events()
    )


def test_an_answer_waits_and_input_waits_behind_it(engine, disk, queue, peer):
    peer.connection.hold(engine.logs.note_change())
    peer.connection.send(1, FLOW_OK)
    assert not peer.connection.reading
    peer.feed(publish(1, "q", b"a") + FLOW)
    assert answers(peer) == 0
    assert queue.ready_count == 0
    disk.begin(engine)
    assert answers(peer) == 0
    disk.complete(engine)
    assert peer.connection in engine.connections.take_touched()
    assert peer.connection.reading
    assert answers(peer) == 2
    assert queue.ready_count == 1


def test_what_is_synced_needs_no_waiting(engine, disk, peer):
    generation = engine.logs.note_change()
    disk.sync(engine)
    for synced in (0, generation):
        peer.connection.hold(synced)
        assert peer.connection.reading
    peer.feed(FLOW)
    assert answers(peer) == 1


def test_a_hold_is_for_the_newest_generation(engine, disk, peer):
    first = engine.logs.note_change()
    disk.begin(engine)
    second = engine.logs.note_change()
    peer.connection.hold(second)
    peer.connection.hold(first)
    peer.connection.send(1, FLOW_OK)
    disk.complete(engine)
    assert answers(peer) == 0
    disk.sync(engine)
    assert answers(peer) == 1


def test_an_order_to_wait_is_obeyed_within_one_read(engine, disk, peer):
    held = []

    def hold(channel: int) -> None:
        held.append(channel)
        peer.connection.hold(engine.logs.note_change())
        peer.connection.send(channel, FLOW_OK)

    peer.session.on[frames.CHANNEL, 20] = hold
    peer.feed(FLOW * 3)
    for count in (1, 2, 3):
        assert len(held) == count
        assert answers(peer) == 0
        disk.sync(engine)
        assert answers(peer) == 1
    assert engine.logs.synced == 3


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_input_that_came_in_pieces_meanwhile_is_not_mixed_up(engine, disk, queue, peer, step):
    other = Peer(engine, {"q": queue})
    peer.connection.hold(engine.logs.note_change())
    stream = b"".join(publish(1, "q", b"%d" % number) for number in range(20)) + FLOW[:-3]
    for at in range(0, len(stream), step):
        peer.feed(stream[at : at + step])
        other.feed(frame(frames.HEARTBEAT, 0, b""))
    disk.sync(engine)
    peer.feed(FLOW[-3:])
    assert answers(peer) == 1
    assert other.drain(queue) == [b"%d" % number for number in range(20)]


def test_one_that_is_lost_is_not_waited_for(engine, disk, peer):
    peer.connection.hold(engine.logs.note_change())
    peer.connection.send(1, FLOW_OK)
    peer.feed(FLOW)
    peer.connection.lost()
    disk.sync(engine)
    assert peer.take() == b""
    assert peer.session.methods == []
    peer.connection.hold(engine.logs.note_change())
    disk.sync(engine)


def test_input_is_not_kept_without_bound(engine, peer):
    peer.connection.hold(engine.logs.note_change())
    with pytest.raises(ValueError, match="held"):
        peer.feed(bytes(2**20))


def test_a_defect_behind_a_hold_leaves_the_others_alone(engine, disk, peer, queue):
    def fail(channel: int) -> None:
        raise RuntimeError("a mistake of ours")

    broken, other = Peer(engine, {"q": queue}), Peer(engine, {"q": queue})
    broken.session.on[frames.CHANNEL, 20] = fail
    generation = engine.logs.note_change()
    for each in (peer, broken, other):
        each.connection.hold(generation)
        each.feed(FLOW)
    disk.sync(engine)
    engine.run()
    assert [len(each.session.methods) for each in (peer, broken, other)] == [1, 1, 1]
    assert len(broken.session.defects) == 1
    assert answers(peer) == 1


# ------------------------------------------------------------------ settling


def deliver(peer: Peer, disk: Disk, count: int = 2) -> None:
    peer.feed(publish(1, "q", b"x", raw=PERSISTENT) * count)
    peer.engine.run()
    disk.sync(peer.engine)
    for _ in range(count):
        peer.channel.get(peer.queues["q"], False)
    peer.take()


def test_an_answer_after_an_ack_says_that_the_ack_is_safe(engine, disk, queue, peer):
    deliver(peer, disk)
    peer.feed(ack(1, 1) + FLOW)
    assert answers(peer) == 0
    assert peer.session.methods == []
    assert queue.unacked_count == 1
    disk.sync(engine)
    assert answers(peer) == 1
    peer.feed(FLOW)
    assert answers(peer) == 1


def test_an_ack_by_itself_keeps_nobody_waiting(engine, disk, queue, peer):
    deliver(peer, disk)
    peer.feed(ack(1, 1) + publish(1, "q", b"more") + ack(1, 2) + GET)
    assert queue.ready_count == 1
    assert queue.unacked_count == 0
    assert len(peer.session.methods) == 1
    assert peer.connection.reading


def test_an_ack_of_what_does_not_last_keeps_nobody_waiting(engine, disk, peer):
    peer.queues["q"] = passing = engine.queue(0, "q", False)
    deliver(peer, disk)
    peer.feed(ack(1, 1) + FLOW)
    assert answers(peer) == 1
    assert passing.unacked_count == 1


@pytest.mark.parametrize("what", ["get", "purge"])
def test_an_answer_after_a_get_without_ack_or_a_purge_says_that_it_lasts(
    engine, disk, queue, peer, what
):
    peer.session.on[frames.BASIC, 70] = lambda channel: peer.channel.get(queue, True)
    peer.session.on[50, 30] = lambda channel: ended(queue.purging())
    peer.feed(publish(1, "q", b"x", raw=PERSISTENT))
    disk.sync(engine)
    peer.feed(GET if what == "get" else method(1, 50, 30, b"\x00\x00\x01q\x00"))
    assert queue.ready_count == 0
    peer.take()
    peer.feed(FLOW)
    assert answers(peer) == 0
    disk.sync(engine)
    assert answers(peer) == 1


def test_a_requeue_keeps_nobody_waiting(engine, disk, queue, peer):
    deliver(peer, disk)
    peer.feed(frames.nack(1, 0, multiple=True, requeue=True) + FLOW)
    assert answers(peer) == 1
    assert queue.ready_count == 2


# ------------------------------------------------------------------ who is read


def test_publishers_are_read_up_to_their_next_publish_while_they_are_blocked(
    engine, disk, queue, peer
):
    peer.channel.consume(queue, "c", False, 0, 0)
    peer.feed(publish(1, "q", b"x"))
    engine.run()
    engine.connections.publishers_blocked = True
    assert peer.connection.reading
    peer.feed(frames.ack(1, 1) + publish(1, "q", b"y") * 2)
    assert peer.channel.acked == 1
    assert (peer.connection.blocked, peer.connection.reading, peer.session.blocks) == (
        True,
        False,
        1,
    )
    peer.connection.unblock()
    assert peer.connection.blocked, "while the alarm is on"
    engine.run()
    assert engine.queues.published == 1
    engine.connections.publishers_blocked = False
    engine.run()
    assert engine.queues.published == 1, "it is not told yet"
    peer.connection.unblock()
    engine.run()
    assert not peer.session.faults
    assert engine.queues.published == 3
    assert peer.connection.reading
    assert not peer.session.faults


def test_a_message_that_has_begun_ends_after_the_alarm(engine, queue, peer):
    whole = publish(1, "q", b"x" * 10, step=4)
    head = len(whole) - len(frames.bodies(1, b"x" * 10, 4))
    for end in (head, head + 12, len(whole) - 1):
        engine.connections.publishers_blocked = False
        peer.connection.unblock()
        engine.run()
        peer.feed(whole[:end])
        before = queue.ready_count
        engine.connections.publishers_blocked = True
        peer.feed(whole[end:])
        assert peer.connection.blocked
        engine.run()
        assert queue.ready_count == before
    engine.connections.publishers_blocked = False
    peer.connection.unblock()
    engine.run()
    assert queue.ready_count == 3


def test_what_is_nobodys_is_not_blocked(engine, queue, peer):
    peer.connection.internal = True
    engine.connections.publishers_blocked = True
    peer.feed(publish(1, "q", b"x") + publish(1, "q", b"y" * 10, step=4))
    assert queue.ready_count == 2
    assert peer.session.blocks == 0


def test_who_does_not_read_answers_is_not_read(engine, peer):
    while peer.connection.reading:
        peer.connection.send_content(
            1, b"\x00\x3c\x00\x32\x01\x38\x00\x00\x00", b"\x00\x00", bytes(10_000)
        )
    assert 2**20 <= peer.connection.output.pending_bytes < 2**20 + 20_000
    peer.take()
    assert peer.connection.reading


def test_publishers_to_a_queue_with_a_backlog_are_read_less(engine, peer):
    passing = engine.queue(0, "q", False)
    peer.queues["q"] = passing
    usual = len(peer.connection.read_view())
    peer.connection.received(0)
    slow = Peer(engine, {"q": passing})
    slow.channel.consume(passing, "c", False, 0, 1)
    sizes = []
    for _ in range(2):
        peer.feed(publish(1, "q") * 4000)
        view = peer.connection.read_view()
        sizes.append(len(view))
        view.release()
        peer.connection.received(0)
    assert usual > sizes[0] > sizes[1] > 0


def test_little_is_read_at_a_time_while_an_alarm_is_on(engine, peer):
    """What comes behind a publish is kept until the alarm is over."""
    sizes = []
    for alarm in (False, True, False):
        engine.connections.publishers_blocked = alarm
        view = peer.connection.read_view()
        sizes.append(len(view))
        view.release()
        peer.connection.received(0)
    assert sizes == [64 * 1024, 4 * 1024, 64 * 1024]


@pytest.mark.parametrize("transactional", [False, True])
def test_an_answer_waits_for_the_end_of_what_became_a_dead_letter(
    engine, disk, queue, peer, transactional
):
    """In a log of its own it is synced first, and only then is the end of its original noted."""
    dlq = engine.stream(2, "dlq")
    queue.dead_letters = lambda reason, exchange, key, raw, body: engine.publish(
        [dlq], exchange, key, raw, body
    )
    peer.feed(publish(1, "q", b"x", raw=PERSISTENT))
    disk.sync(engine)
    peer.get(queue, no_ack=False)
    if transactional:
        peer.channels[1].select_tx()
    peer.feed(nack(1, 1, requeue=False))
    if transactional:
        peer.connection.hold(peer.channels[1].commit())
    peer.feed(FLOW)
    found = []
    for _ in range(2):
        assert engine.logs.awaited  # noqa: PGH005 - a property, not a mock
        disk.sync(engine)
        found.append(answers(peer))
    assert found == [0, 1]


def test_an_answer_waits_for_dead_letters_of_turns_to_come(engine, disk, queue, peer):
    dlq = engine.queue(2, "dlq", True)
    queue.dead_letters = lambda reason, exchange, key, raw, body: engine.publish(
        [dlq], exchange, key, raw, body
    )
    peer.feed(publish(1, "q", b"x", raw=PERSISTENT) * 1300)
    disk.sync(engine)
    peer.channels[1].consume(queue, "c", False, 0, 0)
    assert len(peer.deliveries()) == 1300
    peer.feed(nack(1, 0, multiple=True, requeue=False) + FLOW)
    assert dlq.ready_count < 700
    while engine.busy:
        assert answers(peer) == 0
    assert dlq.ready_count == 1300
    assert not peer.connection.reading
    assert answers(peer) == 0
    # Each letter and the end of its original are one transaction, so one sync has all of them.
    disk.sync(engine)
    assert answers(peer) == 1
    assert peer.connection.reading
