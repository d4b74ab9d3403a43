"""The values that arguments of queues, exchanges and consumers may have.

Responsible for the names and limits of arguments, and for what is wrong with a value, in RabbitMQ's
words. Must not know which type of queue takes which (`queue_types`), nor what an argument does to
messages. Invariant: a check changes nothing, and a table that passes is stored as it came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from leporid.amqp.errors import PreconditionFailed
from leporid.amqp.tables import Value
from leporid.amqp.values import erlang_text, type_name
from leporid.broker.durations import milliseconds

Arguments: TypeAlias = Mapping[str, Value]
# Answers what is wrong with one value, as RabbitMQ's Erlang prints it, or None.
Check: TypeAlias = Callable[[Value, Arguments], str | None]

INTEGER_TYPES: Final = frozenset(
    {"byte", "unsignedbyte", "short", "unsignedshort", "signedint", "unsignedint", "long"}
)
"""RabbitMQ's names of the types that hold a whole number."""

EXPIRY_MS_MAX: Final = 315_360_000_000
"""RabbitMQ's limit of ten years for anything that expires."""

DELIVERY_LIMIT_MAX: Final = 32_766
"""The largest x-delivery-limit; the engine counts one further."""

PRIORITY_MAX: Final = 255
"""The largest x-max-priority; a priority is one octet in the message."""

DEDUPLICATION: Final = "x-message-deduplication"
"""The queue argument of the community's plugin of that name: no message comes twice."""

TIMEOUT_ACTION: Final = "x-consumer-timeout-action"
"""The argument of a queue or consumer that says what becomes of an overdue delivery."""

TIMEOUT_ACTIONS: Final = ("close", "requeue")
"""The channel is closed, as in RabbitMQ 3.13; or the message alone goes back."""

RETRY_TYPES: Final = ("disabled", "all", "failed", "returned")
"""Which messages that come back are held before they are ready again (RabbitMQ 4.3)."""

KEY_BYTES_MAX: Final = 255
"""The longest routing key; a dead letter with a longer one would have no encoding."""

READER: Final = "x-reader"
"""The consumer argument that names a reader of a stream, whose offset is stored."""

GROUP: Final = "x-group"
GROUP_VERSION: Final = "x-group-version"
"""The consumer arguments that name a group of readers of a stream, and its filter's version."""

READER_BYTES_MAX: Final = 255
"""The longest x-reader or x-group; as long as any other name."""

STREAM_FILTER: Final = "x-stream-filter"
MATCH_UNFILTERED: Final = "x-stream-match-unfiltered"
"""Consumer arguments of RabbitMQ 3.13, which takes them for absent where their type is wrong. Then
a consumer would get what it does not want, so they are refused here."""


