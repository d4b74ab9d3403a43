"""What names are in a message."""

from __future__ import annotations

from decimal import Decimal

import pytest

from leporid.amqp import tables
from leporid.amqp.properties import Properties
from leporid.filters import nodes
from leporid.filters.messages import FilteredMessage, Other, value_of


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (None, None),
        (True, True),
        (tables.Int8(-5), -5),
        (tables.UInt32(5), 5),
        (2**63 - 1, 2**63 - 1),
        (tables.Timestamp(5), 5),
        (tables.Timestamp(2**63), 2.0**63),
        (tables.Float32(0.5), 0.5),
        (2.0, 2.0),
        (Decimal(7), 7),
        (Decimal("7.0"), 7.0),
        (Decimal("1E-255"), 1e-255),
        ("é", b"\xc3\xa9"),
        (tables.LongString(b"\xff"), b"\xff"),
        (tables.ByteArray(b"x"), b"x"),
        ({"a": 1}, Other.VALUE),
        ([], Other.VALUE),
    ],
)
def test_fields(field, value):
    found = value_of(field)
    assert found == value
    assert type(found) is type(value)


def test_names():
    message = FilteredMessage(
        Properties(headers={"a": 1}, priority=7, type="t", delivery_mode=2, timestamp=5), "x", "k"
    )
    assert message.value_of(nodes.Header("a")) == 1
    assert message.value_of(nodes.Header("A")) is None
    assert message.value_of(nodes.Property("priority")) == 7
    assert message.value_of(nodes.Property("type")) == b"t"
    assert message.value_of(nodes.Property("app_id")) is None
    assert message.value_of(nodes.RoutingKey()) == b"k"
    assert message.value_of(nodes.Exchange()) == b"x"
    assert message.value_of(nodes.JmsDeliveryMode()) == b"PERSISTENT"
    assert message.value_of(nodes.JmsTimestamp()) == 5000
    assert message.value_of(nodes.Tag()) is None


def test_a_message_with_nothing():
    message = FilteredMessage()
    assert message.value_of(nodes.Header("a")) is None
    assert message.value_of(nodes.JmsDeliveryMode()) == b"NON_PERSISTENT"
    assert message.value_of(nodes.JmsTimestamp()) is None
    assert message.value_of(nodes.Exchange()) == b""


@pytest.mark.parametrize(
    ("headers", "tag"),
    [
        ({"x-tag": "A"}, b"A"),
        ({"x-stream-filter-value": "B"}, b"B"),
        ({"x-stream-filter-value": "B", "x-tag": "A"}, b"A"),
        ({"x-stream-filter-value": "B", "x-tag": 5}, b"B"),
        ({"x-tag": 5}, None),
        ({"x-tag": None}, None),
        ({"x-tag": ""}, b""),
        (None, None),
    ],
)
def test_tags(headers, tag):
    assert FilteredMessage(Properties(headers=headers)).tag() == tag
