"""The properties of a message: the rest of a content header frame after class, weight and size.

    flags:uint16, highest bit first, then the values of the properties whose bit is set

Must not know what a property means. Invariant: `encode_properties(decode_properties(raw))` is
`raw`, within what `tables` promises of headers and with the flag nobody uses (bit 1) cleared.
Strings that are not UTF-8 survive as surrogate escapes, because RabbitMQ lets binary
correlation ids through.
"""

from dataclasses import dataclass
from typing import Final

from leporid.amqp import constants, fields
from leporid.amqp.errors import SyntaxFault
from leporid.amqp.tables import Value, octets_of, text_of


@dataclass(frozen=True, slots=True)
class Properties:
    """The 14 properties of class basic; None is one that was not sent."""

    content_type: str | None = None
    content_encoding: str | None = None
    headers: dict[str, Value] | None = None
    delivery_mode: int | None = None
    priority: int | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    expiration: str | None = None
    message_id: str | None = None
    timestamp: int | None = None
    type: str | None = None
    user_id: str | None = None
    app_id: str | None = None
    cluster_id: str | None = None


def _read_text(data: bytes, at: int) -> tuple[str, int]:
    octets, end = fields.read_shortstr_bytes(data, at)
    return text_of(octets), end


def _write_text(value: str) -> bytes:
    return fields.write_shortstr_bytes(octets_of(value))


_TEXT: Final = fields.FieldType("shortstr", _read_text, _write_text, b"\x00")

_FIELDS: Final[tuple[tuple[int, str, fields.FieldType], ...]] = (
    (constants.FLAG_CONTENT_TYPE, "content_type", _TEXT),
    (constants.FLAG_CONTENT_ENCODING, "content_encoding", _TEXT),
    (constants.FLAG_HEADERS, "headers", fields.TABLE),
    (constants.FLAG_DELIVERY_MODE, "delivery_mode", fields.OCTET),
    (constants.FLAG_PRIORITY, "priority", fields.OCTET),
    (constants.FLAG_CORRELATION_ID, "correlation_id", _TEXT),
    (constants.FLAG_REPLY_TO, "reply_to", _TEXT),
    (constants.FLAG_EXPIRATION, "expiration", _TEXT),
    (constants.FLAG_MESSAGE_ID, "message_id", _TEXT),
    (constants.FLAG_TIMESTAMP, "timestamp", fields.LONGLONG),
    (constants.FLAG_TYPE, "type", _TEXT),
    (constants.FLAG_USER_ID, "user_id", _TEXT),
    (constants.FLAG_APP_ID, "app_id", _TEXT),
    (constants.FLAG_CLUSTER_ID, "cluster_id", _TEXT),
)


def decode_properties(raw: bytes) -> Properties:
    """Decodes flags and values.

    Raises:
        SyntaxFault: They are malformed, cut short or followed by something else.
    """
    flags, at = fields.SHORT.read(raw, 0)
    if flags & constants.FLAG_CONTINUED:
        raise SyntaxFault("property flags go on past the last property")
    values = {}
    for flag, name, kind in _FIELDS:
        if flags & flag:
            values[name], at = kind.read(raw, at)
    if at != len(raw):
        raise SyntaxFault(f"{len(raw) - at} bytes follow the last property")
    return Properties(**values)


def split_properties(raw: bytes) -> dict[str, bytes]:
    """Returns the properties that were sent as they are encoded, by their names.

    Headers, which take milliseconds to decode, are a table with its size in front; so are texts.

    Raises:
        SyntaxFault: They are cut short.
    """
    flags, at = fields.SHORT.read(raw, 0)
    found = {}
    for flag, name, kind in _FIELDS:
        if flags & flag:
            if kind is fields.TABLE:
                size, end = fields.LONG.read(raw, at)
                end += size
            else:
                _, end = kind.read(raw, at)
            found[name], at = raw[at:end], end
    if at > len(raw):
        raise SyntaxFault("headers reach past the end")
    return found


def encode_properties(properties: Properties) -> bytes:
    """Encodes the properties that are not None.

    Raises:
        ValueError: A value has no encoding, such as a string of more than 255 bytes.
    """
    flags = 0
    parts = []
    for flag, name, kind in _FIELDS:
        value = getattr(properties, name)
        if value is not None:
            flags |= flag
            parts.append(kind.write(value))
    return fields.SHORT.write(flags) + b"".join(parts)