def plain(value: Value) -> str:
    """Write a value the way RabbitMQ quotes it: text as it is, the rest as a term."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return erlang_text(value)


def _wrong_type(value: Value) -> str:
    return f"{{unacceptable_type,{type_name(value)}}}"


def _integer(value: Value, _arguments: Arguments) -> str | None:
    name = type_name(value)
    return None if name in INTEGER_TYPES else f'"expected integer, got {name}"'


def _number_from(low: int, high: int, over: str) -> Check:
    """Make the check for an integer between two bounds."""

    def check(value: Value, arguments: Arguments) -> str | None:
        wrong = _integer(value, arguments)
        if wrong is not None or not isinstance(value, int):
            return wrong
        if value == 0 and low > 0:
            return f"{{value_zero,{value:d}}}"
        if value < 0:
            return f"{{value_negative,{value:d}}}"
        return f"{{{over},{value:d}}}" if value > high else None

    return check


def _delivery_limit(value: Value, arguments: Arguments) -> str | None:
    """Any negative number means that there is no limit, as in RabbitMQ."""
    wrong = _integer(value, arguments)
    if wrong is None and isinstance(value, int) and value > DELIVERY_LIMIT_MAX:
        return f"{{value_too_large,{value:d}}}"
    return wrong


def _retry_max(value: Value, arguments: Arguments) -> str | None:
    least = arguments.get("x-delayed-retry-min")
    wrong = _retry_delay(value, arguments)
    if wrong is None and isinstance(value, int) and isinstance(least, int) and value < least:
        return (
            f'"delayed-retry-max ({value:d}) must not be smaller than delayed-retry-min '
            f'({least:d})"'
        )
    return wrong


def _boolean(value: Value, _arguments: Arguments) -> str | None:
    return None if isinstance(value, bool) else _wrong_type(value)


def _text(value: Value, _arguments: Arguments) -> str | None:
    return None if type_name(value) == "longstr" else _wrong_type(value)


def _texts(value: Value, arguments: Arguments) -> str | None:
    """One text or an array of texts."""
    several = value if isinstance(value, list) else [value]
    wrong = next((wrong for one in several if (wrong := _text(one, arguments))), None)
    if wrong is None and any(isinstance(one, bytes) for one in several):
        return '"expected text in UTF-8"'
    return wrong


def one_of(known: Iterable[str], complaint: str) -> Check:
    """Make the check for a word; {} in the complaint stands for the one that came."""
    words = frozenset(known)

    def check(value: Value, arguments: Arguments) -> str | None:
        wrong = _text(value, arguments)
        if wrong is not None or value in words:
            return wrong
        return complaint.replace("{}", plain(value))

    return check


def _dead_letter_key(value: Value, arguments: Arguments) -> str | None:
    wrong = _text(value, arguments)
    if wrong is None and "x-dead-letter-exchange" not in arguments:
        return "routing_key_but_no_dlx_defined"
    if wrong is None and len(plain(value).encode()) > KEY_BYTES_MAX:
        return f'"expected at most {KEY_BYTES_MAX} bytes of text"'
    return wrong


def _max_age(value: Value, arguments: Arguments) -> str | None:
    wrong = _text(value, arguments)
    if wrong is None and milliseconds(plain(value)) is None:
        return "invalid_max_age"
    return wrong


def _stream_offset(value: Value, _arguments: Arguments) -> str | None:
    name = type_name(value)
    if name in INTEGER_TYPES or name == "timestamp":
        return None
    if name == "longstr":
        text = plain(value)
        if text in ("first", "last", "next") or milliseconds(text) is not None:
            return None
    return f"{{invalid_stream_offset_arg,{{{name},{erlang_text(value)}}}}}"


def _reader(value: Value, arguments: Arguments) -> str | None:
    wrong = _text(value, arguments)
    if wrong is None and not 0 < len(plain(value).encode()) <= READER_BYTES_MAX:
        return f'"expected 1 to {READER_BYTES_MAX} bytes of text"'
    return wrong


def _group(value: Value, arguments: Arguments) -> str | None:
    if READER in arguments:
        return f'"a member of a group has no {READER}"'
    return _reader(value, arguments)


def _group_version(value: Value, arguments: Arguments) -> str | None:
    if GROUP not in arguments:
        return f'"there is no {GROUP} beside it"'
    return _size(value, arguments)


def _queue_version(value: Value, arguments: Arguments) -> str | None:
    wrong = _size(value, arguments)
    if wrong is not None or value in (1, 2):
        return wrong
    return f"\"unsupported queue version '{plain(value)}'\""


_UNBOUNDED: Final = 1 << 64
_size = _number_from(0, _UNBOUNDED, "value_too_large")
_group_size = _number_from(1, _UNBOUNDED, "value_too_large")

_timeout = _number_from(0, EXPIRY_MS_MAX, "value_too_large")
_timeout_action = one_of(TIMEOUT_ACTIONS, "invalid_consumer_timeout_action")
_retry_delay = _number_from(1, EXPIRY_MS_MAX, "value_too_large")

QUEUE_CHECKS: Final[dict[str, Check]] = {
    "x-expires": _number_from(1, EXPIRY_MS_MAX, "value_too_large"),
    "x-message-ttl": _number_from(0, EXPIRY_MS_MAX, "value_too_large"),
    "x-dead-letter-exchange": _text,
    "x-dead-letter-routing-key": _dead_letter_key,
    "x-dead-letter-strategy": one_of(("at-most-once", "at-least-once"), "invalid_dlx_strategy"),
    "x-max-length": _size,
    "x-max-length-bytes": _size,
    "x-max-in-memory-length": _size,
    "x-max-in-memory-bytes": _size,
    "x-max-priority": _number_from(0, PRIORITY_MAX, "max_value_exceeded"),
    "x-overflow": one_of(("drop-head", "reject-publish", "reject-publish-dlx"), "invalid_overflow"),
    "x-queue-mode": one_of(("default", "lazy"), "\"unsupported queue mode '{}'\""),
    "x-queue-version": _queue_version,
    "x-single-active-consumer": _boolean,
    DEDUPLICATION: _boolean,
    "x-delivery-limit": _delivery_limit,
    "x-consumer-timeout": _timeout,
    TIMEOUT_ACTION: _timeout_action,
    "x-delayed-retry-type": one_of(RETRY_TYPES, "invalid_delayed_retry_type"),
    "x-delayed-retry-min": _retry_delay,
    "x-delayed-retry-max": _retry_max,
    "x-quorum-initial-group-size": _group_size,
    "x-max-age": _max_age,
    "x-stream-max-segment-size-bytes": _size,
    "x-initial-cluster-size": _group_size,
    "x-queue-leader-locator": one_of(
        ("client-local", "balanced", "random", "least-leaders"), "invalid_queue_locator_arg"
    ),
}
"""Of the arguments of queues, in the order in which RabbitMQ makes them."""

CONSUMER_CHECKS: Final[dict[str, Check]] = {
    "x-priority": _integer,
    "x-cancel-on-ha-failover": _boolean,
    "x-consumer-timeout": _timeout,
    TIMEOUT_ACTION: _timeout_action,
    "x-stream-offset": _stream_offset,
    READER: _reader,
    GROUP: _group,
    GROUP_VERSION: _group_version,
    STREAM_FILTER: _texts,
    MATCH_UNFILTERED: _boolean,
    "x-delivery-limit": _delivery_limit,
    "x-delayed-retry-min": _retry_delay,
    "x-delayed-retry-max": _retry_max,
    "x-dead-letter-exchange": _text,
    "x-dead-letter-routing-key": _dead_letter_key,
}
"""Of the arguments of consumers."""


def check_values(thing: str, arguments: Arguments, checks: Mapping[str, Check]) -> None:
    """Make some checks, in their order.

    Raises:
        PreconditionFailed: one of them finds something wrong.
    """
    for key, check in checks.items():
        if key in arguments:
            wrong = check(arguments[key], arguments)
            if wrong is not None:
                raise PreconditionFailed(f"invalid arg '{key}' for {thing}: {wrong}")


def exchange_name(arguments: Arguments, key: str, thing: str) -> str | None:
    """Return the exchange that an argument names, None without one.

    Raises:
        PreconditionFailed: the argument is not text.
    """
    if key not in arguments:
        return None
    value = arguments[key]
    name = type_name(value)
    if name != "longstr":
        raise PreconditionFailed(f"invalid type '{name}' for arg '{key}' in {thing}")
    return plain(value)
