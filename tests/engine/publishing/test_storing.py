"""What a publish leaves behind."""

from __future__ import annotations

import pytest
from tests.engine.frames import Delivery, properties, publish


def test_messages_of_the_brokers_own(engine, disk, queue, peer):
    durable = engine.queue(1, "d", True)
    raw = properties(delivery_mode=2, message_id="m")
    engine.publish([queue, durable], "exchange", "a.key", raw, b"body")
    engine.publish([], "exchange", "a.key", raw, b"nobody's")
    assert engine.logs.dirty
    peer.channel.consume(queue, "c", True, 0, 0)
    assert peer.events() == [Delivery(1, "exchange", "a.key", raw, b"body", 1, "c", 1, False)]
    assert durable.ready_count == 1
    with pytest.raises(ValueError, match="properties"):
        engine.publish([queue], "", "k", b"\x80", b"")


@pytest.mark.slow
def test_more_queues_than_a_record_can_name(engine, peer):
    queues = [engine.queue(0, f"{number}", False) for number in range(2**16 + 3)]
    peer.session.sources["x"] = engine.route_cache("x", lambda key, raw: queues, True)
    peer.feed(publish(1, "key", b"body", exchange="x"))
    ((channel, fault),) = peer.session.faults
    assert (channel, fault.code) == (1, 506)
    assert not any(queue.ready_count for queue in queues)
