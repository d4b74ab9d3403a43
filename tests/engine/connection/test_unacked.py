"""Unsettled deliveries of a channel; its model is in tests/model/test_unacked_model.py."""

import pytest
from tests.engine.allocations import allocated_bytes
from tests.engine.connection.test_credit import Several
from tests.engine.frames import ack, nack, publish


@pytest.mark.parametrize("gap", [2, 3, 50, 999])
def test_tags_are_found_among_any_number_of_holes(queue, peer, gap):
    peer.feed(publish(2, "q") * 3000)
    for _ in range(1000):
        assert peer.channel.get(queue, False)
    for tag in range(1, 1001):
        if tag % gap:
            peer.feed(ack(1, tag))
    for _ in range(2000):
        assert peer.channel.get(queue, False)
    left = [tag for tag in range(1, 1001) if tag % gap == 0]
    assert peer.channel.unacked_count == 2000 + len(left)
    for tag in reversed(left):
        peer.feed(nack(1, tag, requeue=False))
    assert peer.faults == []
    assert queue.unacked_count == 2000
    peer.feed(ack(1, 3000, multiple=True))
    assert queue.unacked_count == 0
    peer.feed(ack(1, 1500))
    assert peer.faults == [(1, 406)]


def test_one_old_delivery_and_thousands_after_it(queue, peer):
    peer.feed(publish(2, "q"))
    assert peer.channel.get(queue, False)
    peer.channel.consume(queue, "c", False, 0, 0)
    for _ in range(20):
        peer.feed(publish(2, "q") * 500)
        deliveries = peer.deliveries()
        assert len(deliveries) == 500
        peer.feed(b"".join(ack(1, each.tag) for each in deliveries))
    assert peer.channel.unacked_count == 1
    peer.feed(ack(1, 1))
    assert peer.faults == []
    assert queue.unacked_count == 0


def test_a_channel_that_goes_with_unsettled_deliveries_lets_go_of_them(engine, queue, peer):
    peer.feed(publish(2, "q") * 100)
    for _ in range(100):
        assert peer.channel.get(queue, False)
    queue.retire()
    peer.connection.close_channel(1)
    del peer.channels[1]
    assert engine.queue(0, "again", False).ready_count == 0


@pytest.mark.parametrize("tag", [2, 3, 5])
@pytest.mark.parametrize("multiple", [False, True])
def test_a_hole_between_unsettled_deliveries_is_unknown(queue, peer, tag, multiple):
    peer.feed(publish(2, "q") * 6)
    for _ in range(6):
        assert peer.channel.get(queue, False)
    for each in (2, 3, 5):
        peer.feed(ack(1, each))
    peer.feed(ack(1, tag, multiple))
    assert peer.faults == [(1, 406)]
    assert queue.ready_count == 3


def test_one_old_delivery_does_not_keep_the_place_of_those_after_it(engine, queue, peer):
    peer.feed(publish(1, "q"))
    peer.get(queue, no_ack=False)
    before = allocated_bytes()
    for tag in range(2, 20_000):
        peer.feed(publish(1, "q"))
        peer.get(queue, no_ack=False)
        peer.feed(ack(1, tag))
        engine.connections.take_touched()
    assert allocated_bytes() - before < 100_000
    assert peer.channel.unacked_count == 1


LATE_ACKS_MAX = 4096


@pytest.mark.parametrize("tag", [1, LATE_ACKS_MAX // 2, LATE_ACKS_MAX + 5])
def test_of_very_many_all_may_be_settled_late(tag: int):
    several = Several(LATE_ACKS_MAX + 5, LATE_ACKS_MAX + 5)
    found = 0
    while bodies := several.came():
        found += len(bodies)
    assert found == LATE_ACKS_MAX + 5
    several.channel.cancel(several.readers[0])
    several.channel.drop_unsettled(several.readers[0])
    several.peer.feed(ack(1, tag))
    assert several.peer.session.faults == []


def test_an_unknown_tag_is_no_late_ack():
    several = Several(2, 2)
    several.came()
    several.channel.cancel(several.readers[0])
    several.channel.drop_unsettled(several.readers[0])
    several.peer.feed(ack(1, 3))
    assert len(several.peer.session.faults) == 1
