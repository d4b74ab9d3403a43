"""What the broker sets in the properties of what clients publish, as pika sees it."""

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pika import BasicProperties, BlockingConnection, URLParameters
from pika.adapters.blocking_connection import BlockingChannel
from tests.conformance.marks import differs

from leporid.testing import BrokerProcess

pytestmark = differs  # a foreign broker has a configuration of its own

ID = re.compile(r"M-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

Open = Callable[[str], BlockingChannel]


@pytest.fixture
def configured(tmp_path: Path) -> Iterator[Open]:
    """Start a broker whose interceptors are configured so; give a channel with the queue q."""
    started: list[tuple[BrokerProcess, BlockingConnection]] = []

    def make(settings: str) -> BlockingChannel:
        file = tmp_path / "leporid.toml"
        file.write_text(f"[interceptors]\n{settings}\n")
        broker = BrokerProcess(tmp_path / "data", options=["--config", str(file)])
        broker.start()
        connection = BlockingConnection(URLParameters(broker.url))
        started.append((broker, connection))
        channel = connection.channel()
        channel.queue_declare("q")
        return channel

    yield make
    for broker, connection in started:
        connection.close()
        assert broker.stop() == 0, broker.log_tail()
        broker.close()


def received(channel: BlockingChannel, queue: str = "q") -> BasicProperties:
    method, properties, _ = channel.basic_get(queue, auto_ack=True)
    assert method is not None
    return properties


GIVEN = BasicProperties(message_id="mine", timestamp=7, app_id="app", headers={"a": 1})


def test_what_the_publisher_gave_is_kept(configured: Open):
    channel = configured('timestamp = "keep"\nmessage_id = "keep"')
    before = int(time.time())
    channel.basic_publish("", "q", b"", BasicProperties(app_id="app", headers={"a": 1}))
    channel.basic_publish("", "q", b"", GIVEN)
    found = received(channel)
    assert before <= found.timestamp <= time.time()
    assert ID.fullmatch(found.message_id)
    assert (found.app_id, found.headers) == ("app", {"a": 1})
    assert received(channel) == GIVEN


def test_or_overwritten(configured: Open):
    channel = configured('timestamp = "overwrite"\nmessage_id = "overwrite"')
    for _ in range(2):
        channel.basic_publish("", "q", b"", GIVEN)
    first, second = received(channel), received(channel)
    assert first.timestamp > 7
    assert ID.fullmatch(first.message_id)
    assert first.message_id != second.message_id
    assert first.headers == {"a": 1}


def test_what_was_set_decides_where_a_message_goes(configured: Open):
    channel = configured('message_id = "keep"')
    channel.exchange_declare("x", "x-consistent-hash", arguments={"hash-property": "message_id"})
    queues = ["a", "b"]
    for queue in queues:
        channel.queue_declare(queue)
        channel.queue_bind(queue, "x", "1")
    for _ in range(60):
        channel.basic_publish("x", "the same", b"")
    counts = [channel.queue_declare(each, passive=True).method.message_count for each in queues]
    assert sum(counts) == 60
    assert min(counts) > 10


def test_a_dead_letter_is_the_message_it_was(configured: Open):
    channel = configured('timestamp = "overwrite"\nmessage_id = "overwrite"')
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"}
    channel.queue_declare("dying", arguments=arguments)
    channel.basic_publish("", "dying", b"")
    method, properties, _ = channel.basic_get("dying")
    channel.basic_reject(method.delivery_tag, requeue=False)
    letter = received(channel)
    assert letter.headers["x-death"][0]["reason"] == "rejected"
    assert (letter.message_id, letter.timestamp) == (properties.message_id, properties.timestamp)
