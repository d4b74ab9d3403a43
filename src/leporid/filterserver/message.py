"""A message as a filter class sees it: nothing is decoded before it is asked for.

Responsible for the names of what a filter may look at; docs/filter-classes.md lists them, and they
stay. Must not know where the bytes come from. Invariant: looking costs only what is looked at; a
filter that reads one header does not pay for the others' properties nor for the body.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from leporid.amqp import constants
from leporid.amqp.properties import Properties, decode_properties
from leporid.amqp.tables import Value, decode_table
from leporid.filterserver.frames import COUNT, SIZES

TAG_HEADERS: Final = ("x-tag", "x-stream-filter-value")
"""Where a message's tag is; the first that is a text counts."""

_HEADERS: Final = constants.FLAG_HEADERS >> 8
_TEXTS_BEFORE: Final = (constants.FLAG_CONTENT_TYPE >> 8, constants.FLAG_CONTENT_ENCODING >> 8)


class Message:
    """One message. Its values are decoded once, when they are first asked for."""

    __slots__ = ("_at", "_body_at", "_data", "_end", "_headers", "_properties", "_properties_at")

    _headers: dict[str, Value]
    _properties: Properties

    def __init__(self, data: bytes, at: int, properties_at: int, body_at: int, end: int) -> None:
        self._data = data
        self._at = at
        self._properties_at = properties_at
        self._body_at = body_at
        self._end = end

    def __repr__(self) -> str:
        return (
            f"<Message exchange={self.exchange!r} routing_key={self.routing_key!r} "
            f"body={self._end - self._body_at} bytes>"
        )

    @property
    def exchange(self) -> str:
        """The exchange that it was published to."""
        data, at = self._data, self._at + 1
        return data[at : at + data[at - 1]].decode("utf-8", "surrogateescape")

    @property
    def routing_key(self) -> str:
        """What it was published with."""
        data = self._data
        at = self._at + 2 + data[self._at]
        return data[at : at + data[at - 1]].decode("utf-8", "surrogateescape")

    @property
    def headers(self) -> dict[str, Value]:
        """Its headers; empty without any. They are this message's only, and may be changed."""
        try:
            return self._headers
        except AttributeError:
            self._headers = found = self._decode_headers()
            return found

    def _decode_headers(self) -> dict[str, Value]:
        data, at = self._data, self._properties_at
        flags = data[at]
        if not flags & _HEADERS:
            return {}
        at += 2
        for text in _TEXTS_BEFORE:
            if flags & text:
                at += 1 + data[at]
        return decode_table(data, at)[0]

    @property
    def tag(self) -> str | None:
        """Its tag, as of `x-filter-tags`; None without one."""
        for name in TAG_HEADERS:
            tag = self.headers.get(name)
            if isinstance(tag, str):
                return tag
        return None

    @property
    def properties(self) -> Properties:
        """Its properties: `message_id`, `type`, `priority` …; None is one that it does not have."""
        try:
            return self._properties
        except AttributeError:
            raw = self._data[self._properties_at : self._body_at]
            self._properties = found = decode_properties(raw)
            return found

    @property
    def body(self) -> bytes:
        """What is in it."""
        return self._data[self._body_at : self._end]


def messages_of(payload: bytes) -> Iterator[Message]:
    """Return the messages of a BATCH frame, in order."""
    (count,) = COUNT.unpack_from(payload)
    at = COUNT.size + count * SIZES.size
    for names, properties, body in SIZES.iter_unpack(payload[COUNT.size : at]):
        body_at = at + names + properties
        yield Message(payload, at, at + names, body_at, body_at + body)
        at = body_at + body
