"""What a queue's arguments mean for messages that come back after a restart."""

from __future__ import annotations

from tests.engine.disk_fake import recover
from tests.engine.frames import PERSISTENT, ack, nack, properties, publish
from tests.engine.restarts import Broker
from tests.engine.session_fake import Peer
from tests.storage.format_v1 import IN_TX, PUBLISH, SETTLE, read_records

from leporid.amqp.properties import decode_properties
from leporid.engine.engine import Engine
from leporid.engine.queue.queue import Queue


def again(disk, arrange, later_ms: int = 0) -> tuple[Engine, Queue, Peer]:
    """The same disk after a crash, with one durable queue that `arrange` gives its arguments."""
    queues: list[Queue] = []

    def declare(engine: Engine) -> None:
        engine.clock.wall_ms += later_ms
        queues.append(engine.queue(1, "d", True))
        arrange(queues[0])

    engine, _, _ = recover(disk.copy(), declare, durable_segment_bytes=4096)
    return engine, queues[0], Peer(engine, {"d": queues[0]})


def send(peer: Peer, *texts: str, priority: int = 0, expiration: str | None = None) -> None:
    raw = properties(delivery_mode=2, priority=priority, expiration=expiration)
    for text in texts:
        peer.feed(publish(1, "d", text.encode(), raw=raw))


def test_priorities(engine, disk, peer):
    peer.queues["d"] = engine.queue(1, "d", True)
    peer.queues["d"].set_priorities(5)
    for number, priority in enumerate((1, 9, 0, 5, 1)):
        send(peer, f"{number}", priority=priority)
    disk.sync(engine)
    _, queue, reader = again(disk, lambda queue: queue.set_priorities(5))
    assert queue.ready_count == 5
    got = reader.get(queue, no_ack=False)
    assert got is not None
    assert got.body == b"1"
    reader.feed(nack(1, 1))
    send(reader, "new", priority=3)
    assert reader.drain(queue) == [b"1", b"3", b"new", b"0", b"4", b"2"]


def test_a_maximal_length(engine, disk, peer):
    peer.queues["d"] = engine.queue(1, "d", True)
    send(peer, *"abcdef")
    disk.sync(engine)
    dead_letters = []

    def arrange(queue: Queue) -> None:
        queue.set_limits(max_length=2)
        queue.dead_letters = lambda *message: dead_letters.append(message)

    engine, queue, reader = again(disk, arrange)
    engine.run()
    assert reader.drain(queue) == [b"e", b"f"]
    assert [message[-1] for message in dead_letters] == [b"a", b"b", b"c", b"d"]


def test_a_time_to_live_of_the_queue(engine, disk, peer):
    peer.queues["d"] = queue = engine.queue(1, "d", True)
    queue.set_message_ttl(1000)
    send(peer, "old")
    send(peer, "own", expiration="300")
    engine.clock.wall_ms += 600
    send(peer, "new")
    disk.sync(engine)
    engine, queue, _ = again(disk, lambda queue: queue.set_message_ttl(1000), later_ms=1200)
    engine.run()
    assert queue.ready_count == 1
    engine.clock.now_ms += 399
    engine.run()
    assert queue.ready_count == 1
    engine.clock.now_ms += 1
    engine.run()
    assert queue.ready_count == 0


def test_what_expired_meanwhile_goes_in_the_order_in_which_it_did(engine, disk, peer):
    peer.queues["d"] = engine.queue(1, "d", True)
    for expiration in (900, 200, 500, 10_000, 400):
        send(peer, f"{expiration}", expiration=f"{expiration}")
    disk.sync(engine)
    dead_letters = []

    def arrange(queue: Queue) -> None:
        queue.dead_letters = lambda *message: dead_letters.append(message)

    engine, queue, reader = again(disk, arrange, later_ms=1000)
    reader.channel.consume(queue, "c", True, 0, 0)
    assert reader.bodies() == [b"10000"]
    assert [message[-1] for message in dead_letters] == [b"200", b"400", b"500", b"900"]
    assert engine.queues.expired == 4


def test_a_clock_that_was_set_back(engine, disk, peer):
    peer.queues["d"] = engine.queue(1, "d", True)
    send(peer, "a", expiration="1000")
    disk.sync(engine)
    engine, queue, _ = again(disk, lambda queue: None, later_ms=-5000)
    engine.run()
    assert queue.ready_count == 1
    assert engine.next_due_ms > engine.clock.now_ms


def test_a_dead_letter_and_its_end_after_a_crash(engine, disk, peer):
    """One of the two is there, wherever the write was cut."""
    queues = {name: engine.queue(number, name, True) for number, name in enumerate("dg", 1)}
    peer.queues.update(queues)
    queues["d"].dead_letters = lambda reason, exchange, key, raw, body: engine.publish(
        [queues["g"]], exchange, key, raw, body
    )
    peer.feed(publish(1, "d", b"x", raw=PERSISTENT))
    disk.sync(engine)
    peer.get(queues["d"], no_ack=False)
    peer.feed(nack(1, 1, requeue=False))
    disk.begin(engine)
    assert disk.job is not None
    total = sum(len(data) for *_, data in disk.job[1])
    for written in range(total + 1):
        found: dict[str, Queue] = {}

        def declare(again: Engine, found: dict[str, Queue] = found) -> None:
            found.update(
                (name, again.queue(number, name, True)) for number, name in enumerate("dg", 1)
            )

        recover(disk.crashed(written), declare, durable_segment_bytes=4096)
        counts = found["d"].ready_count, found["g"].ready_count
        assert counts in ((1, 0), (0, 1))
    assert counts == (0, 1)


