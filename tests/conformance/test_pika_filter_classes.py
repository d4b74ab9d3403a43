"""Bindings that ask filter classes, as pika sees them, with real processes behind them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

import pika
import pytest
from pika.exceptions import AMQPError, ChannelClosedByBroker
from tests.conformance.classes import EVEN, GUEST_REGISTERS, Broker, evens
from tests.conformance.marks import differs
from tests.conformance.pika_steps import drain, pump
from tests.filterserver.asked import judging

from leporid.testing import BrokerProcess

pytestmark = differs


@pytest.fixture
def broker(own_broker: BrokerProcess) -> Iterator[Broker]:
    found = Broker(own_broker)
    yield found
    if found.connection.is_open:
        found.connection.close()


def bound(broker: Broker, queue: str, name: str) -> None:
    """Make a durable queue that gets what passes a class, of what is published to f."""
    broker.channel.exchange_declare("f", "fanout", durable=True)
    broker.channel.queue_declare(queue, durable=True)
    broker.channel.queue_bind(queue, "f", "", {"x-filter-class": name})


def test_a_queue_gets_what_passes_in_order(broker):
    broker.register("even", EVEN)
    bound(broker, "q", "even")
    broker.send(*range(100))
    broker.until("even", judged=100, passed=50, waiting=0)
    assert drain(broker.channel, "q") == evens(100)


def test_an_unregistered_class_is_not_found(broker):
    with pytest.raises(ChannelClosedByBroker) as closed:
        bound(broker, "q", "nobody")
    assert closed.value.reply_code == 404
    assert closed.value.reply_text == "NOT_FOUND - no filter class 'nobody' is registered"


def test_kill_9_of_the_filter_in_mid_stream_loses_and_reorders_nothing(broker):
    broker.register("even", EVEN)
    bound(broker, "q", "even")
    for start in range(0, 600, 100):
        broker.send(*range(start, start + 100))
        pid = broker.status("even")["pid"]
        if pid:
            with suppress(ProcessLookupError):  # it is gone from the last time, and nobody asked
                os.kill(pid, 9)
    broker.until("even", waiting=0)
    assert drain(broker.channel, "q") == evens(600)
    assert broker.status("even")["failures"] > 0


def test_kill_9_of_the_broker_loses_and_reorders_nothing(broker):
    broker.register("even", EVEN)
    bound(broker, "q", "even")
    broker.send(*range(200))
    broker.process.kill()
    with suppress(AMQPError):
        broker.connection.close()
    broker.process.start()
    broker.channel = broker.connect()
    broker.send(*range(200, 300))
    broker.until("even", waiting=0)
    assert drain(broker.channel, "q") == evens(300)


@pytest.mark.parametrize(
    "harm",
    [
        "import time; time.sleep(3600)",
        "while True: pass",
        "return len([b'x' * 10**7 for _ in range(10**6)]) > 0",
        "import os; os.abort()",
        "raise ValueError('no')",
        "return 'yes'",
    ],
)
def test_others_go_on_while_a_class_does_harm(broker, harm):
    broker.register("even", EVEN)
    broker.register("bad", judging(harm))
    bound(broker, "q", "even")
    bound(broker, "waits", "bad")
    broker.channel.queue_declare("plain")
    broker.channel.queue_bind("plain", "f")
    broker.send(*range(50))
    assert drain(broker.channel, "plain") == [b"%d" % number for number in range(50)]
    broker.until("even", judged=50, waiting=0)
    assert drain(broker.channel, "q") == evens(50)
    assert broker.status("bad")["waiting"] == 50
    # Nobody lost anything: a version that can answer has all of it.
    broker.register("bad", EVEN)
    broker.until("bad", waiting=0)
    assert drain(broker.channel, "waits") == evens(50)


def test_a_failure_is_told(broker):
    broker.register("bad", judging("return 1 / 0"))
    bound(broker, "q", "bad")
    broker.send(1)
    found = broker.until("bad", state="waiting")
    assert "ZeroDivisionError" in found["error"]
    assert found["waiting"] == 1


@pytest.mark.slow
def test_a_class_that_falls_behind_blocks_publishers_before_memory_runs_out(tmp_path):
    """What waits for it is in memory if it is transient, and counts as any message does."""
    config = 'memory_watermark = "160 MiB"\n' + GUEST_REGISTERS
    with BrokerProcess(tmp_path / "data", config=config) as process:
        broker = Broker(process)
        broker.register("stuck", judging("raise ValueError('never')"))
        bound(broker, "q", "stuck")
        told: list[str] = []
        publisher = pika.BlockingConnection(pika.URLParameters(process.url))
        publisher.add_on_connection_blocked_callback(lambda *_: told.append("blocked"))
        publisher.add_on_connection_unblocked_callback(lambda *_: told.append("unblocked"))
        channel = publisher.channel()
        sent = 0
        while not told and sent < 4000:
            for _ in range(20):
                channel.basic_publish("f", "", bytes(100_000))
            sent += 20
            publisher.process_data_events(0.01)
        assert told == ["blocked"]
        assert broker.status("stuck")["waiting"] > 100
        # Others are served meanwhile, and a version that can is all it takes.
        assert broker.channel.queue_declare("q", passive=True).method.message_count == 0
        broker.register("stuck", judging("return False"))
        broker.until("stuck", waiting=0)
        pump(publisher, lambda: told == ["blocked", "unblocked"])
        publisher.close()
        broker.connection.close()
