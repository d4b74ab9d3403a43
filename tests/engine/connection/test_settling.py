"""What settling means: which deliveries, what comes back to whom, and in which order."""

from __future__ import annotations

import pytest
from tests.engine.frames import ack, nack, publish
from tests.engine.session_fake import Peer


def fill(peer: Peer, count: int) -> None:
    for number in range(count):
        peer.feed(publish(2, "q", b"%d" % number))


def test_one_ack_settles_what_came_from_many_queues(engine, peer):
    queues = [engine.queue(0, name, False) for name in "abc"]
    peer.queues.update({queue.name: queue for queue in queues})
    for name in "aabbcc":
        peer.feed(publish(2, name))
    consumers = [peer.channel.consume(queue, queue.name, False, 0, 0) for queue in queues]
    assert len(peer.deliveries()) == 6
    assert [consumer.unacked_count for consumer in consumers] == [2, 2, 2]
    peer.feed(ack(1, 4, multiple=True))
    assert peer.channel.unacked_count == 2
    assert [queue.unacked_count for queue in queues] == [0, 0, 2]
    peer.feed(nack(1, 0, multiple=True, requeue=False))
    assert peer.channel.unacked_count == 0
    assert engine.queues.acked == 6


def test_acking_everything_when_there_is_nothing_is_no_fault(peer):
    peer.feed(ack(1, 0, multiple=True))
    assert peer.faults == []


@pytest.mark.parametrize("tag", [0, 1, 2, 2**64 - 1])
@pytest.mark.parametrize("multiple", [False, True])
def test_a_tag_that_was_settled_or_never_given_is_unknown(queue, peer, tag, multiple):
    fill(peer, 1)
    peer.get(queue, no_ack=False)
    peer.feed(ack(1, 1))
    peer.feed(ack(1, tag, multiple))
    assert peer.faults == ([] if multiple and tag == 0 else [(1, 406)])


def test_settling_what_a_deleted_queue_had_does_nothing(queue, peer):
    fill(peer, 2)
    for _ in range(2):
        peer.get(queue, no_ack=False)
    queue.retire()
    peer.feed(ack(1, 1) + nack(1, 2))
    assert peer.faults == []
    assert peer.channel.unacked_count == 0
    assert queue.ready_count == 0


def test_recover_goes_from_consumer_to_consumer(queue, peer):
    """What one had is taken again before the next one's goes back: both have room in the queue."""
    queue.set_limits(max_length=1)
    for tag in ("a", "b"):
        peer.channel.consume(queue, tag, False, 0, 0)
    for body in (b"1", b"2"):
        peer.feed(publish(1, "q", body))
        assert peer.bodies() == [body]
    peer.channel.recover()
    assert sorted(peer.bodies()) == [b"1", b"2"]
    assert queue.unacked_count == 2


def test_what_one_consumer_had_is_recovered_as_a_whole(queue, peer):
    queue.set_limits(max_length=1)
    peer.channel.consume(queue, "a", False, 0, 0)
    for body in (b"1", b"2"):
        peer.feed(publish(1, "q", body))
        assert peer.bodies() == [body]
    peer.channel.recover()
    assert peer.bodies() == [b"2"]
    assert queue.unacked_count == 1


def test_recover_gives_everything_back_to_whoever_is_next(queue, peer):
    fill(peer, 3)
    peer.channel.consume(queue, "c", False, 0, 0)
    assert [each.tag for each in peer.deliveries()] == [1, 2, 3]
    peer.channel.recover()
    again = peer.deliveries()
    assert [(each.tag, each.body, each.redelivered) for each in again] == [
        (4, b"0", True),
        (5, b"1", True),
        (6, b"2", True),
    ]
    peer.feed(ack(1, 2))
    assert peer.faults == [(1, 406)]


@pytest.mark.parametrize(("got", "how"), [(0, "recover"), (0, "nack"), (1, "recover")])
def test_what_comes_back_together_comes_consumer_by_consumer(queue, peer, got, how):
    """In the order of their tags, and each is offered before the next one's: RabbitMQ 3.10.8."""
    fill(peer, 5 + got)
    for _ in range(got):
        peer.get(queue, no_ack=False)
    peer.deliveries()
    for tag in ("b", "c", "a"):
        peer.channel.consume(queue, tag, False, 0, 2)
    taken = [(each.consumer, int(each.body) - got) for each in peer.deliveries()]
    assert taken == [("b", 0), ("c", 1), ("a", 2), ("b", 3), ("c", 4)]
    if how == "recover":
        peer.channel.recover()
    else:
        peer.feed(nack(1, 0, multiple=True, requeue=True))
    again = [(each.consumer, int(each.body) - got) for each in peer.deliveries()]
    if got:
        # What was got comes back first; consumer a had room for one.
        assert again == [("a", -1), ("a", 2), ("b", 0), ("b", 3), ("c", 1), ("c", 4)]
    else:
        assert again == [("a", 2), ("b", 0), ("a", 3), ("b", 1), ("c", 4)]
