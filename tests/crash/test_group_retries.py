"""kill -9 while a group retries: what came back has its count, the group goes on where it was."""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress

import pika
from pika.exceptions import AMQPError
from tests.conformance.pika_steps import Inbox, pump

from leporid.testing import BrokerProcess

ARGUMENTS = {
    "x-group": "g",
    "x-stream-offset": "first",
    "x-delivery-limit": 5,
    "x-delayed-retry-min": 300,
}


def join(broker: BrokerProcess) -> Inbox:
    channel = pika.BlockingConnection(pika.URLParameters(broker.url)).channel()
    channel.confirm_delivery()
    channel.basic_qos(prefetch_count=50)
    return Inbox(channel, "s", arguments=ARGUMENTS)


def give_back(inbox: Inbox, bodies: set[bytes]) -> None:
    """Refuse some messages, acknowledge the others; return when all of it is on disk."""
    for delivery, body in zip(inbox.deliveries, inbox.bodies, strict=True):
        if body in bodies:
            inbox.channel.basic_nack(delivery.delivery_tag, requeue=True)
        else:
            inbox.channel.basic_ack(delivery.delivery_tag)
    inbox.channel.queue_declare("other", durable=True)
    inbox.channel.basic_publish("", "other", b"", pika.BasicProperties(delivery_mode=2))


def kill(broker: BrokerProcess, inbox: Inbox) -> Inbox:
    """Kill the broker, start it again and join again."""
    broker.kill()
    with suppress(AMQPError):
        inbox.channel.connection.process_data_events(time_limit=1)
    broker.start()
    return join(broker)


def stored_offset(broker: BrokerProcess) -> int | None:
    """Return what a start would find of the group's offset."""
    path = broker.data_dir / "definitions.db"
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as definitions:
        found = definitions.execute("SELECT offset FROM reader_offsets WHERE reader = 'g'")
        return next((offset for (offset,) in found), None)


def counts(inbox: Inbox) -> dict[bytes, int]:
    return {
        body: each.headers.get("x-delivery-count", 0)
        for body, each in zip(inbox.bodies, inbox.properties, strict=True)
    }


def test_what_came_back_has_its_count_after_kills(broker: BrokerProcess):
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("s", durable=True, arguments={"x-queue-type": "stream"})
        for number in range(20):
            channel.basic_publish("", "s", b"%d" % number)
    poison = {b"3", b"11", b"19"}
    inbox = join(broker)
    inbox.wait_for(20)
    give_back(inbox, poison)
    pump(inbox.channel.connection, lambda: stored_offset(broker) == 19)
    inbox = kill(broker, inbox)
    inbox.wait_for(3)
    assert counts(inbox) == dict.fromkeys(poison, 1)
    give_back(inbox, poison)
    inbox = kill(broker, inbox)
    inbox.channel.basic_publish("", "s", b"last")
    inbox.wait_for(4)
    assert counts(inbox) == {b"last": 0, **dict.fromkeys(poison, 2)}
    inbox.channel.basic_ack(0, multiple=True)
    inbox.channel.connection.close()
