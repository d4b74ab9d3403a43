"""What is there after the broker was killed, or ended in order, and started again; what is not."""

import contextlib
import time
from collections.abc import Iterator
from typing import Protocol

import pika
import pytest
from pika import BasicProperties
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection
from pika.exceptions import AMQPError, ChannelClosedByBroker, ConnectionClosedByBroker
from tests.crash.load import PERSISTENT

from leporid.testing import BrokerProcess

# For the disk to be freed, on a machine that does much else.
SECONDS = 30


class Restart(Protocol):
    def __call__(self, *, connected: bool = False) -> BlockingChannel: ...


# A message as RabbitMQ keeps it: everything the publisher said.
LETTER = BasicProperties(
    content_type="text/plain",
    headers={"number": 1, "list": [True, None, {"deep": "value"}], "bytes": b"\x00\xff"},
    delivery_mode=2,
    priority=3,
    correlation_id="c",
    reply_to="r",
    message_id="m",
    timestamp=1_700_000_000,
    type="t",
    app_id="a",
)


@pytest.fixture
def channel(broker: BrokerProcess) -> BlockingChannel:
    """A confirming channel on the broker's first life."""
    return open_channel(broker)


@pytest.fixture(params=["kill", "stop"])
def restart(
    request: pytest.FixtureRequest, broker: BrokerProcess, opened: list[BlockingConnection]
) -> Restart:
    """End the broker by SIGKILL, or by SIGTERM; start it; open a new channel.

    A broker that ends in order waits for two seconds for clients that are `connected` and do not
    answer, as ours; in most tests they have left before.
    """

    def again(*, connected: bool = False) -> BlockingChannel:
        if request.param == "kill":
            broker.kill()
        else:
            if not connected:
                close(opened)
            assert broker.stop() == 0, broker.log_tail()
        broker.start()
        return open_channel(broker)

    return again


def open_channel(broker: BrokerProcess) -> BlockingChannel:
    channel = BlockingConnection(pika.URLParameters(broker.url)).channel()
    channel.confirm_delivery()
    return channel


def close(connections: list[BlockingConnection]) -> None:
    """Close connections, whether or not somebody is still at the other end."""
    for connection in connections:
        with contextlib.suppress(AMQPError):
            connection.close()


@pytest.fixture(autouse=True)
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[BlockingConnection]]:
    """What a test opens; closed after it."""
    opened: list[BlockingConnection] = []
    create = BlockingConnection.__init__

    def create_and_note(self, *arguments):
        opened.append(self)
        create(self, *arguments)

    monkeypatch.setattr(BlockingConnection, "__init__", create_and_note)
    yield opened
    close(opened)


def exists(channel: BlockingChannel, declare: str, name: str) -> bool:
    """Ask with a passive declare, on a channel that may be lost."""
    probe = channel.connection.channel()
    try:
        getattr(probe, declare)(name, passive=True)
    except ChannelClosedByBroker as error:
        if error.reply_code == 404:
            return False
        raise
    return True


def bodies(channel: BlockingChannel, queue: str) -> list[bytes]:
    """Take all ready messages out of a queue."""
    found: list[bytes] = []
    while True:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            return found
        found.append(body)


def test_durable_messages_come_back_whole_and_in_order(channel, restart):
    channel.queue_declare("letters", durable=True)
    sent = [b"", b"x", b"y" * 200_000, *(b"%d" % number for number in range(50))]
    for body in sent:
        channel.basic_publish("", "letters", body, LETTER)
    channel = restart()
    for body in sent:
        method, properties, got = channel.basic_get("letters", auto_ack=True)
        assert got == body
        assert properties.__dict__ == LETTER.__dict__
        assert (method.exchange, method.routing_key) == ("", "letters")
    assert channel.basic_get("letters") == (None, None, None)


