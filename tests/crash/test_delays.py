"""kill -9 in the middle of twenty thousand delays: none is lost, none comes before its time.

Their queue is small and refuses publishes: what is due while it is full waits once more.
"""

import random
import time

import pika
import pytest
from pika import BasicProperties

COUNT = 20_000
KILLS = 4
# More are due in a second than the queue takes, and all within a few seconds.
EARLIEST_MS, LATEST_MS = 3_000, 12_000


@pytest.mark.timeout(300)
def test_kills_among_delays_lose_none_and_none_is_early(broker):
    choose = random.Random(4)
    due = publish(broker.url, choose)
    came: dict[int, float] = {}
    for kill in range(KILLS + 1):
        target = len(due) if kill == KILLS else len(due) * (kill + 1) // (KILLS + 2)
        consume(broker.url, came, due, target)
        if kill < KILLS:
            broker.kill()
            broker.start()
    assert set(came) == set(due)
    assert broker.stop() == 0, broker.log_tail()


def publish(url: str, choose: random.Random) -> dict[int, int]:
    """Publish half of them by x-delay, half by x-deliver-at; return when each is due."""
    due: dict[int, int] = {}
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        arguments = {"x-max-length": 1000, "x-overflow": "reject-publish"}
        channel.queue_declare("q", durable=True, arguments=arguments)
        channel.exchange_declare(
            "d", "x-delayed-message", durable=True, arguments={"x-delayed-type": "fanout"}
        )
        channel.queue_bind("q", "d")
        channel.tx_select()
        for number in range(COUNT):
            delay_ms = choose.randint(EARLIEST_MS, LATEST_MS)
            now_ms = int(time.time() * 1000)
            due[number] = now_ms + delay_ms
            if number % 2:
                header, exchange = {"x-delay": delay_ms}, "d"
            else:
                header, exchange = {"x-deliver-at": now_ms + delay_ms}, ""
            properties = BasicProperties(delivery_mode=2, headers=header)
            channel.basic_publish(exchange, "q", b"%d" % number, properties)
            if number % 1000 == 999:
                channel.tx_commit()
    return due


def consume(url: str, came: dict[int, float], due: dict[int, int], target: int) -> None:
    """Take messages until so many have come; what is unsettled at the end comes again."""
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=500)
        deadline = time.monotonic() + 120
        for method, _, body in channel.consume("q", inactivity_timeout=1):
            assert time.monotonic() < deadline, f"{len(came)} of {target} came"
            if method is None:
                continue
            number = int(body)
            now_ms = time.time() * 1000
            assert now_ms >= due[number], f"{number} came {due[number] - now_ms} ms early"
            came.setdefault(number, now_ms)
            channel.basic_ack(method.delivery_tag)
            if len(came) >= target:
                return
