"""Who gets the next message: round robin, priorities, a single active consumer."""

from __future__ import annotations

from collections import Counter

from tests.engine.frames import ack, publish
from tests.engine.session_fake import Peer


def send(peer: Peer, count: int) -> None:
    peer.feed(publish(2, "q") * count)


def takers(peer: Peer) -> str:
    return "".join(each.consumer for each in peer.deliveries())


def test_consumers_take_in_turn(queue, peer):
    for tag in "abc":
        peer.channel.consume(queue, tag, False, 0, 0)
    send(peer, 5)
    assert takers(peer) == "abcab"
    send(peer, 3)
    assert takers(peer) == "cab"


def test_one_that_comes_or_goes_does_not_disturb_the_turns(queue, peer):
    consumers = {tag: peer.channel.consume(queue, tag, False, 0, 0) for tag in "abc"}
    send(peer, 1)
    assert takers(peer) == "a"
    peer.channel.cancel(consumers["b"])
    peer.channel.cancel(consumers["b"])
    send(peer, 2)
    assert takers(peer) == "ca"
    peer.channel.consume(queue, "d", False, 0, 0)
    send(peer, 6)
    assert Counter(takers(peer)) == {"a": 2, "c": 2, "d": 2}


def test_a_higher_priority_takes_as_long_as_it_can(queue, peer):
    peer.channel.consume(queue, "l", False, -1, 0)
    high = peer.channel.consume(queue, "h", False, 7, 2)
    peer.channel.consume(queue, "m", False, 0, 1)
    send(peer, 5)
    assert takers(peer) == "hhmll"
    peer.feed(ack(1, 1))
    send(peer, 2)
    assert takers(peer) == "hl"
    peer.channel.cancel(high)
    peer.feed(ack(1, 3))
    send(peer, 2)
    assert takers(peer) == "ml"


def test_those_without_credit_are_passed_over_and_come_back_last(queue, peer):
    for tag in "abc":
        peer.channel.consume(queue, tag, False, 0, 1 if tag == "a" else 0)
    send(peer, 4)
    assert takers(peer) == "abcb"
    peer.feed(ack(1, 1))
    send(peer, 3)
    assert takers(peer) == "cba"


def test_a_single_active_consumer(engine, queue, peer):
    queue.set_single_active_consumer(True)
    other = Peer(engine)
    first = peer.channel.consume(queue, "a", False, 0, 2)
    other.channel.consume(queue, "b", False, 0, 0)
    send(peer, 5)
    engine.run()
    assert takers(peer) == "aa"
    assert takers(other) == ""
    peer.feed(ack(1, 1))
    assert takers(peer) == "a"
    peer.channel.cancel(first)
    assert takers(other) == "bb"
    assert queue.unacked_count == 4
    peer.connection.lost()
    assert takers(other) == "bb"


def test_the_active_consumer_that_is_lost_gives_back_to_the_next(engine, queue, peer):
    queue.set_single_active_consumer(True)
    other = Peer(engine)
    peer.channel.consume(queue, "a", False, 0, 0)
    other.channel.consume(queue, "b", False, 0, 0)
    send(peer, 3)
    assert takers(peer) == "aaa"
    peer.connection.lost()
    assert [(each.consumer, each.redelivered) for each in other.deliveries()] == [("b", True)] * 3


def test_a_thousand_consumers_share_evenly(engine, queue, peer):
    peers = [Peer(engine) for _ in range(10)]
    for each in peers:
        for number in range(100):
            each.channel.consume(queue, f"{number}", False, 0, 2)
    send(peer, 3000)
    engine.run()
    shares = Counter(
        (at, each.consumer) for at, one in enumerate(peers) for each in one.deliveries()
    )
    assert set(shares.values()) == {2}
    assert len(shares) == 1000
    assert queue.ready_count == 1000


def test_what_is_said_of_a_consumer(queue, peer):
    consumer = peer.channel.consume(queue, "c", False, 5, 10)
    assert (consumer.tag, consumer.no_ack, consumer.priority) == ("c", False, 5)
    assert consumer.queue is queue
    assert consumer.channel is peer.channel
    assert (consumer.prefetch, consumer.unacked_count, consumer.active) == (10, 0, True)
    assert "'c'" in repr(consumer)
    peer.channel.cancel(consumer)
    assert not consumer.active
    assert queue.consumer_count == 0
