"""The messages of a queue, as whoever publishes them again gets them."""

from __future__ import annotations

from tests.engine.frames import PERSISTENT, ack, publish
from tests.engine.session_fake import Peer
from tests.engine.slices import ended

from leporid.engine.queue.browse import snapshot


def bodies(queue):
    return [body for _, _, _, body in snapshot(queue)]


def test_exchange_key_properties_and_body_are_as_they_were(engine, queue):
    engine.publish([queue], "the exchange", "ключ", b"\x10\x00\x02", b"the body")
    engine.publish([queue], "", "", b"\0\0", b"")
    assert list(snapshot(queue)) == list(snapshot(queue))
    assert list(snapshot(queue)) == [
        ("the exchange", "ключ", b"\x10\x00\x02", b"the body"),
        ("", "", b"\0\0", b""),
    ]


def test_an_empty_queue_has_none(queue):
    assert list(snapshot(queue)) == []


def test_it_is_all_in_order_over_many_blocks(engine, queue):
    for number in range(1_000):
        engine.publish([queue], "x", "k", b"\0\0", b"%d" % number)
    assert bodies(queue) == [b"%d" % number for number in range(1_000)]
    assert queue.ready_count == 1_000


def test_what_is_delivered_or_gone_is_not_there(engine, queue, peer: Peer):
    peer.feed(b"".join(publish(1, "q", b"%d" % number) for number in range(4)))
    peer.channel.consume(queue, "c", False, 0, 2)
    assert len(peer.deliveries()) == 2
    peer.feed(ack(1, 1))
    assert len(peer.deliveries()) == 1
    assert bodies(queue) == [b"3"]


def test_what_is_over_the_limit_is_not_there(engine, queue):
    queue.set_limits(max_length=2, max_bytes=None, overflow="drop-head")
    for number in range(5):
        engine.publish([queue], "x", "k", b"\0\0", b"%d" % number)
    engine.run()
    assert bodies(queue) == [b"3", b"4"]


def test_what_goes_or_comes_after_the_first_was_taken_changes_nothing(engine, queue):
    body = bytes(100_000)
    for number in range(40):
        engine.publish([queue], "x", "k", b"\0\0", b"%02d" % number + body)
    taken = snapshot(queue)
    shown = [next(taken)]
    ended(queue.purging())
    for number in range(40, 400):
        engine.publish([queue], "x", "k", b"\0\0", b"%02d" % number + body)
        ended(queue.purging())
        engine.run()
    shown.extend(taken)
    assert [each[-1][:2] for each in shown] == [b"%02d" % number for number in range(40)]
    assert all(each[-1][2:] == body for each in shown)
    assert not list(snapshot(queue))


def test_what_is_shown_is_kept_until_then_and_no_longer(engine, queue):
    for _ in range(40):
        engine.publish([queue], "x", "k", b"\0\0", bytes(100_000))
    taken = snapshot(queue)
    next(taken)
    ended(queue.purging())
    engine.run()
    assert engine.logs.transient.bytes > 3_900_000
    taken.close()
    engine.run()
    assert engine.logs.transient.bytes < 500_000


def test_durable_records_are_read_as_well(engine, disk):
    other, queue = engine.queue(7, "durable", True), engine.queue(0, "q", False)
    engine.publish([other, queue], "x", "k", PERSISTENT, b"kept")
    disk.sync(engine)
    assert list(snapshot(queue)) == [("x", "k", PERSISTENT, b"kept")]
