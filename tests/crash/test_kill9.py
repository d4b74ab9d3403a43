"""kill -9 under load, again and again: nothing that was confirmed is lost."""

import contextlib
import random
import threading

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


TRANSACTION_MESSAGES = 6
LARGE_BYTES = 400_000


class Committer(threading.Thread):
    """Commits large transactions, one after the other, until the broker dies."""

    def __init__(self, url: str, first: int) -> None:
        super().__init__(name="committer")
        self.committed: list[int] = []
        self.next = first
        self.begun = threading.Event()
        self._url = url

    def run(self) -> None:
        with (
            contextlib.suppress(pika.exceptions.AMQPError),
            pika.BlockingConnection(pika.URLParameters(self._url)) as connection,
        ):
            channel = connection.channel()
            channel.queue_declare("large", durable=True)
            channel.tx_select()
            while True:
                number, self.next = self.next, self.next + 1
                for at in range(TRANSACTION_MESSAGES):
                    body = b"%d:%d:" % (number, at) + bytes([number % 256]) * LARGE_BYTES
                    channel.basic_publish("", "large", body, PERSISTENT)
                channel.tx_commit()
                self.committed.append(number)
                self.begun.set()


def test_a_kill_leaves_all_of_a_large_transaction_or_nothing(broker):
    """They are larger than what is kept aside, and lie in segments of their own."""
    chance = random.Random(4)
    committed: list[int] = []
    following = 0
    for _ in range(3):
        committer = Committer(broker.url, following)
        committer.start()
        assert committer.begun.wait(SECONDS)
        committer.join(chance.random() / 5)
        broker.kill()
        committer.join(SECONDS)
        committed += committer.committed
        following = committer.next
        broker.start()
    found: list[int] = []
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        while (body := channel.basic_get("large", auto_ack=True)[2]) is not None:
            number, at, rest = body.split(b":", 2)
            assert rest == bytes([int(number) % 256]) * LARGE_BYTES
            assert int(at) == len(found) % TRANSACTION_MESSAGES
            found.append(int(number))
    whole = found[::TRANSACTION_MESSAGES]
    assert found == [number for number in whole for _ in range(TRANSACTION_MESSAGES)]
    assert set(committed) <= set(whole)
    assert whole == sorted(set(whole))
    assert broker.stop() == 0, broker.log_tail()
