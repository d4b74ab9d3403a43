"""What names mean in each dialect."""

from __future__ import annotations

import pytest

from leporid.amqp.properties import Properties
from leporid.filters import nodes
from leporid.filters.dialects import Dialect
from leporid.filters.names import PROPERTIES, header, resolve

JMS, ROCKETMQ = Dialect.JMS, Dialect.ROCKETMQ
SPAN = (0, 1)


@pytest.mark.parametrize(
    ("name", "in_jms", "in_rocketmq"),
    [
        ("colour", nodes.Header("colour"), nodes.Header("colour")),
        ("routing_key", nodes.RoutingKey(), nodes.RoutingKey()),
        ("exchange", nodes.Exchange(), nodes.Exchange()),
        ("Exchange", nodes.Header("Exchange"), nodes.Header("Exchange")),
        ("p.type", nodes.Property("type"), nodes.Property("type")),
        ("TAGS", nodes.Header("TAGS"), nodes.Tag()),
        ("JMSType", nodes.Property("type"), nodes.Header("JMSType")),
        ("JMSMessageID", nodes.Property("message_id"), nodes.Header("JMSMessageID")),
        ("JMSPriority", nodes.Property("priority"), nodes.Header("JMSPriority")),
        ("JMSTimestamp", nodes.JmsTimestamp(), nodes.Header("JMSTimestamp")),
        (
            "JMSCorrelationID",
            nodes.Property("correlation_id"),
            nodes.Header("JMSCorrelationID"),
        ),
        ("JMSDeliveryMode", nodes.JmsDeliveryMode(), nodes.Header("JMSDeliveryMode")),
        ("JMSXGroupID", nodes.Header("JMSXGroupID"), nodes.Header("JMSXGroupID")),
    ],
)
def test_meaning(name, in_jms, in_rocketmq):
    assert resolve(name, JMS, SPAN) == in_jms
    assert resolve(name, ROCKETMQ, SPAN) == in_rocketmq


def test_every_property_has_its_name():
    for name in PROPERTIES:
        assert resolve(f"p.{name}", JMS, SPAN) == nodes.Property(name)
        assert hasattr(Properties(), name)


@pytest.mark.parametrize(
    ("name", "dialect", "reason"),
    [
        ("p.x", JMS, '^there is no property "x"; a header of that name is "p.x"$'),
        ("p.prio", JMS, 'there is no property "prio"'),
        ("p.prioritty", JMS, r"did you mean p\.priority\?"),
        ("p.type.x", JMS, "there is no property"),
        ("a.b", JMS, 'is written in quotes: "a.b"'),
        ("a.b", ROCKETMQ, 'is written in quotes: "a.b"'),
        ("JMSReplyTo", JMS, r"p\.reply_to can"),
        ("JMSDestination", JMS, "routing_key can"),
        ("JMSExpiration", JMS, r"p\.expiration can"),
        ("JMSRedelivered", JMS, "cannot stand in a selector"),
        ("größe", ROCKETMQ, 'write "größe"'),
        ("x" * 256, JMS, "at most 255 bytes"),
    ],
)
def test_what_means_nothing_is_refused_with_a_hint(name, dialect, reason):
    with pytest.raises(ValueError, match=reason):
        resolve(name, dialect, SPAN)


def test_every_header_can_be_named_in_quotes():
    assert header("p.type", SPAN) == nodes.Header("p.type")
    assert header("é" * 127, SPAN) == nodes.Header("é" * 127)
    with pytest.raises(ValueError, match="at most 255 bytes"):
        header("é" * 128, SPAN)
