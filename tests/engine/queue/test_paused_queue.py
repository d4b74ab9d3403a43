"""A paused queue: nothing leaves it to anybody, and all else goes on."""

from __future__ import annotations

from tests.engine.conftest import DeadLetters
from tests.engine.frames import ack, nack, properties, publish
from tests.engine.selecting.test_filtered_consumers import consume, selector, send, taken
from tests.engine.session_fake import Peer
from tests.engine.slices import ended

from leporid.engine.engine import Engine
from leporid.engine.queue.lease import Lease
from leporid.engine.queue.queue import Queue


def test_consumers_with_filters_wait(engine: Engine, queue: Queue, peer: Peer):
    consume(peer, queue, "some", selector("g = 1"))
    consume(peer, queue, "all", None)
    queue.set_paused(True)
    send(peer, "a1", "b0", "c1")
    for _ in range(3):
        assert taken(peer) == []
    assert not engine.busy
    queue.set_paused(False)
    found = taken(peer)
    assert sorted(body for _, body in found) == ["a1", "b0", "c1"]
    assert ("all", "b0") in found


def test_who_waits_for_credit_takes_nothing_when_it_comes(engine: Engine, queue: Queue, peer: Peer):
    peer.channel.prefetch_global = 1
    peer.channel.consume(queue, "c", False, 0, 0)
    for text in (b"1", b"2"):
        peer.feed(publish(2, "q", text))
    (first,) = peer.deliveries()
    queue.set_paused(True)
    peer.feed(ack(1, first.tag))
    assert peer.deliveries() == []
    assert not engine.busy
    queue.set_paused(False)
    assert [each.body for each in peer.deliveries()] == [b"2"]


def test_a_lease_that_is_being_taken_ends_there(queue: Queue, peer: Peer):
    for text in (b"1", b"2", b"3"):
        peer.feed(publish(2, "q", text))
    lease = Lease(queue, 9, True)
    assert lease.more(1)
    queue.set_paused(True)
    assert not lease.more(1)
    assert not lease.take([1])
    assert (lease.count, queue.ready_count) == (1, 2)
    assert Lease(queue, 9).count == 0
    lease.release()
    assert queue.ready_count == 3


def test_limits_and_times_to_live_go_on(
    engine: Engine, queue: Queue, peer: Peer, dead_letters: DeadLetters
):
    queue.set_limits(max_length=2)
    peer.channel.consume(queue, "c", False, 0, 0)
    queue.set_paused(True)
    for text in (b"1", b"2", b"3"):
        peer.feed(publish(2, "q", text))
    peer.feed(publish(2, "q", b"short", raw=properties(expiration="5")))
    assert peer.deliveries() == []
    assert dead_letters.bodies == [b"1", b"2"]
    engine.clock.now_ms += 5
    engine.run()
    assert dead_letters.bodies == [b"1", b"2", b"short"]
    peer.feed(publish(2, "q", b"now or never", raw=properties(expiration="0")))
    engine.run()
    assert dead_letters.bodies[-1] == b"now or never"
    assert ended(queue.purging()) == 1


def test_what_comes_back_waits_in_its_place(queue: Queue, peer: Peer):
    peer.channel.consume(queue, "c", False, 0, 1)
    for text in (b"1", b"2"):
        peer.feed(publish(2, "q", text))
    (first,) = peer.deliveries()
    queue.set_paused(True)
    peer.feed(nack(1, first.tag))
    assert peer.deliveries() == []
    queue.set_paused(False)
    assert [(each.body, each.redelivered) for each in peer.deliveries()] == [(b"1", True)]
