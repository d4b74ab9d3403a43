"""The ladder of delays: the published recipe, step by step, and Leporid's own declaration of it."""

import time
from collections.abc import Iterator

import kombu
import pytest
from kombu.transport.native_delayed_delivery import (
    declare_native_delayed_delivery_exchanges_and_queues,
)
from tests.conformance.pika_steps import Inbox

from leporid.cli import main
from leporid.client.ladder import Ladder

LEVELS = 3

# How far from its time a message may come: before it, only what two clocks may differ.
EARLY_SECONDS = 0.02
LATE_SECONDS = 0.1


@pytest.fixture
def prefix(name, channel) -> Iterator[str]:
    """Begins the names of a ladder that is deleted afterwards."""
    made = name("ladder-")
    yield made
    cleaner = channel.connection.channel()
    for prefix in (made, f"{made}a_celery_delayed_", f"{made}b_celery_delayed_"):
        ladder = Ladder(prefix=prefix)
        for level in range(ladder.levels):
            cleaner.queue_delete(ladder.level_name(level))
            cleaner.exchange_delete(ladder.level_name(level))
        cleaner.exchange_delete(ladder.delivery)


def declare_step_by_step(channel, prefix: str, exchange: str, destination: str) -> None:
    """Follow NServiceBus's page on delayed delivery, with three levels and nothing of ours."""
    delivery = f"{prefix}delivery"
    channel.exchange_declare(delivery, "topic", durable=True)
    for level, key in [(2, "1.#"), (1, "*.1.#"), (0, "*.*.1.#")]:
        current = f"{prefix}{level}"
        channel.exchange_declare(current, "topic", durable=True)
        arguments = {
            "x-message-ttl": 2**level * 1000,
            "x-dead-letter-exchange": f"{prefix}{level - 1}" if level else delivery,
        }
        channel.queue_declare(current, durable=True, arguments=arguments)
        channel.queue_bind(current, current, key)
    for level, key in [(2, "0.#"), (1, "*.0.#")]:
        channel.exchange_bind(f"{prefix}{level - 1}", f"{prefix}{level}", key)
    channel.exchange_bind(delivery, f"{prefix}0", "*.*.0.#")
    channel.exchange_bind(exchange, delivery, f"#.{destination}")


@pytest.mark.slow
def test_eight_delays_at_once(channel, name, prefix):
    exchange, queue = name("business"), name("queue")
    channel.exchange_declare(exchange, "topic", durable=True)
    channel.queue_declare(queue, durable=True)
    declare_step_by_step(channel, prefix, exchange, "shop.orders")
    channel.queue_bind(queue, exchange, "#.shop.orders")
    came: dict[str, float] = {}
    sent: dict[str, float] = {}
    channel.basic_consume(
        queue,
        lambda _channel, method, _properties, _body: came.update(
            {method.routing_key: time.monotonic()}
        ),
        auto_ack=True,
    )
    for seconds in reversed(range(2**LEVELS)):
        key = ".".join(f"{seconds:0{LEVELS}b}") + ".shop.orders"
        sent[key] = time.monotonic()
        channel.basic_publish(f"{prefix}{LEVELS - 1}", key, b"")
    deadline = time.monotonic() + 2**LEVELS + 5
    while len(came) < len(sent) and time.monotonic() < deadline:
        channel.connection.process_data_events(time_limit=0.5)
    late = {
        key: round(came[key] - sent[key] - int(key[: 2 * LEVELS].replace(".", ""), 2), 3)
        for key in sent
    }
    assert {key: by for key, by in late.items() if not -EARLY_SECONDS <= by <= LATE_SECONDS} == {}


@pytest.mark.slow
def test_a_message_that_rested_on_two_levels_says_so(channel, name, prefix):
    """And is as it was sent, but for the headers of its dead letters."""
    queue = name()
    ladder = Ladder(2, prefix=prefix, queue_type="classic")
    ladder.declare(channel)
    exchange = name("business")
    channel.exchange_declare(exchange, "topic")
    ladder.bind(channel, exchange, "d")
    channel.queue_declare(queue)
    channel.queue_bind(queue, exchange, "#.d")
    channel.basic_publish(ladder.entry, ladder.key(3, "d"), b"body")
    inbox = Inbox(channel, queue)
    assert inbox.wait_for(1) == [b"body"]
    deaths = inbox.properties[0].headers["x-death"]
    assert [(death["queue"], death["reason"], death["count"]) for death in deaths] == [
        (ladder.level_name(0), "expired", 1),
        (ladder.level_name(1), "expired", 1),
    ]
    assert ladder.destination_of(inbox.deliveries[0].routing_key) == "d"


@pytest.mark.parametrize("queue_type", ["classic", "quorum"])
def test_kombu_and_leporid_declare_the_same(channel, broker_url, prefix, queue_type):
    """Whoever comes second finds everything as he wants it, or his channel would be closed."""
    ours = prefix + "a_celery_delayed_"
    Ladder(prefix=ours, queue_type=queue_type).declare(channel)
    with kombu.Connection(broker_url) as connection:
        declare_native_delayed_delivery_exchanges_and_queues(
            connection, queue_type, prefix=prefix + "a"
        )
        declare_native_delayed_delivery_exchanges_and_queues(
            connection, queue_type, prefix=prefix + "b"
        )
    Ladder(prefix=prefix + "b_celery_delayed_", queue_type=queue_type).declare(channel)


def test_the_command(channel, broker_url, name, prefix, capsys):
    exchange, queue = name("business"), name("queue")
    command = ["delays", "ladder", "--url", broker_url, "--prefix", prefix, "--levels", "3"]
    assert main.main([*command, "--exchange", exchange, "--destination", "d"]) == 0
    assert f"publish to {prefix}2 with key 1.1.1.d" in capsys.readouterr().out
    channel.queue_declare(queue)
    channel.queue_bind(queue, exchange, "#.d")
    channel.basic_publish(f"{prefix}2", "0.0.0.d", b"at once")
    assert Inbox(channel, queue).wait_for(1) == [b"at once"]
    assert main.main([*command, "--queue-type", "classic"]) == 1
    assert "refused: PRECONDITION_FAILED - inequivalent arg" in capsys.readouterr().err
