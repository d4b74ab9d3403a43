"""A message with its properties, and what properties mean in Python.

Responsible for `Message`, for turning delays, moments and times to live into what AMQP has, and for
reading them back. It must not know channels or connections. Invariant: what is refused is refused
with `LocalProtocolError` before anything is sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, TypeAlias

from leporid.amqp.properties import decode_properties
from leporid.amqp.tables import Timestamp, Value
from leporid.client.encoder import EncodedProperties, encode_properties
from leporid.client.errors import LocalProtocolError

HeaderValue: TypeAlias = Value | datetime | Mapping[str, "HeaderValue"] | Sequence["HeaderValue"]
"""What a header may be: what a field table has, and datetimes."""
Headers: TypeAlias = Mapping[str, HeaderValue]
Body: TypeAlias = bytes | bytearray | memoryview

_TAG_HEADERS: Final = ("x-tag", "x-stream-filter-value")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
DELAY_MAX: Final = timedelta(days=3650)
"""Ten years, the longest that Leporid delays a message."""


@dataclass(slots=True)
class Message:
    """What `publish_many` takes, and what errors about publishes carry.

    Attributes:
        body: the content.
        key: the routing key; None for that of the call.
        headers: names and values.
        persistent: outlives a restart of the broker in a durable queue.
        priority: 0 to 255.
        content_type: a MIME type.
        content_encoding: a MIME encoding.
        correlation_id: ties a reply to its request.
        reply_to: the queue that a reply is wanted in.
        expires: drop it after so long in a queue; a number is in seconds.
        message_id: told from all others; the client makes one if there is none.
        timestamp: when it was made; AMQP has whole seconds.
        type: what kind of message it is.
        user_id: must be the connection's user.
        app_id: the application that publishes it.
        tag: what filters know it by, the header `x-tag`.
        deliver_at: hold it in the broker until then (Leporid).
    """

    body: Body
    _: KW_ONLY
    key: str | None = None
    headers: Headers | None = None
    persistent: bool = True
    priority: int | None = None
    content_type: str | None = None
    content_encoding: str | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    expires: timedelta | float | None = None
    message_id: str | None = None
    timestamp: datetime | int | None = None
    type: str | None = None
    user_id: str | None = None
    app_id: str | None = None
    tag: str | None = None
    deliver_at: datetime | None = None

    def __post_init__(self) -> None:
        """Takes a copy of a body that could change."""
        self.body = octets(self.body)

    def encoded(self) -> EncodedProperties:
        """Encodes the properties.

        Raises:
            LocalProtocolError: one of them has no encoding.
        """
        return encode_properties(
            content_type=self.content_type,
            content_encoding=self.content_encoding,
            headers=headers_of(self.headers, tag=self.tag, deliver_at=self.deliver_at),
            delivery_mode=2 if self.persistent else None,
            priority=self.priority,
            correlation_id=self.correlation_id,
            reply_to=self.reply_to,
            expiration=None if self.expires is None else expiration_of(self.expires),
            message_id=self.message_id,
            timestamp=None if self.timestamp is None else seconds_of(self.timestamp),
            type=self.type,
            user_id=self.user_id,
            app_id=self.app_id,
        )


def decoded_message(body: bytes, key: str, raw_properties: bytes) -> Message:
    """Makes the message of encoded properties, as the broker returns it."""
    known = decode_properties(raw_properties)
    return Message(
        body,
        key=key,
        headers=known.headers,
        persistent=known.delivery_mode == 2,
        priority=known.priority,
        content_type=known.content_type,
        content_encoding=known.content_encoding,
        correlation_id=known.correlation_id,
        reply_to=known.reply_to,
        expires=_lifetime(known.expiration),
        message_id=known.message_id,
        timestamp=known.timestamp,
        type=known.type,
        user_id=known.user_id,
        app_id=known.app_id,
        tag=tag_of(known.headers or {}),
    )


def _lifetime(expiration: str | None) -> timedelta | None:
    if expiration is None or not expiration.isdecimal():
        return None
    return timedelta(milliseconds=int(expiration))


def octets(body: object) -> bytes:
    """Returns a body as bytes.

    Raises:
        LocalProtocolError: it is something else.
    """
    if type(body) is bytes:
        return body
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body)
    if isinstance(body, Message):
        raise LocalProtocolError(
            "a body must be bytes, not Message: give properties as arguments, or publish messages "
            "with publish_many, which takes [message] as well"
        )
    raise LocalProtocolError(
        f"a body must be bytes, not {type(body).__name__}; text is encoded with text.encode()"
    )


def headers_of(
    headers: Headers | None,
    *,
    tag: str | None = None,
    delay_ms: int | None = None,
    deliver_at: datetime | None = None,
) -> dict[str, Value] | None:
    """Puts headers together with those that say what an argument says.

    Raises:
        LocalProtocolError: one is given twice, or is nothing that a header can be.
    """
    made = None if headers is None else table_of(headers)
    if tag is None and delay_ms is None and deliver_at is None:
        return made
    made = {} if made is None else made
    for name, value in (
        ("x-tag", tag),
        ("x-delay", delay_ms),
        ("x-deliver-at", None if deliver_at is None else milliseconds_of(deliver_at, "deliver_at")),
    ):
        if value is not None:
            if made.get(name, value) != value:
                raise LocalProtocolError(f"header {name} is given twice, differently")
            made[name] = value
    return made


def table_of(fields: Mapping[str, HeaderValue]) -> dict[str, Value]:
    """Returns a field table; datetimes become timestamps.

    Raises:
        LocalProtocolError: a name is no text, or a value nothing that a table has.
    """
    if not isinstance(fields, Mapping):
        raise LocalProtocolError(f"a table must be a mapping, not {type(fields).__name__}")
    made: dict[str, Value] = {}
    for name, value in fields.items():
        if not isinstance(name, str):
            raise LocalProtocolError(f"the name of a field must be a str, not {name!r}")
        made[name] = _value_of(name, value)
    return made


def _value_of(name: str, value: HeaderValue) -> Value:
    if value is None or isinstance(value, str | int | float | bytes | Decimal):
        return value
    if isinstance(value, datetime):
        return Timestamp(seconds_of(value))
    if isinstance(value, Mapping):
        return table_of(value)
    if isinstance(value, list | tuple):
        return [_value_of(name, each) for each in value]
    raise LocalProtocolError(
        f"field {name!r} is a {type(value).__name__}, which AMQP tables do not have; they have "
        "str, int, float, bool, bytes, Decimal, datetime, None, lists and mappings"
    )


def tag_of(headers: Mapping[str, Any]) -> str | None:
    """Returns the tag that filters know a message by."""
    for name in _TAG_HEADERS:
        if isinstance(value := headers.get(name), str):
            return value
    return None


def deaths_of(headers: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns where a message was dead-lettered, the last time first."""
    deaths = headers.get("x-death")
    return [each for each in deaths if isinstance(each, dict)] if isinstance(deaths, list) else []