def test_a_dead_letter_whose_sectors_were_lost_leaves_its_message_where_it_was(engine, disk, peer):
    """Power went while both were written: the letter's end is on disk, the letter is not."""
    queues = {name: engine.queue(number, name, True) for number, name in enumerate("dg", 1)}
    peer.queues.update(queues)
    queues["d"].dead_letters = lambda reason, exchange, key, raw, body: engine.publish(
        [queues["g"]], exchange, key, raw, body
    )
    peer.feed(publish(1, "d", b"x" * 600, raw=PERSISTENT))
    disk.sync(engine)
    peer.get(queues["d"], no_ack=False)
    peer.feed(nack(1, 1, requeue=False))
    disk.begin(engine)
    for lose in range(4):
        sectors = iter(range(10))
        left = disk.crashed(10**6, lost=lambda at=lose, sectors=sectors: next(sectors) == at)
        found: dict[str, Queue] = {}

        def declare(again: Engine, found: dict[str, Queue] = found) -> None:
            found.update(
                (name, again.queue(number, name, True)) for number, name in enumerate("dg", 1)
            )

        recover(left, declare, durable_segment_bytes=4096)
        assert found["d"].ready_count + found["g"].ready_count == 1


def test_dead_letters_fill_segments_and_none_is_lost_or_doubled(engine, disk, peer):
    """A segment without room for a letter and the end of its original is left as it is."""
    queues = {name: engine.queue(number, name, True) for number, name in enumerate("dg", 1)}
    peer.queues.update(queues)
    queues["d"].dead_letters = lambda reason, exchange, key, raw, body: engine.publish(
        [queues["g"]], exchange, key, raw, body
    )
    for number in range(120):
        send(peer, f"{number}" + "x" * (number * 37 % 900))
    disk.sync(engine)
    for _ in range(120):
        peer.get(queues["d"], no_ack=False)
    peer.feed(nack(1, 0, multiple=True, requeue=False))
    disk.sync(engine)
    records = [each for _, file in sorted(disk.files.items()) for each in read_records(file)]
    assert [each.kind for each in records if each.flags & IN_TX] == [PUBLISH, SETTLE] * 120
    disk.settle(engine)
    found: dict[str, Queue] = {}

    def declare(again: Engine) -> None:
        found.update((name, again.queue(number, name, True)) for number, name in enumerate("dg", 1))

    recover(disk.copy(), declare, durable_segment_bytes=4096)
    assert (found["d"].ready_count, found["g"].ready_count) == (0, 120)


# ------------------------------------------------------------------ how often it was delivered


def counts(broker: Broker) -> list[tuple[bytes, bool, int]]:
    """Of everything in the queue, which keeps it: redelivered, and how often it came back."""
    queue = broker.queues["q"]
    queue.set_delivery_limit(None, True)
    reader = Peer(broker.engine)
    found = []
    while (got := reader.get(queue, no_ack=False)) is not None:
        headers = decode_properties(got.raw).headers
        assert headers is not None
        count = headers["x-delivery-count"]
        assert isinstance(count, int)
        found.append((got.body, got.redelivered, count))
    return found


def returned(broker: Broker, times: int) -> None:
    """The first message comes back so often."""
    for _ in range(times):
        got = broker.peer.get(broker.queues["q"], no_ack=False)
        assert got is not None
        broker.peer.feed(nack(1, got.tag))


def test_an_orderly_stop_keeps_how_often_a_message_came_back():
    broker = Broker()
    for body in (b"a", b"b", b"c"):
        broker.send("q", body)
    returned(broker, 3)
    broker.disk.sync(broker.engine)
    broker.stop()
    found = counts(broker)
    assert found == [(b"a", True, 3), (b"b", False, 0), (b"c", False, 0)]
    broker.stop()  # each of them was delivered once more, and given back
    assert counts(broker) == [(b"a", True, 4), (b"b", True, 1), (b"c", True, 1)]


def test_after_a_crash_they_count_from_the_last_orderly_stop():
    broker = Broker()
    for body in (b"a", b"b"):
        broker.send("q", body)
    returned(broker, 2)
    broker.disk.sync(broker.engine)
    broker.stop()
    returned(broker, 5)
    broker.disk.sync(broker.engine)
    broker.restart()
    assert counts(broker) == [(b"a", True, 2), (b"b", True, 0)]


def test_a_message_that_may_have_been_delivered_has_all_its_returns_left():
    broker = Broker()
    broker.send("q", b"x")
    broker.disk.sync(broker.engine)
    broker.restart()
    broker.queues["q"].set_delivery_limit(1, True)
    returned(broker, 1)
    assert broker.queues["q"].ready_count == 1
    returned(broker, 1)
    assert broker.queues["q"].ready_count == 0


def test_counts_of_very_many():
    """Blocks of the index, and messages that went in between."""
    broker = Broker(segment_bytes=65536)
    queue = broker.queues["q"]
    for number in range(700):
        broker.send("q", b"%d" % number)
    for _ in range(700):
        broker.peer.get(queue, no_ack=False)
    for tag in range(1, 701):
        broker.peer.feed(ack(1, tag) if tag % 7 == 0 else nack(1, tag))
    for _ in range(300):
        broker.peer.get(queue, no_ack=False)
    broker.disk.sync(broker.engine)
    broker.stop()
    numbers = [number for number in range(700) if (number + 1) % 7]
    assert counts(broker) == [
        (b"%d" % number, True, 2 if at < 300 else 1) for at, number in enumerate(numbers)
    ]
