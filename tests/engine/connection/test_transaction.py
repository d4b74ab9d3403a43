"""Transactions: nothing before commit, everything with it, nothing after rollback.

What a crash leaves of one is in test_replay.py and in tests/model/test_replay_model.py.
"""

from __future__ import annotations

import pytest
from tests.engine.disk_fake import recover
from tests.engine.frames import PERSISTENT, Returned, ack, nack, properties, publish, table
from tests.engine.session_fake import Peer

from leporid.engine.engine import Engine
from leporid.engine.queue.queue import Queue


@pytest.fixture
def channel(peer):
    peer.channel.select_tx()
    assert peer.channel.transactional
    return peer.channel


@pytest.fixture
def durable(engine, peer):
    peer.queues["d"] = queue = engine.queue(1, "d", True)
    return queue


def test_publishes_wait_for_commit(queue, peer, channel):
    peer.feed(publish(1, "q", b"a") + publish(1, "gone", b"back", mandatory=True))
    peer.feed(publish(2, "q", b"another channel's"))
    assert peer.events() == []
    assert queue.ready_count == 1
    assert channel.commit() == 0
    (returned,) = peer.events()
    assert isinstance(returned, Returned)
    assert returned.body == b"back"
    assert peer.drain(queue) == [b"another channel's", b"a"]
    assert channel.commit() == 0


def test_rollback_forgets_publishes(queue, peer, channel):
    peer.feed(publish(1, "q", b"a") + publish(1, "gone", b"", mandatory=True))
    channel.rollback()
    channel.commit()
    assert peer.events() == []
    assert queue.ready_count == 0


def test_settles_wait_for_commit(engine, queue, peer, channel):
    peer.feed(publish(2, "q") * 4)
    consumer = channel.consume(queue, "c", False, 0, 4)
    assert len(peer.deliveries()) == 4
    peer.feed(ack(1, 2, multiple=True) + nack(1, 3, requeue=False) + nack(1, 4))
    assert (queue.ready_count, queue.unacked_count, consumer.unacked_count) == (0, 4, 4)
    channel.commit()
    assert (queue.ready_count, queue.unacked_count, consumer.unacked_count) == (1, 0, 0)
    assert engine.queues.acked == 3
    assert [each.redelivered for each in peer.deliveries()] == [True]


def test_rollback_makes_what_was_settled_unsettled(queue, peer, channel):
    peer.feed(publish(2, "q") * 6)
    for _ in range(6):
        assert channel.get(queue, False)
    peer.feed(ack(1, 2) + nack(1, 4) + ack(1, 6))
    channel.rollback()
    assert channel.unacked_count == 6
    peer.feed(ack(1, 6, multiple=True))
    channel.commit()
    assert peer.faults == []
    assert queue.unacked_count == 0


def test_settling_twice_in_one_transaction_is_a_fault(queue, peer, channel):
    peer.feed(publish(2, "q"))
    assert channel.get(queue, False)
    peer.feed(ack(1, 1) + ack(1, 1))
    assert peer.faults == [(1, 406)]
    assert (queue.ready_count, queue.unacked_count) == (1, 0)


def test_closing_is_a_rollback(engine, queue, peer, channel):
    peer.feed(publish(2, "q"))
    assert channel.get(queue, False)
    peer.feed(ack(1, 1) + publish(1, "q", b"never"))
    peer.connection.close_channel(1)
    assert queue.ready_count == 1


def test_a_queue_that_is_deleted_before_commit_gets_nothing(engine, disk, queue, peer, channel):
    peer.queues["d"] = durable = engine.queue(1, "d", True)
    peer.feed(publish(1, "d", b"x", raw=PERSISTENT) + publish(1, "q", b"y"))
    durable.retire()
    channel.commit()
    assert (durable.ready_count, queue.ready_count) == (0, 1)
    disk.sync(engine)
    assert sum(segment.live for segment in engine.logs.segments) == 0


def test_what_lasts_is_to_be_waited_for(engine, durable, queue, peer, channel):
    peer.feed(publish(1, "d", b"x", raw=PERSISTENT))
    assert channel.commit() == engine.logs.generation
    peer.feed(publish(1, "q", b"x", raw=PERSISTENT))
    assert channel.commit() == 0
    assert channel.get(durable, False)
    peer.feed(ack(1, 1))
    assert channel.commit() == engine.logs.generation
    assert (durable.unacked_count, queue.ready_count) == (0, 1)


