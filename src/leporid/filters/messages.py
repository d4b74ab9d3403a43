"""What a name's value is in one message, by its decoded properties.

    nothing                 void, and what is not there
    true, false             bool
    a whole number          every integer, a timestamp, a decimal without a fraction's places
    a number with a point   both floats, decimals, and times beyond 64 signed bits
    text                    long strings and octets, as bytes
    something else          tables and arrays: neither equal nor comparable to anything

Must not know expressions but for their names. The engine reads the same from encoded bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum
from typing import Final, TypeAlias

from leporid.amqp import tables
from leporid.amqp.properties import Properties
from leporid.filters.nodes import (
    Exchange,
    Header,
    JmsDeliveryMode,
    JmsTimestamp,
    Node,
    Property,
    RoutingKey,
    Tag,
)

TAG_HEADERS: Final = ("x-tag", "x-stream-filter-value")
"""Where a message's tag stands: in the first of these that is a text."""

PERSISTENT: Final = 2

_INTEGER_MAX: Final = 2**63 - 1


class Other(Enum):
    """A table or an array."""

    VALUE = "a table or an array"


Value: TypeAlias = None | bool | int | float | bytes | Other


@dataclass(frozen=True, slots=True)
class FilteredMessage:
    """What of a message an expression can see."""

    properties: Properties = field(default_factory=Properties)
    exchange: str = ""
    routing_key: str = ""

    def value_of(self, name: Node) -> Value:
        """The value of a name."""
        match name:
            case Header():
                return value_of(self._header(name.name))
            case Property():
                return value_of(getattr(self.properties, name.name))
            case RoutingKey():
                return tables.octets_of(self.routing_key)
            case Exchange():
                return tables.octets_of(self.exchange)
            case Tag():
                return self.tag()
            case JmsDeliveryMode():
                persistent = self.properties.delivery_mode == PERSISTENT
                return b"PERSISTENT" if persistent else b"NON_PERSISTENT"
            case JmsTimestamp():
                seconds = self.properties.timestamp
                return None if seconds is None else _milliseconds(seconds)
        raise AssertionError(f"{name} is no name")

    def tag(self) -> bytes | None:
        """The message's tag, if it has one."""
        for name in TAG_HEADERS:
            value = value_of(self._header(name))
            if isinstance(value, bytes):
                return value
        return None

    def _header(self, name: str) -> tables.Value:
        return (self.properties.headers or {}).get(name)


def value_of(field_value: tables.Value) -> Value:
    """A field of a table, or a property, as expressions see it."""
    match field_value:
        case None | bool():
            return field_value
        case int():
            return _number(int(field_value))
        case float():
            return float(field_value)
        case str():
            return tables.octets_of(field_value)
        case bytes():
            return bytes(field_value)
        case Decimal():
            exponent = field_value.as_tuple().exponent
            return int(field_value) if exponent == 0 else float(field_value)
    return Other.VALUE


def _number(value: int) -> int | float:
    return value if value <= _INTEGER_MAX else float(value)


def _milliseconds(seconds: int) -> int | float:
    whole = seconds * 1000
    return whole if whole <= _INTEGER_MAX else float(seconds) * 1000
