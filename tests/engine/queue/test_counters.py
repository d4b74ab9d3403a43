"""Counters of deliveries: of a queue, and of all queues of its type."""

from __future__ import annotations

import pytest
from tests.engine.frames import ack, nack, publish

from leporid.engine.queue.counters import DeliveryCounts
from leporid.engine.queue.lease import Lease


def seen(counts: DeliveryCounts) -> dict[str, int]:
    names = ("delivered", "delivered_no_ack", "got", "got_no_ack", "get_empty", "redelivered")
    found = {name: getattr(counts, name) for name in (*names, "acked")}
    assert counts.total == sum(found[name] for name in names[:4])
    return {name: count for name, count in found.items() if count}


def test_each_way_of_delivery_is_counted(engine, queue, peer):
    queue.count_as("classic")
    peer.feed(publish(1, "q", b"x") * 6)
    consumer = peer.channel.consume(queue, "c", False, 0, 2)
    assert len(peer.deliveries()) == 2
    peer.channel.cancel(consumer)
    peer.feed(ack(1, 1) + nack(1, 2))
    assert seen(queue.counts) == {"delivered": 2, "acked": 1}
    peer.get(queue, no_ack=False)
    peer.get(queue, no_ack=True)
    assert seen(queue.counts) == {
        "delivered": 2, "acked": 1, "got": 1, "got_no_ack": 1, "redelivered": 1,
    }  # fmt: skip
    peer.channel.consume(queue, "c", True, 0, 0)
    assert len(peer.deliveries()) == 3
    assert not peer.channel.get(queue, True)
    assert seen(queue.counts) == {
        "delivered": 2, "delivered_no_ack": 3, "acked": 1,
        "got": 1, "got_no_ack": 1, "get_empty": 1, "redelivered": 1,
    }  # fmt: skip
    assert seen(engine.queues.counts_by_type["classic"]) == seen(queue.counts)
    assert (peer.channel.delivery_tag, peer.channel.acked) == (7, 1)


def test_what_is_rejected_is_not_acknowledged(queue, peer):
    peer.feed(publish(1, "q", b"x") * 2)
    peer.channel.consume(queue, "c", False, 0, 0)
    assert len(peer.deliveries()) == 2
    peer.feed(nack(1, 1, requeue=False) + ack(1, 2))
    assert seen(queue.counts) == {"delivered": 2, "acked": 1}
    assert (queue.ready_count, queue.unacked_count) == (0, 0)


def test_queues_of_several_types(engine, queue, peer):
    other = engine.queue(0, "other", False)
    peer.queues["other"] = other
    queue.count_as("classic")
    other.count_as("quorum")
    for name, count in (("q", 1), ("other", 2)):
        peer.feed(publish(1, name, b"x") * count)
    for one in (queue, other):
        peer.channel.consume(one, one.name, True, 0, 0)
    assert len(peer.deliveries()) == 3
    found = engine.queues.counts_by_type
    assert [found[kind].delivered_no_ack for kind in ("classic", "quorum")] == [1, 2]
    assert engine.queues.delivered == 3
    with pytest.raises(ValueError, match="before the first consumer"):
        other.count_as("classic")


def test_what_a_deleted_queue_has_delivered_stays_in_its_type(engine, queue, peer):
    queue.count_as("classic")
    peer.feed(publish(1, "q", b"x"))
    peer.get(queue, no_ack=True)
    queue.retire()
    assert engine.queues.counts_by_type["classic"].got_no_ack == 1


def test_deliveries_of_a_virtual_host(engine, queue, peer):
    other = engine.queue(0, "other", False)
    peer.queues["other"] = other
    queue.count_as("classic", "a")
    other.count_as("quorum", "a")
    for one in (queue, other):
        peer.feed(publish(1, one.name, b"x") * 2)
        peer.get(one, no_ack=True)
    assert seen(engine.queues.counts_in("a")) == {"got_no_ack": 2}
    assert seen(engine.queues.counts_in("b")) == {}
    # What it has delivered stays in the totals, and is none of another one of its name.
    engine.forget_deliveries("a")
    assert seen(engine.queues.counts_in("a")) == {}
    assert engine.queues.counts_by_type["quorum"].got_no_ack == 1
    assert engine.queues.got == 2


def test_leases_count_as_basic_get(engine, queue, peer):
    peer.feed(publish(1, "q", b"x") * 2)
    Lease(queue, 2).release()
    Lease(queue, 1).acknowledge()
    assert seen(queue.counts) == {"got": 3, "redelivered": 1, "acked": 1}
    assert engine.queues.got == 3
