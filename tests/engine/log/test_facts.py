"""Facts in the log: how many there are, not what they mean (test_replay has that)."""

from __future__ import annotations

from tests.engine.frames import PERSISTENT, ack, properties, publish
from tests.engine.restarts import Broker


def settle_facts(broker: Broker) -> int:
    broker.disk.settle(broker.engine)
    broker.restart()
    return sum(report.settles for report in broker.reports)


def take(broker: Broker, count: int) -> None:
    for body in range(count):
        broker.peer.feed(publish(1, "q", b"%d" % body, raw=PERSISTENT))
    for _ in range(count):
        assert broker.peer.channel.get(broker.queues["q"], False)


def test_what_is_settled_in_one_turn_is_one_fact():
    broker = Broker(segment_bytes=65536)
    take(broker, 50)
    broker.peer.feed(*(ack(1, tag) for tag in reversed(range(1, 51))))
    broker.engine.run()
    assert settle_facts(broker) == 1


def test_each_turn_has_its_own():
    broker = Broker(segment_bytes=65536)
    take(broker, 4)
    for tag in (1, 3, 2, 4):
        broker.peer.feed(ack(1, tag))
        broker.engine.run()
    assert settle_facts(broker) == 4


def test_an_orderly_stop_says_what_was_delivered():
    broker = Broker(segment_bytes=65536)
    take(broker, 3)
    broker.stop()
    broker.restart()
    assert broker.clean
    got = broker.peer.get(broker.queues["q"])
    assert got is not None
    assert got.redelivered


def test_nothing_is_appended_behind_the_end_of_an_orderly_stop():
    broker = Broker(segment_bytes=65536)
    broker.send("q", b"a", properties(delivery_mode=2, expiration="10"))
    broker.engine.mark_clean()
    assert broker.disk.begin(broker.engine)
    broker.engine.clock.now_ms += 20
    broker.engine.run()
    broker.disk.complete(broker.engine)
    broker.disk.settle(broker.engine)
    broker.restart()
    assert broker.clean
