"""Properties and bodies of messages as JSON has them, and back; tables of arguments in requests.

Responsible for one way to write each of them, RabbitMQ's. Must not know routes, nor what a key
means. Invariant: what comes from JSON has an encoding in AMQP, or is refused; what is no text in
AMQP is approximated in JSON, but for bodies, which are in base64 then.
"""

from __future__ import annotations

import base64
import codecs
import json
from collections.abc import Iterator
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from leporid.amqp.json_values import shown, table_of
from leporid.amqp.properties import Properties, encode_properties, split_properties
from leporid.amqp.tables import LazyContainer, lazy_table
from leporid.management.listings import Written, written
from leporid.management.refusals import Refusal

if TYPE_CHECKING:
    from leporid.amqp.tables import Value

__all__ = [
    "Body",
    "body_in",
    "properties_in",
    "shown",
    "shown_properties",
    "shown_property",
    "table_in",
]

# Of a body, written as JSON without looking at the clock; in base64, three bytes are four letters.
BODY_PIECE_BYTES: Final = 3 * 16 * 1024

# Of headers; each takes a microsecond or two.
VALUES_A_TEXT: Final = 64

_NUMBERS: Final = {"delivery_mode": 255, "priority": 255, "timestamp": 2**64 - 1}
_NAMES: Final = tuple(each.name for each in fields(Properties))


def shown_properties(encoded: bytes) -> dict[str, Any]:
    """Return the properties that a message has."""
    return {name: shown_property(name, each) for name, each in split_properties(encoded).items()}


def shown_property(name: str, encoded: bytes) -> Any:
    """Return a property that stands alone; headers are read while they are written."""
    if name == "headers":
        return Written(_texts(lazy_table(encoded)))
    if name in _NUMBERS:
        return int.from_bytes(encoded, "big")
    return shown(encoded[1:])


def _texts(container: LazyContainer) -> Iterator[str]:
    """Write a table or an array, VALUES_A_TEXT of its values at a time."""
    keyed = container.keyed
    opening, closing = "{}" if keyed else "[]"
    before = opening
    some: Any = {} if keyed else []
    for key, value in container:
        inner = isinstance(value, LazyContainer)
        if some and (inner or len(some) == VALUES_A_TEXT):
            yield before + written(some)[1:-1]
            before = ","
            some = {} if keyed else []
        if isinstance(value, LazyContainer):
            yield before + (f"{written(shown(key))}:" if keyed else "")
            before = ","
            yield from _texts(value)
        elif keyed:
            some[shown(key)] = shown(value)
        else:
            some.append(shown(value))
    if some or before == opening:
        yield before + written(some)[1:-1]
    yield closing


def table_in(given: Any, name: str) -> dict[str, Value]:
    """Return a table that stands in a body under a name; none is an empty one.

    Raises:
        Refusal: it is no object, or has no encoding (400).
    """
    if given is not None and given != [] and not isinstance(given, dict):
        raise _bad(f"{name} is not a JSON object")
    try:
        return table_of(given)
    except ValueError as error:
        raise _bad(f"{name}: {error}") from None


def properties_in(given: Any) -> bytes:
    """Return the encoded properties that stand in a body.

    Raises:
        Refusal: a property has no such value (400).
    """
    if given is None or given == []:
        return encode_properties(Properties())
    if not isinstance(given, dict):
        raise _bad("properties is not a JSON object")
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in _NAMES or value is None:
            continue  # RabbitMQ ignores them
        values[name] = _property(name, value)
    try:
        return encode_properties(Properties(**values))
    except (ValueError, OverflowError) as error:
        raise _bad(f"properties: {error}") from None


def _property(name: str, value: Any) -> Any:
    if name == "headers":
        return table_in(value, "properties.headers")
    if name in _NUMBERS:
        if isinstance(value, bool) or not isinstance(value, int):
            raise Refusal(400, "bad_request", ["not_int", name])
        if not 0 <= value <= _NUMBERS[name]:
            raise _bad(f"properties: {name} is a number from 0 to {_NUMBERS[name]}")
        return value
    if not isinstance(value, str):
        raise Refusal(400, "bad_request", ["not_string", name])
    return value


def body_in(payload: Any, encoding: Any) -> bytes:
    """Return the body of a message that stands in a request.

    Raises:
        Refusal: it is not encoded as it says (400).
    """
    if not isinstance(payload, str):
        raise _bad("payload_not_string")
    try:
        if encoding == "string":
            return payload.encode()
        if encoding == "base64":
            return base64.b64decode(payload, validate=True)
    except UnicodeEncodeError as error:
        raise _bad(f"payload: {error}") from None
    except ValueError:
        raise Refusal(400, "bad_request", ["not_base64", payload]) from None
    raise Refusal(400, "bad_request", ["unsupported_encoding", encoding])


class Body:
    """A body as JSON: text if it is UTF-8, otherwise in base64; a piece at a time.

    Args:
        body: the octets.
        text: what `encoding` says of text.
        as_text: whether to look if it is text.
    """

    def __init__(self, body: bytes, text: str = "utf-8", *, as_text: bool = True) -> None:
        self._body = memoryview(body)
        self._text = text
        self._encoding = text if as_text else "base64"

    def texts(self) -> Iterator[str]:
        """Write it, after a look at all of it."""
        decoder = codecs.getincrementaldecoder("utf-8")()
        if self._encoding != "base64":
            try:
                for piece in self._pieces():
                    decoder.decode(piece)
                    yield ""
                decoder.decode(b"", final=True)
            except UnicodeDecodeError:
                self._encoding = "base64"
        decoder.reset()
        yield '"'
        for piece in self._pieces():
            if self._encoding == "base64":
                yield base64.b64encode(piece).decode()
            else:
                yield json.dumps(decoder.decode(piece), ensure_ascii=False)[1:-1]
        yield '"'

    def encoding(self) -> Iterator[str]:
        """Write which it is; after `texts`."""
        yield f'"{self._encoding}"'

    def _pieces(self) -> Iterator[memoryview]:
        for start in range(0, len(self._body), BODY_PIECE_BYTES):
            yield self._body[start : start + BODY_PIECE_BYTES]


def _bad(reason: str) -> Refusal:
    return Refusal(400, "bad_request", reason)