def test_topology_comes_back(channel, restart):
    channel.exchange_declare("rest", "fanout", durable=True)
    channel.exchange_declare(
        "start", "topic", durable=True, arguments={"alternate-exchange": "rest"}
    )
    channel.exchange_declare("middle", "headers", durable=True, internal=True)
    channel.exchange_bind("middle", "start", "a.#")
    arguments = {"x-max-length": 100, "x-made-up": [1, {"a": None}]}
    for queue in ("wanted", "unwanted"):
        channel.queue_declare(queue, durable=True, arguments=arguments)
    channel.queue_bind("wanted", "middle", "", {"x-match": "any", "colour": "red", "size": 7})
    channel.queue_bind("wanted", "middle", "", {"x-match": "all", "colour": "green"})
    channel.queue_unbind("wanted", "middle", "", {"x-match": "all", "colour": "green"})
    channel.queue_bind("unwanted", "rest")

    def publish_both(channel):
        red = BasicProperties(headers={"colour": "red"}, delivery_mode=2)
        green = BasicProperties(headers={"colour": "green"}, delivery_mode=2)
        channel.basic_publish("start", "a.b", b"red", red)
        channel.basic_publish("start", "a.b", b"green", green)
        channel.basic_publish("start", "b.b", b"other", red)

    publish_both(channel)
    channel = restart()
    publish_both(channel)
    assert bodies(channel, "wanted") == [b"red"] * 2
    # What the middle drops has had a destination at the start: no alternate exchange for it.
    assert bodies(channel, "unwanted") == [b"other"] * 2
    # Redeclaring the same is fine, anything else is a fault, as before.
    channel.exchange_declare("middle", "headers", durable=True, internal=True)
    channel.queue_declare("wanted", durable=True, arguments=arguments)
    with pytest.raises(ChannelClosedByBroker, match="inequivalent arg 'alternate-exchange'"):
        channel.exchange_declare("start", "topic", durable=True)


def test_transient_state_is_gone(channel, restart):
    channel.queue_declare("transient")
    channel.queue_declare("durable", durable=True)
    channel.queue_declare("exclusive", durable=True, exclusive=True)
    channel.exchange_declare("passing", "fanout")
    channel.exchange_declare("lasting", "fanout", durable=True)
    channel.queue_bind("transient", "lasting")
    channel.queue_bind("durable", "passing")
    channel.basic_publish("", "transient", b"persistent message, transient queue", PERSISTENT)
    channel.basic_publish("", "durable", b"transient message, durable queue")
    channel.basic_publish("", "durable", b"kept", PERSISTENT)
    channel = restart(connected=True)
    assert not exists(channel, "queue_declare", "transient")
    assert not exists(channel, "queue_declare", "exclusive")
    assert not exists(channel, "exchange_declare", "passing")
    assert exists(channel, "exchange_declare", "lasting")
    assert bodies(channel, "durable") == [b"kept"]
    # A queue of the old name is a new queue: nothing of the old one clings to it.
    channel.queue_declare("transient")
    channel.basic_publish("lasting", "", b"no longer bound")
    assert bodies(channel, "transient") == []


def test_unacked_messages_come_back_ready_and_redelivered(channel, restart):
    channel.queue_declare("work", durable=True)
    for number in range(6):
        channel.basic_publish("", "work", b"%d" % number, PERSISTENT)
    for _ in range(3):
        channel.basic_get("work")
    channel = restart(connected=True)
    found = [channel.basic_get("work") for _ in range(6)]
    assert [body for _, _, body in found] == [b"%d" % number for number in range(6)]
    assert [method.redelivered for method, _, _ in found[:3]] == [True] * 3


def test_settled_messages_stay_away(channel, restart, promises_settles):
    """Acked, dropped and purged messages do not come back once the broker answered after it."""
    for queue in ("acked", "dropped", "purged", "fetched"):
        channel.queue_declare(queue, durable=True)
        for number in range(4):
            channel.basic_publish("", queue, b"%d" % number, PERSISTENT)
    for _ in range(3):
        channel.basic_ack(channel.basic_get("acked")[0].delivery_tag)
        channel.basic_reject(channel.basic_get("dropped")[0].delivery_tag, requeue=False)
        channel.basic_get("fetched", auto_ack=True)
    channel.queue_purge("purged")
    channel.queue_declare("acked", passive=True)
    channel = restart()
    assert bodies(channel, "acked") == [b"3"]
    assert bodies(channel, "dropped") == [b"3"]
    assert bodies(channel, "fetched") == [b"3"]
    assert bodies(channel, "purged") == []


