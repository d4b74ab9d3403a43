"""A sync of very many streams, which goes in steps, and kill -9: nothing confirmed is lost."""

from __future__ import annotations

import pika
import pytest
from tests.crash.load import PERSISTENT

from leporid.testing import BrokerProcess

STREAMS = 2000
ROUNDS = 3


@pytest.mark.timeout(120)
def test_what_is_confirmed_in_each_of_thousands_of_streams_is_there(broker: BrokerProcess):
    names = [f"s{number}" for number in range(STREAMS)]
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        for name in names:
            channel.queue_declare(name, durable=True, arguments={"x-queue-type": "stream"})
    confirmed = publish_to_all(broker, names)
    assert confirmed == STREAMS * ROUNDS
    broker.kill()
    broker.start()
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        counts = [channel.queue_declare(name, passive=True).method.message_count for name in names]
    assert set(counts) == {ROUNDS}
    assert publish_to_all(broker, names) == STREAMS * ROUNDS
    assert broker.stop() == 0, broker.log_tail()


def publish_to_all(broker: BrokerProcess, names: list[str]) -> int:
    """Publish to all streams without waiting, in rounds; return how much of it is confirmed."""
    confirmed = 0

    def opened(channel: pika.channel.Channel) -> None:
        channel.confirm_delivery(note, callback=lambda _: send(channel))

    def send(channel: pika.channel.Channel) -> None:
        for _ in range(ROUNDS):
            for name in names:
                channel.basic_publish("", name, b"m", PERSISTENT)

    def note(frame: pika.frame.Method) -> None:
        nonlocal confirmed
        assert isinstance(frame.method, pika.spec.Basic.Ack)
        confirmed = frame.method.delivery_tag
        if confirmed == ROUNDS * len(names):
            connection.close()

    connection: pika.SelectConnection = pika.SelectConnection(
        pika.URLParameters(broker.url),
        on_open_callback=lambda made: made.channel(on_open_callback=opened),
        on_close_callback=lambda *_: connection.ioloop.stop(),
    )
    connection.ioloop.start()
    connection.ioloop.close()
    return confirmed
