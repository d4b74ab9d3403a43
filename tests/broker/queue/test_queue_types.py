"""What the types of queues take, in the words of RabbitMQ 3.10.8 where they do not."""

from __future__ import annotations

import pytest

from leporid.amqp.errors import PreconditionFailed
from leporid.amqp.tables import (
    Int8,
    Int32,
    Value,
)
from leporid.broker.queue.queue_types import (
    CLASSIC,
    QUORUM,
    check_consumer_arguments,
    check_queue_arguments,
    queue_type,
)

QUEUE = "queue 'q' in vhost '/'"


def refusal(arguments: dict[str, Value]) -> str:
    with pytest.raises(PreconditionFailed) as raised:
        check_queue_arguments(QUEUE, arguments)
    text = raised.value.text.removeprefix("PRECONDITION_FAILED - ")
    key = text.split("'")[1]
    return text.removeprefix(f"invalid arg '{key}' for {QUEUE}").removeprefix(": ")


def test_the_type_is_asked_for_first_and_then_the_values_in_rabbitmqs_order():
    wrong: dict[str, Value] = {"x-overflow": "no", "x-expires": 0, "x-queue-type": "no"}
    assert "queue type" in refusal(wrong)
    del wrong["x-queue-type"]
    assert refusal(wrong) == "{value_zero,0}"


def test_what_no_queue_knows_is_kept():
    assert check_queue_arguments(QUEUE, {"x-unknown": None, "y": [1]}) is CLASSIC


@pytest.mark.parametrize("kind", ["classic", "quorum"])
def test_what_becomes_of_messages_that_come_back(kind: str):
    """On every queue whose messages do come back; RabbitMQ has it on quorum queues only."""
    for limit in (-1, -5, 0, Int8(20), 32_766):
        check_queue_arguments(QUEUE, {"x-queue-type": kind, "x-delivery-limit": limit})
    arguments: dict[str, Value] = {
        "x-queue-type": kind,
        "x-consumer-timeout": 0,
        "x-consumer-timeout-action": "requeue",
        "x-delayed-retry-type": "failed",
        "x-delayed-retry-min": 10,
        "x-delayed-retry-max": 10,
    }
    check_queue_arguments(QUEUE, arguments)


def test_what_is_ours_alone_is_kept_by_queues_that_do_not_know_it():
    check_queue_arguments(
        QUEUE, {"x-queue-type": "stream", "x-consumer-timeout-action": "no matter"}
    )


def test_types_by_name():
    assert queue_type({}) is CLASSIC
    assert queue_type({"x-queue-type": "quorum"}) is QUORUM
    assert queue_type({"x-queue-type": 5}) is CLASSIC


def test_consumer_arguments():
    check_consumer_arguments(QUEUE, CLASSIC, {"x-priority": Int32(-4), "any": "thing"})
    cases: list[tuple[dict[str, Value], str]] = [
        ({"x-priority": "1"}, 'x-priority\' for {}: "expected integer, got longstr"'),
        ({"x-cancel-on-ha-failover": "1"}, "failover' for {}: {{unacceptable_type,longstr}}"),
        ({"x-stream-offset": "1"}, "x-stream-offset' for {} of queue type rabbit_classic_queue"),
        ({"x-consumer-timeout": -1}, "x-consumer-timeout' for {}: {{value_negative,-1}}"),
        (
            {"x-consumer-timeout-action": "wait"},
            "x-consumer-timeout-action' for {}: invalid_consumer_timeout_action",
        ),
    ]
    for arguments, text in cases:
        with pytest.raises(PreconditionFailed) as raised:
            check_consumer_arguments(QUEUE, CLASSIC, arguments)
        assert raised.value.text.endswith(text.format(QUEUE))
