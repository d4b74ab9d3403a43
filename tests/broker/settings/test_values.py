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
from leporid.broker.queue.queue_types import (
    CLASSIC,
    check_queue_arguments,
)
from leporid.broker.settings.values import duration_ms, exchange_name

QUEUE = "queue 'q' in vhost '/'"
STREAM_REFUSES = " of queue type rabbit_stream_queue"
KEYS = CLASSIC.queue_arguments
DAY_MS = 86_400_000


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


def test_the_exchange_an_argument_names():
    assert exchange_name({}, "alternate-exchange", "thing") is None
    assert exchange_name({"alternate-exchange": ""}, "alternate-exchange", "thing") == ""
    with pytest.raises(PreconditionFailed) as raised:
        exchange_name({"k": Timestamp(2)}, "k", QUEUE)
    assert raised.value.text.endswith(f"invalid type 'timestamp' for arg 'k' in {QUEUE}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7D", 7 * DAY_MS),
        ("1Y", 365 * DAY_MS),
        ("2M", 60 * DAY_MS),
        ("1h", 3_600_000),
        ("3m", 180_000),
        ("4s", 4_000),
        ("01D", DAY_MS),
        ("99999999999999D", 99999999999999 * DAY_MS),
    ],
)
def test_a_length_of_time_is_a_number_and_a_unit(text: str, expected: int):
    assert duration_ms(text) == expected


NOT_DURATIONS = ["h", "7", "0s", "7d", "7H", "7S", "-1D", "+1D", "1.5D", "1DD", "1D2h", "٣D"]


@pytest.mark.parametrize("text", [*NOT_DURATIONS, "", " 1D", "1D ", "1D\n", "9" * 100_000 + "D"])
def test_anything_else_is_no_length_of_time(text: str):
    assert duration_ms(text) is None
