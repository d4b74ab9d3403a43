"""What RabbitMQ 3.10.8 answered to the same arguments, text for text."""

from __future__ import annotations

from decimal import Decimal

import pytest

from leporid.amqp.errors import PreconditionFailed
from leporid.amqp.tables import (
    ByteArray,
    Float32,
    Int8,
    Int16,
    Int32,
    Timestamp,
    UInt8,
    UInt16,
    UInt32,
    Value,
)
from leporid.broker.arguments import (
    CLASSIC,
    QUORUM,
    check_consumer_arguments,
    check_queue_arguments,
    check_same,
    check_same_arguments,
    exchange_name,
    queue_type,
)

QUEUE = "queue 'q' in vhost '/'"
STREAM_REFUSES = " of queue type rabbit_stream_queue"
KEYS = CLASSIC.queue_arguments


def refusal(arguments: dict[str, Value]) -> str:
    with pytest.raises(PreconditionFailed) as raised:
        check_queue_arguments(QUEUE, arguments)
    text = raised.value.text.removeprefix("PRECONDITION_FAILED - ")
    key = text.split("'")[1]
    return text.removeprefix(f"invalid arg '{key}' for {QUEUE}").removeprefix(": ")


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("x", "longstr"),
        (True, "bool"),
        (1.5, "double"),
        (Float32(1.0), "float"),
        (Decimal("3.14"), "decimal"),
        (None, "void"),
        ({}, "table"),
        ([], "array"),
        (Timestamp(5), "timestamp"),
        (ByteArray(b"ab"), "binary"),
    ],
)
def test_a_number_is_wanted(value: Value, name: str):
    assert refusal({"x-message-ttl": value}) == f'"expected integer, got {name}"'


@pytest.mark.parametrize("kind", [Int8, UInt8, Int16, UInt16, Int32, UInt32, int])
def test_any_size_of_number_will_do(kind: type[int]):
    check_queue_arguments(QUEUE, {"x-message-ttl": kind(3), "x-max-length": kind(0)})


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"x-message-ttl": Int32(-1)}, "{value_negative,-1}"),
        ({"x-message-ttl": 1 << 40}, "{value_too_large,1099511627776}"),
        ({"x-expires": Int32(0)}, "{value_zero,0}"),
        ({"x-expires": Int32(-1)}, "{value_negative,-1}"),
        ({"x-expires": 1 << 40}, "{value_too_large,1099511627776}"),
        ({"x-max-length": -1}, "{value_negative,-1}"),
        ({"x-max-length-bytes": -1}, "{value_negative,-1}"),
        ({"x-overflow": "keep"}, "invalid_overflow"),
        ({"x-overflow": Int32(1)}, "{unacceptable_type,signedint}"),
        ({"x-overflow": ByteArray(b"drop-head")}, "{unacceptable_type,binary}"),
        ({"x-max-priority": 256}, "{max_value_exceeded,256}"),
        ({"x-max-priority": -1}, "{value_negative,-1}"),
        ({"x-single-active-consumer": "true"}, "{unacceptable_type,longstr}"),
        ({"x-single-active-consumer": Int32(1)}, "{unacceptable_type,signedint}"),
        ({"x-message-deduplication": "true"}, "{unacceptable_type,longstr}"),
        ({"x-queue-type": "stream", "x-message-deduplication": True}, STREAM_REFUSES),
        ({"x-queue-mode": "fast"}, "\"unsupported queue mode 'fast'\""),
        ({"x-queue-mode": Int32(1)}, "{unacceptable_type,signedint}"),
        ({"x-queue-type": "other"}, "\"unsupported queue type 'other'\""),
        ({"x-queue-type": Int32(1)}, "{unacceptable_type,signedint}"),
        ({"x-queue-version": 3}, "\"unsupported queue version '3'\""),
        ({"x-dead-letter-routing-key": "a"}, "routing_key_but_no_dlx_defined"),
        (
            {"x-dead-letter-routing-key": Int32(1), "x-dead-letter-exchange": "d"},
            "{unacceptable_type,signedint}",
        ),
        (
            {"x-dead-letter-routing-key": "\u00e9" * 128, "x-dead-letter-exchange": "d"},
            '"expected at most 255 bytes of text"',
        ),
        ({"x-max-age": "1h"}, " of queue type rabbit_classic_queue"),
        ({"x-dead-letter-strategy": "at-most-once"}, " of queue type rabbit_classic_queue"),
        ({"x-delivery-limit": "2"}, '"expected integer, got longstr"'),
        ({"x-delivery-limit": 32_767}, "{value_too_large,32767}"),
        ({"x-consumer-timeout": -1}, "{value_negative,-1}"),
        ({"x-consumer-timeout": 1 << 40}, "{value_too_large,1099511627776}"),
        ({"x-consumer-timeout-action": "cancel"}, "invalid_consumer_timeout_action"),
        ({"x-consumer-timeout-action": True}, "{unacceptable_type,bool}"),
        ({"x-delayed-retry-type": "some"}, "invalid_delayed_retry_type"),
        ({"x-delayed-retry-min": 0}, "{value_zero,0}"),
        ({"x-delayed-retry-max": 1 << 40}, "{value_too_large,1099511627776}"),
        (
            {"x-delayed-retry-min": 10, "x-delayed-retry-max": 9},
            '"delayed-retry-max (9) must not be smaller than delayed-retry-min (10)"',
        ),
        (
            {"x-queue-type": "stream", "x-delivery-limit": 1},
            " of queue type rabbit_stream_queue",
        ),
        (
            {"x-queue-type": "stream", "x-consumer-timeout": 1},
            " of queue type rabbit_stream_queue",
        ),
        ({"x-queue-type": "quorum", "x-max-priority": 2}, " of queue type rabbit_quorum_queue"),
        ({"x-queue-type": "quorum", "x-dead-letter-strategy": "x"}, "invalid_dlx_strategy"),
        ({"x-queue-type": "quorum", "x-quorum-initial-group-size": 0}, "{value_zero,0}"),
        ({"x-queue-type": "quorum", "x-queue-leader-locator": "x"}, "invalid_queue_locator_arg"),
    ],
)
def test_refused_in_rabbitmqs_words(arguments: dict[str, Value], text: str):
    assert refusal(arguments) == text


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