def test_a_rejected_message_is_a_dead_letter_from_commit_on(engine, queue, peer, channel):
    dead_letters = []
    queue.dead_letters = lambda *message: dead_letters.append(message)
    peer.feed(publish(2, "q", b"x"))
    assert channel.get(queue, False)
    peer.feed(nack(1, 1, requeue=False))
    assert dead_letters == []
    channel.commit()
    assert dead_letters == [("rejected", "", "q", b"\x00\x00", b"x")]
    assert queue.unacked_count == 0


def test_what_a_commit_brings_about_does_not_split_it(engine, disk, peer, channel):
    """Dead letters and deliveries append facts of their own, of any size."""
    queues = [engine.queue(number, name, True) for number, name in enumerate("dgf", 1)]
    durable, dlq, full = queues
    peer.queues.update(d=durable, f=full)
    full.set_limits(max_length=1, overflow="reject-publish-dlx")
    big = properties(delivery_mode=2, headers=table(x=b"x\x00\x00\x03\xe8" + bytes(1000)))

    def dead_letter(reason: str, exchange: str, key: str, raw: bytes, body: bytes) -> None:
        engine.publish([dlq], exchange, key, big, body)

    durable.dead_letters = full.dead_letters = dead_letter
    peer.feed(publish(2, "d", b"old", raw=PERSISTENT) * 30)
    peer.feed(publish(2, "f", b"old", raw=PERSISTENT))
    disk.sync(engine)
    peer.channels[2].consume(full, "c", True, 0, 0)
    for _ in range(30):
        assert channel.get(durable, False)
    peer.feed(nack(1, 0, multiple=True, requeue=False))
    peer.feed(publish(1, "f", b"new" * 100, raw=PERSISTENT) * 10)
    peer.feed(publish(1, "d", b"new", raw=PERSISTENT) * 10)
    channel.commit()
    assert (durable.ready_count, durable.unacked_count) == (10, 0)
    dead_lettered, kept = dlq.ready_count, full.ready_count
    assert dead_lettered >= 30
    disk.sync(engine)
    disk.sync(engine)
    found: dict[str, Queue] = {}

    def declare(again) -> None:
        for number, name in enumerate("dgf", 1):
            found[name] = again.queue(number, name, True)

    _, reports, _ = recover(disk.copy(), declare, durable_segment_bytes=4096)
    assert sum(report.undone for report in reports) == 0
    assert [found[name].ready_count for name in "dgf"] == [10, dead_lettered, kept]


@pytest.mark.parametrize("drained", [False, True])
def test_what_a_queue_refuses_is_left_out_and_the_rest_is_whole(
    engine, disk, peer, channel, drained
):
    """A queue is full, or is emptied by who takes without acknowledging, in between; also in a
    segment that the transaction fills."""
    queues = [engine.queue(number, name, True) for number, name in enumerate("df", 1)]
    durable, full = queues
    peer.queues.update(d=durable, f=full)
    full.set_limits(max_length=2, overflow="reject-publish")
    peer.feed(publish(2, "d", b"acked", raw=PERSISTENT))
    peer.feed(publish(2, "f", b"there", raw=PERSISTENT))
    disk.sync(engine)
    if drained:
        peer.channels[2].consume(full, "c", True, 0, 0)
    assert channel.get(durable, False)
    peer.feed(ack(1, 1))
    for _ in range(12):
        peer.feed(publish(1, "f", b"new" * 40, raw=PERSISTENT))
        peer.feed(publish(1, "d", b"new" * 40, raw=PERSISTENT))
    assert channel.commit() == engine.logs.generation
    assert channel.tx_refused == (not drained)
    kept = [12, full.ready_count if drained else 2]
    assert [queue.ready_count for queue in queues] == kept
    assert disk.begin(engine)
    total = sum(len(data) for *_, data in disk.job[1])
    for written in (*range(0, total, 41), total):
        found: list[Queue] = []

        def declare(again: Engine, found: list[Queue] = found) -> None:
            found.extend(again.queue(number, name, True) for number, name in enumerate("df", 1))

        recover(disk.crashed(written), declare, durable_segment_bytes=4096)
        left = [queue.ready_count for queue in found]
        assert left[0] in (1, 12)
        assert left == ([1, left[1]] if left[0] == 1 else kept)
    assert left == kept
    channel.commit()
    assert not channel.tx_refused


def test_publishes_come_before_what_goes_back(queue, peer, channel):
    queue.set_limits(max_length=1, overflow="reject-publish")
    peer.feed(publish(2, "q", b"old"))
    assert channel.get(queue, False)
    peer.feed(nack(1, 1) + publish(1, "q", b"new"))
    channel.commit()
    assert not channel.tx_refused
    assert peer.drain(queue) == [b"old", b"new"]


