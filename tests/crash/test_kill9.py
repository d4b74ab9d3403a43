"""kill -9 under load, again and again: nothing that was confirmed is lost."""

import contextlib
import random

import pika
import pytest
from tests.crash.load import PERSISTENT, Consumer, Publisher, body_of, drain, number_of

from leporid.testing import BrokerError, BrokerProcess

KILLS = 20
# A kill falls when so many more messages are confirmed; while the next are being written.
CONFIRMS_BETWEEN_KILLS = (50, 1500)
SECONDS = 30


def declare(broker: BrokerProcess) -> None:
    """One exchange that copies to two queues: one is consumed from, one is not."""
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.exchange_declare("both", "fanout", durable=True)
        for queue in ("kept", "worked"):
            channel.queue_declare(queue, durable=True)
            channel.queue_bind(queue, "both")


@pytest.mark.timeout(300)
def test_twenty_kills_lose_nothing_confirmed(broker):
    choose = random.Random(9)
    declare(broker)
    confirmed: set[int] = set()
    worked: list[int] = []
    next_number = 0
    for _ in range(KILLS):
        target = choose.randint(*CONFIRMS_BETWEEN_KILLS)
        publisher = Publisher(broker.url, "both", next_number, target)
        consumer = Consumer(broker.url, "worked")
        publisher.start()
        consumer.start()
        on_time = publisher.on_target.wait(SECONDS)
        broker.kill()
        publisher.join(SECONDS)
        consumer.join(SECONDS)
        assert on_time, f"{len(publisher.confirmed)} of {target} confirms after {SECONDS} s"
        assert publisher.refused is None
        confirmed |= publisher.confirmed
        worked += consumer.numbers
        next_number = publisher.next_number
        broker.start()

    kept = [number_of(body) for body in drain(broker.url, "kept")]
    worked += [number_of(body) for body in drain(broker.url, "worked")]
    assert confirmed - set(kept) == set(), "confirmed, and gone from the queue without consumer"
    assert confirmed - set(worked) == set(), "confirmed, never delivered, and gone"
    assert max(*kept, *worked) < next_number
    assert kept == sorted(set(kept)), "out of order or twice in one queue"
    assert broker.stop() == 0, broker.log_tail()


@pytest.mark.timeout(300)
def test_kills_while_starting_lose_nothing(broker):
    """A start that is cut short, at whatever moment, leaves the next one all it needs."""
    declare(broker)
    publisher = Publisher(broker.url, "both", 0, 2000)
    publisher.start()
    assert publisher.on_target.wait(SECONDS)
    broker.kill()
    publisher.join(SECONDS)
    for milliseconds in range(100, 800, 50):
        # Out of time: the process is killed, wherever it was.
        with contextlib.suppress(BrokerError):
            broker.start(milliseconds / 1000)
            broker.kill()
            break
    broker.start()
    for queue in ("kept", "worked"):
        numbers = [number_of(body) for body in drain(broker.url, queue)]
        assert publisher.confirmed - set(numbers) == set()
        assert numbers == sorted(set(numbers))
    assert broker.stop() == 0, broker.log_tail()


def test_one_confirmed_message_survives_at_once(broker):
    """The confirm of the last publish, with nothing after it to make anybody write."""
    for number in range(3):
        with (
            contextlib.suppress(pika.exceptions.AMQPError),
            pika.BlockingConnection(pika.URLParameters(broker.url)) as connection,
        ):
            channel = connection.channel()
            channel.queue_declare("one", durable=True)
            channel.confirm_delivery()
            channel.basic_publish("", "one", body_of(number), PERSISTENT)
            broker.kill()
        broker.start()
    assert [number_of(body) for body in drain(broker.url, "one")] == [0, 1, 2]