def test_deleted_things_stay_deleted(channel, restart):
    channel.queue_declare("gone", durable=True)
    channel.exchange_declare("gone", "fanout", durable=True)
    channel.queue_declare("unbound", durable=True)
    channel.exchange_declare("lasting", "fanout", durable=True)
    channel.queue_bind("unbound", "lasting")
    channel.queue_bind("gone", "lasting")
    channel.basic_publish("lasting", "", b"1", PERSISTENT)
    channel.queue_unbind("unbound", "lasting")
    channel.queue_delete("gone")
    channel.exchange_delete("gone")
    channel = restart()
    assert not exists(channel, "queue_declare", "gone")
    assert not exists(channel, "exchange_declare", "gone")
    channel.basic_publish("lasting", "", b"2", PERSISTENT)
    assert bodies(channel, "unbound") == [b"1"]
    channel.queue_declare("gone", durable=True)
    assert bodies(channel, "gone") == []


def test_committed_transactions_survive_whole(broker, restart):
    channel = BlockingConnection(pika.URLParameters(broker.url)).channel()
    for queue in ("one", "two"):
        channel.queue_declare(queue, durable=True)
    channel.tx_select()
    for number in range(5):
        for queue in ("one", "two"):
            channel.basic_publish("", queue, b"%d" % number, PERSISTENT)
    channel.tx_commit()
    for queue in ("one", "two"):
        channel.basic_publish("", queue, b"never committed", PERSISTENT)
    channel.basic_ack(channel.basic_get("one")[0].delivery_tag)
    channel = restart()
    assert bodies(channel, "one") == bodies(channel, "two") == [b"%d" % n for n in range(5)]


def test_one_message_in_many_queues(channel, restart):
    """Each queue has its own reference to a message that is stored once."""
    queues = [f"copy {number}" for number in range(20)]
    channel.exchange_declare("all", "fanout", durable=True)
    for queue in queues:
        channel.queue_declare(queue, durable=True)
        channel.queue_bind(queue, "all")
    for number in range(5):
        channel.basic_publish("all", "", b"%d" % number, PERSISTENT)
    for queue in queues[:10]:
        channel.queue_delete(queue)
    channel = restart()
    for queue in queues[10:]:
        assert bodies(channel, queue) == [b"%d" % number for number in range(5)]


def test_state_survives_many_lives(channel, restart):
    channel.queue_declare("log", durable=True)
    for life in range(5):
        channel.basic_publish("", "log", b"%d" % life, PERSISTENT)
        channel.queue_declare(f"of life {life}", durable=True)
        channel = restart()
    assert bodies(channel, "log") == [b"%d" % life for life in range(5)]
    for life in range(5):
        assert exists(channel, "queue_declare", f"of life {life}")


def test_sigterm_tells_clients_and_exits_with_0(broker):
    connection = BlockingConnection(pika.URLParameters(broker.url))
    channel = connection.channel()
    channel.queue_declare("idle")
    channel.basic_consume("idle", print)
    assert broker.stop() == 0, broker.log_tail()
    with pytest.raises(ConnectionClosedByBroker, match="CONNECTION_FORCED") as caught:
        connection.process_data_events(time_limit=5)
    assert caught.value.reply_code == 320


def test_second_broker_on_a_directory_in_use_is_refused(broker, channel):
    channel.queue_declare("mine", durable=True)
    code, log = broker.start_refused()
    assert code != 0
    assert str(broker.data_dir) in log
    # The first one has not noticed anything.
    channel.basic_publish("", "mine", b"1", PERSISTENT)
    assert bodies(channel, "mine") == [b"1"]
    # A directory is free again as soon as its broker is dead, however it died.
    broker.kill()
    broker.start()


@pytest.mark.timeout(200)
def test_steady_traffic_does_not_grow_the_disk(broker, channel):
    """A quarter of a gigabyte goes through a durable queue; the disk keeps a fraction of it."""
    channel = channel.connection.channel()
    channel.queue_declare("stream", durable=True)
    body = b"x" * 65_536
    for _ in range(16):
        for _ in range(256):
            channel.basic_publish("", "stream", body, PERSISTENT)
        for _ in range(256):
            method, _, _ = channel.basic_get("stream")
            assert method is not None
            channel.basic_ack(method.delivery_tag)
    # What is still there is segments not yet deleted, not messages.
    deadline = time.monotonic() + SECONDS
    while disk_usage(broker) >= 100 * 2**20:
        assert time.monotonic() < deadline
        channel.queue_declare("stream", passive=True)


def disk_usage(broker: BrokerProcess) -> int:
    size = 0
    for path in broker.data_dir.rglob("*.*"):
        # It may be deleted meanwhile.
        with contextlib.suppress(FileNotFoundError):
            size += path.stat().st_size
    return size