def test_many_transactions_in_one_generation(engine, disk, durable, peer, channel):
    for number in range(50):
        peer.feed(publish(1, "d", b"%d" % number, raw=PERSISTENT) * 2)
        generation = channel.commit()
    assert generation == engine.logs.generation == 1
    disk.sync(engine)
    assert engine.logs.synced == 1
    assert durable.ready_count == 100


def test_a_dead_letter_of_the_same_turn_does_not_come_into_a_transaction(engine, disk, peer):
    """A consumer that waits for credit gets it before a full queue refuses; more may follow."""
    queues: dict[str, Queue] = {}

    def declare(engine):
        for number, name in enumerate(("full", "kept", "short", "letters"), 1):
            queues[name] = engine.queue(number, name, True)
        queues["full"].set_limits(max_length=1, overflow="reject-publish")
        queues["short"].set_limits(max_length=2)
        letters = queues["letters"]
        queues["short"].dead_letters = lambda reason, exchange, key, raw, body: engine.publish(
            [letters], exchange, key, raw, body
        )

    declare(engine)
    peer.queues |= queues
    consuming = Peer(engine, queues)
    consuming.channel.prefetch_global = 1
    consuming.channel.consume(queues["short"], "c", False, 0, 0)
    peer.feed(publish(2, "full", raw=PERSISTENT), publish(2, "short", raw=PERSISTENT) * 3)
    engine.run()
    disk.sync(engine)
    peer.channel.select_tx()
    for name in ("kept", "full", "kept"):
        peer.feed(publish(1, name, b"whole", raw=PERSISTENT))
    peer.feed(publish(2, "short", raw=PERSISTENT) * 5)
    consuming.feed(ack(1, 1))
    assert peer.channel.commit()
    disk.sync(engine)
    again, _, _ = recover(disk, declare)
    assert Peer(again).drain(queues["kept"]) == [b"whole", b"whole"]


# ------------------------------------------------------------------ bounds


def test_a_transaction_has_so_many_publishes_and_settles_and_no_more(engine, queue, peer, channel):
    engine.connections.transaction_entries_max = 4
    peer.feed(publish(2, "q") * 3)
    channel.consume(queue, "c", False, 0, 3)
    assert len(peer.deliveries()) == 3
    peer.feed(publish(1, "q", b"x") * 2)
    peer.feed(ack(1, 3, multiple=True))
    assert peer.faults == [(1, 406)]
    assert "limits.transaction_entries_max" in peer.session.faults[0][1].text
    # The channel closes: what was published is forgotten, what was delivered is back.
    assert (queue.ready_count, queue.unacked_count) == (3, 0)


def test_a_publish_to_many_queues_counts_as_more_than_one_entry(engine, peer, channel):
    queues = [engine.queue(0, f"q{number}", False) for number in range(40)]
    peer.session.caches["f"] = engine.route_cache("f", lambda key, properties: queues, True)
    engine.connections.transaction_entries_max = 33
    for _ in range(2):
        peer.feed(publish(1, "", exchange="f") * 3)
        channel.commit()
    assert [queue.ready_count for queue in queues] == [6] * 40
    peer.feed(publish(1, "", exchange="f") * 4)
    assert peer.faults == [(1, 406)]
    assert "33" in peer.session.faults[0][1].text
    assert [queue.ready_count for queue in queues] == [6] * 40


def test_a_publish_to_many_streams_counts_each(engine, disk, peer, channel):
    streams = [engine.stream(number, f"s{number}") for number in range(1, 5)]
    peer.session.caches["f"] = engine.route_cache("f", lambda key, properties: streams, True)
    engine.connections.transaction_entries_max = 10
    peer.feed(publish(1, "", exchange="f") * 2)
    assert peer.faults == []
    peer.feed(publish(1, "", exchange="f"))
    assert peer.faults == [(1, 406)]


def test_a_transaction_is_charged_to_its_connection_until_it_ends(peer, channel):
    account = peer.connection.account
    peer.feed(publish(1, "q", b"x" * 1000))
    assert account.bytes > 1000
    channel.commit()
    assert account.bytes == 0
    peer.feed(publish(1, "q", b"x" * 1000))
    channel.rollback()
    assert account.bytes == 0
    peer.feed(publish(1, "q", b"x" * 1000))
    peer.connection.close_channel(1)
    assert account.bytes == 0


def test_a_transaction_ends_at_the_share_of_its_connection(peer, channel):
    peer.connection.account.limit = 3000
    peer.feed(publish(1, "q", b"x" * 1000) * 3)
    assert peer.faults == [(1, 506)]
    assert "may keep 3000" in peer.session.faults[0][1].text
    assert peer.connection.account.bytes == 0
