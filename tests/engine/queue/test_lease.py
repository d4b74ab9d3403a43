"""Leases: messages that are out together, and settled or given back together."""

from __future__ import annotations

import pytest
from tests.engine.browsing import bodies, leased, shown
from tests.engine.frames import PERSISTENT, properties, publish
from tests.engine.restarts import Broker
from tests.engine.session_fake import Peer
from tests.engine.slices import ended

from leporid.engine.queue.lease import Lease


def send(peer: Peer, *bodies_: bytes, raw: bytes = b"\0\0", name: str = "q") -> None:
    for body in bodies_:
        peer.feed(publish(2, name, body, raw=raw))


def test_a_lease_takes_as_many_as_it_may_and_shows_them(queue, peer):
    send(peer, b"a", b"b", b"c")
    lease = Lease(queue, 2)
    assert (lease.count, queue.ready_count, queue.unacked_count) == (2, 1, 2)
    assert [row["body"] for row in leased(lease)] == [b"a", b"b"]
    assert [row["body"] for row in leased(lease, rows_max=1)] == [b"a", b"b"]
    assert peer.drain(queue) == [b"c"]
    assert Lease(queue, 10).count == 0


def test_acknowledged_is_gone(queue, peer, engine):
    send(peer, b"a", b"b", b"c")
    lease = Lease(queue, 2)
    lease.acknowledge()
    assert (queue.unacked_count, engine.queues.acked) == (2 - 2, 2)
    lease.acknowledge()
    lease.release()
    assert (queue.ready_count, engine.queues.acked) == (1, 2)
    with pytest.raises(ValueError, match="ended"):
        lease.window(0, 1, 1, 1)


def test_released_goes_back_to_its_place_as_redelivered(queue, peer):
    send(peer, b"a", b"b", b"c")
    lease = Lease(queue, 2)
    assert not any(row["redelivered"] for row in leased(lease))
    lease.release()
    assert [(row["body"], row["redelivered"]) for row in shown(queue)] == [
        (b"a", True),
        (b"b", True),
        (b"c", False),
    ]
    again = Lease(queue, 3)
    assert [row["redelivered"] for row in leased(again)] == [True, True, False]


def test_a_consumer_that_waits_gets_what_is_released(queue, peer):
    send(peer, b"a")
    lease = Lease(queue, 1)
    peer.channel.consume(queue, "c", False, 0, 0)
    assert peer.bodies() == []
    lease.release()
    assert [(event.body, event.redelivered) for event in peer.deliveries()] == [(b"a", True)]


def test_it_takes_by_priority(engine, peer):
    queue = peer.queues["p"] = engine.queue(0, "p", False)
    queue.set_priorities(5)
    for number, priority in enumerate([0, 5, 3]):
        send(peer, b"%d" % number, raw=properties(priority=priority), name="p")
    assert [row["body"] for row in leased(Lease(queue, 2))] == [b"1", b"2"]


def test_a_queue_that_goes_takes_what_is_leased_with_it(queue, peer):
    send(peer, b"a")
    lease = Lease(queue, 1)
    queue.retire()
    with pytest.raises(ValueError, match="does not show"):
        lease.window(0, 1, 1, 1)
    lease.acknowledge()
    lease.release()
    assert (queue.ready_count, queue.unacked_count) == (0, 0)


def test_purge_leaves_what_is_leased(queue, peer):
    send(peer, b"a", b"b")
    lease = Lease(queue, 1)
    assert ended(queue.purging()) == 1
    lease.release()
    assert bodies(queue) == [b"a"]


def test_what_expired_while_it_was_out_goes_when_it_comes_back(queue, peer, engine, dead_letters):
    send(peer, b"a", raw=properties(expiration="100"))
    lease = Lease(queue, 1)
    engine.clock.now_ms += 200
    engine.run()
    assert [row["body"] for row in leased(lease)] == [b"a"]
    lease.release()
    engine.run()
    assert queue.ready_count == 0
    assert dead_letters.bodies == [b"a"]


def test_a_window_beyond_the_lease_is_refused(queue, peer):
    send(peer, b"a")
    lease = Lease(queue, 1)
    for at, end in ((0, 2), (1, 0)):
        with pytest.raises(ValueError, match="does not show"):
            lease.window(at, end, 1, 1)


def test_what_was_acknowledged_stays_away_after_a_crash_and_what_was_leased_comes_back():
    broker = Broker()
    for number in range(4):
        broker.send("q", b"%d" % number)
    Lease(broker.queues["q"], 2).acknowledge()
    open_lease = Lease(broker.queues["q"], 1)
    assert open_lease.count == 1
    broker.engine.logs.note_change()
    broker.disk.sync(broker.engine)
    broker.restart()
    assert bodies(broker.queues["q"]) == [b"2", b"3"]


def test_after_an_orderly_stop_what_was_leased_is_marked_redelivered():
    broker = Broker()
    broker.send("q", b"a", PERSISTENT)
    broker.send("q", b"b", PERSISTENT)
    Lease(broker.queues["q"], 1)
    broker.stop()
    assert [(row["body"], row["redelivered"]) for row in shown(broker.queues["q"])] == [
        (b"a", True),
        (b"b", False),
    ]
