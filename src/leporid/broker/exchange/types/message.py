"""A message as exchanges see it: its names, and its properties if one of them or a filter asks.

Must not know bodies, nor who publishes. Invariant: headers are not decoded in one piece, and not at
all for a message that meets no exchange that looks at them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from leporid.amqp.constants import SHORTSTR_BYTES_MAX
from leporid.amqp.properties import split_properties
from leporid.amqp.tables import LazyContainer, Value, decode_table, lazy_table, octets_of
from leporid.engine.internal.delays import delay_of
from leporid.engine.selectors.filter import Filter
from leporid.engine.wire.headers import header_of

_NO_PROPERTIES: Final = b"\0\0"


class RoutedMessage:
    """What a message is routed by.

    Attributes:
        keys: Its routing key, then those of its CC and BCC headers; each once.
        raw: Its properties, encoded; empty where no exchange on the way looks at them.
        known: Whether they are. If not, it stands for all messages with these keys, and what
            filters would say is not known.
        exchange: What it was published to, which may be an exchange above.
        keys_hash: Of all keys together, for all modulus-hash exchanges; None until one asks.
        outcomes: What filters said that were asked: 1 yes, 0 no, -1 no for a type error.
    """

    __slots__ = (
        "_found",
        "_split",
        "exchange",
        "keys",
        "keys_hash",
        "known",
        "outcomes",
        "raw",
    )

    def __init__(self, keys: Sequence[str], raw: bytes | None = b"", exchange: str = "") -> None:
        self.keys = tuple(dict.fromkeys(keys))
        self.raw = raw or b""
        self.known = raw is not None
        self.exchange = exchange
        self.keys_hash: int | None = None
        self.outcomes: list[int] = []
        self._found: dict[str, bytes | None] = {}
        self._split: dict[str, bytes] | None = None

    def __repr__(self) -> str:
        return f"<Message {self.keys!r}>"

    def passes(self, wanted: Filter) -> bool:
        """Whether a filter lets it pass; its routing key is the one it was published with."""
        outcome = wanted.outcome(self.exchange, self.keys[0], self.encoded)
        self.outcomes.append(outcome)
        return outcome == 1

    @property
    def encoded(self) -> bytes:
        """Its properties as filters take them."""
        assert self.known
        return self.raw or _NO_PROPERTIES

    @property
    def delay_ms(self) -> int:
        """How long an x-delayed-message exchange that it comes to keeps it; 0: it does not.

        Raises:
            PreconditionFailed: longer than anything may be kept.
        """
        return delay_of(self.raw) if self.raw else 0

    def headers(self) -> Iterable[tuple[str, Value | LazyContainer]]:
        """Returns its headers, which are decoded one by one, as they are asked for."""
        encoded = self.encoded_property("headers")
        return () if encoded is None else lazy_table(encoded)

    def header(self, name: str) -> Value:
        """Returns one header, without decoding the others; None if there is none."""
        field = self.encoded_header(name)
        if field is None:
            return None
        content = b"\1v" + field
        return decode_table(len(content).to_bytes(4, "big") + content)[0]["v"]

    def encoded_header(self, name: str) -> bytes | None:
        """Returns the value of one header as it is encoded, its type first; looked for once."""
        if name not in self._found:
            octets = octets_of(name)
            known = self.raw and len(octets) <= SHORTSTR_BYTES_MAX
            self._found[name] = header_of(self.raw, octets) if known else None
        return self._found[name]

    def encoded_property(self, name: str) -> bytes | None:
        """Returns a property as it is encoded, without decoding any headers."""
        if self._split is None:
            self._split = split_properties(self.raw) if self.raw else {}
        return self._split.get(name)
