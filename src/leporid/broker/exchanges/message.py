"""A message as exchanges see it: its routing keys, and its properties if one of them asks.

Must not know bodies, nor who publishes. Invariant: properties are decoded once at most, and not
at all for a message that meets no exchange that looks at them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from leporid.amqp.properties import Properties, decode_properties
from leporid.amqp.tables import Value
from leporid.engine.delays import delay_of

_NONE: Final[Mapping[str, Value]] = {}


class Message:
    """What a message is routed by.

    Attributes:
        keys: Its routing key, then those of its CC and BCC headers; each once.
        raw: Its properties, encoded; empty where no exchange on the way looks at them.
    """

    __slots__ = ("_properties", "keys", "raw")

    def __init__(self, keys: Sequence[str], raw: bytes = b"") -> None:
        self.keys = tuple(dict.fromkeys(keys))
        self.raw = raw
        self._properties: Properties | None = None

    def __repr__(self) -> str:
        return f"<Message {self.keys!r}>"

    @property
    def properties(self) -> Properties:
        """Its properties."""
        if self._properties is None:
            self._properties = decode_properties(self.raw) if self.raw else Properties()
        return self._properties

    @property
    def delay_ms(self) -> int:
        """How long an x-delayed-message exchange that it comes to keeps it; 0: it does not.

        Raises:
            PreconditionFailed: longer than anything may be kept.
        """
        return delay_of(self.raw) if self.raw else 0

    @property
    def headers(self) -> Mapping[str, Value]:
        """Its headers, empty without any."""
        return self.properties.headers or _NONE
