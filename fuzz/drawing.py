"""What mutations and seeds are made of: values that the broker knows, chosen by a number.

Must not know what a target does with them. Invariant: the same number gives the same values.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from decimal import Decimal
from typing import Final, TypeVar

from leporid.amqp.properties import Properties, encode_properties
from leporid.amqp.tables import (
    ByteArray,
    Float32,
    Int8,
    Int32,
    LongString,
    Timestamp,
    UInt8,
    UInt32,
    Value,
)
from leporid.broker.exchange.types import EXCHANGE_TYPES
from leporid.broker.settings.table import SETTINGS

T = TypeVar("T")

# Few, so that two parts of an input speak of the same thing.
NAMES: Final = (
    "",
    "q",
    "r",
    "e",
    "f",
    "s",
    "amq.topic",
    "amq.fanout",
    "amq.rabbitmq.reply-to",
    "a.b",
)
KINDS: Final = (*EXCHANGE_TYPES, "x-delayed-message")
HEADERS: Final = (
    "n",
    "CC",
    "BCC",
    "x-delay",
    "x-deliver-at",
    "x-deduplication-header",
    "x-cache-ttl",
    "x-stream-filter-value",
    "x-tag",
    "x-death",
)
ARGUMENTS: Final = (
    *dict.fromkeys(each.name for each in SETTINGS if each.place not in ("policy", "key", "table")),
    "x-queue-type",
    "x-reader",
    "x-group",
    "x-filter-class",
    "x-filter-class",
    "x-match",
    "partitions",
)
WORDS: Final = (
    *(
        "stream",
        "classic",
        "quorum",
        "first",
        "last",
        "next",
        "1h",
        "10s",
        "all",
        "any",
        "any-with-x",
    ),
    *("drop-head", "reject-publish", "reject-publish-dlx", "at-least-once", "at-most-once"),
    *("fc", "failed", "returned", "disabled", "memory", "disk", "lazy", "jms", "rocketmq"),
    *("n > 5", "n IS NULL OR \"x-tag\" LIKE 'a%_'", "a || b", "*", "#", "a.*.#", "1", "10"),
)
_NUMBERS: Final = (0, 1, 2, 5, 10, 100, 255, 256, 1000, 65535, 2**31 - 1, 2**32 - 1, 2**63 - 1, -1)


class Drawing:
    """Values in an order that a number says."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def below(self, end: int) -> int:
        """A number from 0 on."""
        return self._random.randrange(max(end, 1))

    def one_of(self, values: Sequence[T]) -> T:
        """One of these."""
        return self._random.choice(values)

    def octets(self, size_max: int) -> bytes:
        """Some octets."""
        return self._random.randbytes(self.below(size_max + 1))

    def text(self) -> str:
        """A name or a word."""
        return self.one_of(self.one_of((NAMES, WORDS, ARGUMENTS, KINDS)))

    def number(self) -> int:
        """A number that is likely to be at some limit."""
        return self.one_of(_NUMBERS)

    def value(self, depth: int = 0) -> Value:
        """A value of a table."""
        number = self.number()
        match self.below(14 if depth < 3 else 10):
            case 0:
                return self.below(2) == 1
            case 1 | 2:
                return max(-(2**63), number)
            case 3:
                return self.one_of((Int8(number % 128), UInt8(number % 256), Int32(number % 2**31)))
            case 4:
                return self.one_of((UInt32(number % 2**32), Timestamp(number % 2**64)))
            case 5:
                return self.one_of((Float32(0.5), 1e300, -0.0, Decimal("1.25"), None))
            case 6:
                return self.one_of(
                    (ByteArray(self.octets(8)), LongString(b"\xff" + self.octets(4)))
                )
            case 10:
                return [self.value(depth + 1) for _ in range(self.below(4))]
            case 11:
                return self.table(HEADERS, depth + 1)
            case _:
                return self.text()

    def table(self, keys: Sequence[str], depth: int = 0) -> dict[str, Value]:
        """A table with some of these keys."""
        return {self.one_of(keys): self.value(depth) for _ in range(self.below(4))}

    def _maybe(self, value: T) -> T | None:
        return value if self.below(4) == 0 else None

    def properties(self) -> bytes:
        """Encoded properties of a message."""
        return encode_properties(
            Properties(
                headers=self.table(HEADERS) if self.below(2) else None,
                delivery_mode=self.one_of((None, 1, 2, 0)),
                priority=self._maybe(self.below(256)),
                correlation_id=self._maybe(self.text()),
                reply_to=self._maybe(self.one_of(NAMES)),
                expiration=self._maybe(str(self.number())),
                message_id=self._maybe(self.one_of((self.text(), "\udcff"))),
                timestamp=self._maybe(self.number() % 2**64),
                user_id=self._maybe(self.one_of(("guest", "reader"))),
            )
        )