def moment_of(seconds: int | None) -> datetime | None:
    """Returns a property timestamp as a moment; None also for one that no calendar has."""
    if seconds is None:
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, OSError, ValueError):
        return None


def seconds_of(moment: datetime | int) -> int:
    """Returns a moment in whole seconds since 1970."""
    _check_kind(moment, "a timestamp", datetime, int)
    if isinstance(moment, datetime):
        return milliseconds_of(moment, "timestamp") // 1000
    if moment >= 0:
        return moment
    raise LocalProtocolError(f"a timestamp must not be before 1970: {moment!r}")


def milliseconds_of(moment: datetime, name: str) -> int:
    """Returns a moment in milliseconds since 1970.

    Raises:
        LocalProtocolError: it has no time zone, or is none.
    """
    _check_kind(moment, name, datetime)
    if moment.tzinfo is None:
        raise LocalProtocolError(
            f"{name} has no time zone: use datetime.now(UTC), or moment.astimezone()"
        )
    return int((moment - _EPOCH) / timedelta(milliseconds=1))


def duration_ms(duration: timedelta | float, name: str) -> int:
    """Returns a duration in whole milliseconds; a number is in seconds.

    Raises:
        LocalProtocolError: it is negative, or none.
    """
    _check_kind(duration, name, timedelta, int, float)
    if isinstance(duration, timedelta):
        milliseconds = int(duration / timedelta(milliseconds=1))
    else:
        milliseconds = int(duration * 1000) if -1e15 < duration < 1e15 else -1
    if milliseconds < 0:
        raise LocalProtocolError(f"{name} must not be negative: {duration!r}")
    return milliseconds


def _check_kind(value: object, name: str, *kinds: type) -> None:
    if not isinstance(value, kinds) or isinstance(value, bool):
        wanted = " or ".join(kind.__name__ for kind in kinds)
        raise LocalProtocolError(f"{name} must be of {wanted}, not {type(value).__name__}")


def expiration_of(expires: timedelta | float) -> str:
    """Returns the property expiration: milliseconds as text."""
    return str(duration_ms(expires, "expires"))


def delay_ms_of(delay: timedelta | float) -> int:
    """Returns a delay in milliseconds.

    Raises:
        LocalProtocolError: it is negative, or longer than ten years.
    """
    milliseconds = duration_ms(delay, "delay")
    if milliseconds > DELAY_MAX / timedelta(milliseconds=1):
        raise LocalProtocolError(f"a delay has at most ten years, not {delay!r}")
    return milliseconds