def test_the_exchange_an_argument_names():
    assert exchange_name({}, "alternate-exchange", "thing") is None
    assert exchange_name({"alternate-exchange": ""}, "alternate-exchange", "thing") == ""
    with pytest.raises(PreconditionFailed) as raised:
        exchange_name({"k": Timestamp(2)}, "k", QUEUE)
    assert raised.value.text.endswith(f"invalid type 'timestamp' for arg 'k' in {QUEUE}")


def inequivalence(current: dict[str, Value], received: dict[str, Value]) -> str:
    with pytest.raises(PreconditionFailed) as raised:
        check_same_arguments(QUEUE, current, received, KEYS)
    text = raised.value.text
    assert f"for {QUEUE}: " in text
    return text.split(f"{QUEUE}: ")[1]


TTL: dict[str, Value] = {"x-message-ttl": Int32(5)}


@pytest.mark.parametrize(
    ("received", "text"),
    [
        ({"x-message-ttl": Int32(6)}, "received '6' but current is '5'"),
        ({"x-message-ttl": "x"}, "received 'x' but current is '5'"),
        ({"x-message-ttl": 5.0}, "received '5.0' but current is '5'"),
        ({"x-message-ttl": None}, "received none but current is '5'"),
        (
            {"x-message-ttl": [Int32(1), 'é"x']},
            "received '[{signedint,1},{longstr,<<\"é\\\"x\">>}]' but current is '5'",
        ),
        (
            {"x-message-ttl": {"a": Int32(1)}},
            "received '[{<<\"a\">>,signedint,1}]' but current is '5'",
        ),
        ({}, "received none but current is the value '5' of type 'signedint'"),
        (
            {**TTL, "x-single-active-consumer": True},
            "received the value 'true' of type 'bool' but current is none",
        ),
        (
            {**TTL, "x-overflow": Decimal("0.2")},
            "received the value '{1,2}' of type 'decimal' but current is none",
        ),
        ({**TTL, "x-expires": []}, "received the value '[]' of type 'array' but current is none"),
        (
            {**TTL, "x-expires": 1e20},
            "received the value '1.0e20' of type 'double' but current is none",
        ),
    ],
)
def test_redeclared_otherwise(received: dict[str, Value], text: str):
    assert inequivalence(TTL, received) == text


def test_redeclared_the_same():
    same: list[dict[str, Value]] = [
        TTL,
        {"x-message-ttl": 5},
        {"x-message-ttl": UInt8(5)},
        {**TTL, "x-queue-type": "classic"},
        {**TTL, "unknown": 3},
    ]
    for received in same:
        check_same_arguments(QUEUE, TTL, received, KEYS)
        check_same_arguments(QUEUE, received, TTL, KEYS)


def test_numbers_are_not_equal_across_classes():
    assert inequivalence({"x-max-length": 1}, {"x-max-length": True}).startswith("received 'true'")
    inequivalence({"x-max-length": 5}, {"x-max-length": Decimal(5)})
    inequivalence({"x-expires": [1]}, {"x-expires": [Int32(1)]})
    check_same_arguments(QUEUE, {"x-expires": 0.5}, {"x-expires": Float32(0.5)}, KEYS)


def test_properties():
    check_same(QUEUE, "durable", True, True)
    with pytest.raises(PreconditionFailed, match="received 'false' but current is 'true'"):
        check_same(QUEUE, "durable", True, False)
    with pytest.raises(PreconditionFailed, match="received 'topic' but current is 'direct'"):
        check_same(QUEUE, "type", "direct", "topic")
