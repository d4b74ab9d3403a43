"""What a name in an expression means.

    colour               the header of that name
    "x-tag", "a.b"       the header of that name, whatever it is made of; "" stands for one "
    p.priority, …        a property
    routing_key          of the message
    exchange             …
    JMSType, …           in jms: JMS's names for properties
    TAGS                 in rocketmq: the message's tag

Must not know how names are told from other words. Invariant: every header can be named.
"""

from __future__ import annotations

import difflib
import re
from typing import Final

from leporid.filters.dialects import Dialect
from leporid.filters.nodes import (
    Exchange,
    Header,
    JmsDeliveryMode,
    JmsTimestamp,
    Node,
    Property,
    RoutingKey,
    Span,
    Tag,
)

PROPERTIES: Final = (
    "message_id",
    "type",
    "priority",
    "timestamp",
    "correlation_id",
    "reply_to",
    "content_type",
    "content_encoding",
    "expiration",
    "user_id",
    "app_id",
    "delivery_mode",
)

HEADER_BYTES_MAX: Final = 255
"""A header's name is a short string."""

_JMS: Final = {
    "JMSMessageID": "message_id",
    "JMSType": "type",
    "JMSPriority": "priority",
    "JMSCorrelationID": "correlation_id",
}

# JMS keeps its other fields out of selectors.
_JMS_REFUSED: Final = {
    "JMSDestination": "routing_key",
    "JMSReplyTo": "p.reply_to",
    "JMSExpiration": "p.expiration",
    "JMSRedelivered": None,
}

_ROCKETMQ_NAME: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")


def header(name: str, span: Span) -> Node:
    """A name in double quotes.

    Raises:
        ValueError: no header can have it.
    """
    if len(name.encode()) > HEADER_BYTES_MAX:
        raise ValueError(f"the name of a header has at most {HEADER_BYTES_MAX} bytes")
    return Header(name, span=span)


def resolve(name: str, dialect: Dialect, span: Span) -> Node:
    """A name without quotes.

    Raises:
        ValueError: it means nothing; the text says what to write instead.
    """
    if name == "routing_key":
        return RoutingKey(span=span)
    if name == "exchange":
        return Exchange(span=span)
    if "." in name:
        return _property(name, span)
    if dialect is Dialect.JMS:
        return _jms(name, span)
    if name == "TAGS":
        return Tag(span=span)
    if not _ROCKETMQ_NAME.fullmatch(name):
        raise ValueError(f'write "{name}": names without quotes are of A-Z, a-z, 0-9, _ and $')
    return header(name, span)


def _property(name: str, span: Span) -> Node:
    space, _, rest = name.partition(".")
    if space == "p" and rest in PROPERTIES:
        return Property(rest, span=span)
    if space == "p":
        near = difflib.get_close_matches(rest, PROPERTIES, 1)
        meant = f"did you mean p.{near[0]}? A" if near else "a"
        raise ValueError(f'there is no property "{rest}"; {meant} header of that name is "{name}"')
    raise ValueError(f'a header whose name has a dot is written in quotes: "{name}"')


def _jms(name: str, span: Span) -> Node:
    if name in _JMS:
        return Property(_JMS[name], span=span)
    if name == "JMSTimestamp":
        return JmsTimestamp(span=span)
    if name == "JMSDeliveryMode":
        return JmsDeliveryMode(span=span)
    if name in _JMS_REFUSED:
        instead = _JMS_REFUSED[name]
        raise ValueError(
            f"{name} cannot stand in a selector (JMS 3.8.1)"
            + (f"; {instead} can" if instead else "")
        )
    return header(name, span)
