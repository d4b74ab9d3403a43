"""A queue that was paused over HTTP, as pika sees it: everything goes in, and nothing comes out."""

from __future__ import annotations

from collections.abc import Iterator

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from tests.conformance.pika_steps import Inbox, depth, publish_all, settle
from tests.conformance.test_pika_browse import Http

from leporid.testing import BrokerProcess, reserve_port

QUEUE = "api/queues/%2F/q"
STREAM = "api/queues/%2F/s"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    directory = tmp_path_factory.mktemp("pausing") / "data"
    options = ["--http-port", str(reserve_port())]
    with BrokerProcess(directory, amqp_port=reserve_port(), options=options) as process:
        yield process


@pytest.fixture
def http(broker: BrokerProcess) -> Http:
    return Http(broker.http_port)


def opened(broker: BrokerProcess) -> BlockingChannel:
    channel = pika.BlockingConnection(pika.URLParameters(broker.url)).channel()
    channel.confirm_delivery()
    return channel


def test_consumers_wait_until_it_goes_on(broker: BrokerProcess, http: Http):
    channel = opened(broker)
    channel.queue_declare("q", durable=True)
    inbox = Inbox(channel, "q")
    publish_all(channel, "q", [b"before"])
    inbox.wait_for(1)
    http("PUT", QUEUE + "/pause")
    publish_all(channel, "q", [b"1", b"2"])
    # What it has it may give back, and does not get again.
    channel.basic_nack(inbox.deliveries[0].delivery_tag)
    assert depth(channel, "q") == 3
    assert channel.basic_get("q") == (None, None, None)
    http("PUT", QUEUE + "/resume")
    assert inbox.wait_for(4)[1:] == [b"before", b"1", b"2"]
    assert [each.redelivered for each in inbox.deliveries[1:]] == [True, False, False]
    channel.connection.close()


def test_readers_of_a_stream_wait_too(broker: BrokerProcess, http: Http):
    channel = opened(broker)
    channel.queue_declare("s", durable=True, arguments={"x-queue-type": "stream"})
    channel.basic_qos(prefetch_count=10)
    http("PUT", STREAM + "/pause")
    kinds: tuple[dict[str, str], ...] = (
        {},
        {"x-filter-sql": "p.delivery_mode IS NULL"},
        {"x-group": "g"},
    )
    inboxes = [Inbox(channel, "s", arguments=arguments) for arguments in kinds]
    publish_all(channel, "s", [b"1", b"2"])
    for _ in range(3):
        settle(channel)
    assert [inbox.bodies for inbox in inboxes] == [[], [], []]
    http("PUT", STREAM + "/resume")
    for inbox in inboxes:
        assert inbox.wait_for(2) == [b"1", b"2"]
    channel.connection.close()


def test_a_durable_queue_is_paused_after_a_restart(broker: BrokerProcess, http: Http):
    channel = opened(broker)
    channel.queue_declare("q", durable=True)
    channel.queue_purge("q")
    http("PUT", QUEUE + "/pause")
    properties = pika.BasicProperties(delivery_mode=2)
    channel.basic_publish("", "q", b"kept", properties)
    channel.connection.close()
    broker.kill()
    broker.start()
    channel = opened(broker)
    assert channel.basic_get("q") == (None, None, None)
    assert b'"state":"paused"' in http("GET", QUEUE)
    http("PUT", QUEUE + "/resume")
    assert channel.basic_get("q", auto_ack=True)[2] == b"kept"
    channel.connection.close()
