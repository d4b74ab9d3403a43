"""When a redeclaration agrees, in the words of RabbitMQ 3.10.8."""

from __future__ import annotations

from decimal import Decimal

import pytest

from leporid.amqp.errors import PreconditionFailed
from leporid.amqp.tables import (
    Float32,
    Int32,
    UInt8,
    Value,
)
from leporid.broker.queue.queue_types import (
    CLASSIC,
)
from leporid.broker.settings.equivalence import check_same, check_same_arguments

QUEUE = "queue 'q' in vhost '/'"
KEYS = CLASSIC.queue_arguments


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
