"""What may stand among the arguments of queues, exchanges and consumers.

Responsible for refusing arguments of the wrong type or value, and redeclarations that do not
agree with what exists, with RabbitMQ's texts. Must not know what an argument does to messages.
Invariant: a table that passes is stored as it came; keys that no queue type knows are kept and
never compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from leporid.amqp.errors import PreconditionFailed
from leporid.amqp.tables import Value
from leporid.amqp.values import erlang_text, type_name, typed
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


def _one_of(known: Iterable[str], complaint: str) -> Check:
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
_timeout_action = _one_of(TIMEOUT_ACTIONS, "invalid_consumer_timeout_action")
_retry_delay = _number_from(1, EXPIRY_MS_MAX, "value_too_large")

# The checks of queue arguments in the order in which RabbitMQ makes them.
_QUEUE_CHECKS: Final[dict[str, Check]] = {
    "x-expires": _number_from(1, EXPIRY_MS_MAX, "value_too_large"),
    "x-message-ttl": _number_from(0, EXPIRY_MS_MAX, "value_too_large"),
    "x-dead-letter-exchange": _text,
    "x-dead-letter-routing-key": _dead_letter_key,
    "x-dead-letter-strategy": _one_of(("at-most-once", "at-least-once"), "invalid_dlx_strategy"),
    "x-max-length": _size,
    "x-max-length-bytes": _size,
    "x-max-in-memory-length": _size,
    "x-max-in-memory-bytes": _size,
    "x-max-priority": _number_from(0, PRIORITY_MAX, "max_value_exceeded"),
    "x-overflow": _one_of(
        ("drop-head", "reject-publish", "reject-publish-dlx"), "invalid_overflow"
    ),
    "x-queue-mode": _one_of(("default", "lazy"), "\"unsupported queue mode '{}'\""),
    "x-queue-version": _queue_version,
    "x-single-active-consumer": _boolean,
    DEDUPLICATION: _boolean,
    "x-delivery-limit": _delivery_limit,
    "x-consumer-timeout": _timeout,
    TIMEOUT_ACTION: _timeout_action,
    "x-delayed-retry-type": _one_of(RETRY_TYPES, "invalid_delayed_retry_type"),
    "x-delayed-retry-min": _retry_delay,
    "x-delayed-retry-max": _retry_max,
    "x-quorum-initial-group-size": _group_size,
    "x-max-age": _max_age,
    "x-stream-max-segment-size-bytes": _size,
    "x-initial-cluster-size": _group_size,
    "x-queue-leader-locator": _one_of(
        ("client-local", "balanced", "random", "least-leaders"), "invalid_queue_locator_arg"
    ),
}
_CONSUMER_CHECKS: Final[dict[str, Check]] = {
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
}


# What RabbitMQ has on quorum queues only, or not at all.
_RETURNS: Final = (
    "x-delivery-limit",
    "x-consumer-timeout",
    TIMEOUT_ACTION,
    "x-delayed-retry-type",
    "x-delayed-retry-min",
    "x-delayed-retry-max",
)
# What RabbitMQ 3.10 does not have on streams.
_READING: Final = (READER, GROUP, GROUP_VERSION, STREAM_FILTER, MATCH_UNFILTERED)


@dataclass(frozen=True, slots=True)
class QueueType:
    """A type of queue: which arguments it understands, in the order they are compared."""

    name: str
    module: str
    """The name of RabbitMQ's module for it, which appears in reply texts."""
    queue_arguments: tuple[str, ...]
    consumer_arguments: tuple[str, ...]
    transient: bool
    """Whether it may be non-durable, exclusive, auto-delete or named by the server."""


CLASSIC: Final = QueueType(
    name="classic",
    module="rabbit_classic_queue",
    queue_arguments=(
        "x-expires",
        "x-message-ttl",
        "x-dead-letter-exchange",
        "x-dead-letter-routing-key",
        "x-max-length",
        "x-max-length-bytes",
        "x-max-priority",
        "x-overflow",
        "x-queue-mode",
        "x-queue-version",
        "x-single-active-consumer",
        DEDUPLICATION,
        "x-queue-type",
        "x-queue-master-locator",
        *_RETURNS,
    ),
    consumer_arguments=(
        "x-cancel-on-ha-failover",
        "x-priority",
        "x-credit",
        "x-consumer-timeout",
        TIMEOUT_ACTION,
    ),
    transient=True,
)
# Accepted because clients ask for it by name; on one node it is a durable queue.
QUORUM: Final = QueueType(
    name="quorum",
    module="rabbit_quorum_queue",
    queue_arguments=(
        "x-dead-letter-exchange",
        "x-dead-letter-routing-key",
        "x-dead-letter-strategy",
        "x-expires",
        "x-max-length",
        "x-max-length-bytes",
        "x-max-in-memory-length",
        "x-max-in-memory-bytes",
        "x-overflow",
        "x-single-active-consumer",
        DEDUPLICATION,
        "x-queue-type",
        "x-quorum-initial-group-size",
        "x-message-ttl",
        "x-queue-leader-locator",
        *_RETURNS,
    ),
    consumer_arguments=("x-priority", "x-credit", "x-consumer-timeout", TIMEOUT_ACTION),
    transient=False,
)
STREAM: Final = QueueType(
    name="stream",
    module="rabbit_stream_queue",
    queue_arguments=(
        "x-max-length-bytes",
        "x-queue-type",
        "x-max-age",
        "x-stream-max-segment-size-bytes",
        "x-initial-cluster-size",
        "x-queue-leader-locator",
    ),
    consumer_arguments=("x-stream-offset", "x-credit", *_READING),
    transient=False,
)
QUEUE_TYPES: Final = {kind.name: kind for kind in (CLASSIC, QUORUM, STREAM)}

# RabbitMQ refuses an argument that only other types of queue understand. Those that are ours alone
# it keeps without effect, and so do we; as it does a stream's filter.
_ALL_QUEUE_ARGUMENTS: Final = frozenset(
    key for kind in QUEUE_TYPES.values() for key in kind.queue_arguments
) - {TIMEOUT_ACTION}
_ALL_CONSUMER_ARGUMENTS: Final = frozenset(
    key for kind in QUEUE_TYPES.values() for key in kind.consumer_arguments
) - {*_READING, TIMEOUT_ACTION}
_check_queue_type = _one_of(QUEUE_TYPES, "\"unsupported queue type '{}'\"")


def queue_type(arguments: Arguments) -> QueueType:
    """Return the type that the arguments ask for, classic when they do not say."""
    name = arguments.get("x-queue-type")
    return QUEUE_TYPES.get(name, CLASSIC) if isinstance(name, str) else CLASSIC


def check_queue_arguments(queue: str, arguments: Arguments) -> QueueType:
    """Check the arguments of a new queue, called `queue` as in `names.queue_in`.

    Raises:
        PreconditionFailed: one of them is wrong.
    """
    _check_values(queue, arguments, {"x-queue-type": _check_queue_type})
    kind = queue_type(arguments)
    checks = {key: check for key, check in _QUEUE_CHECKS.items() if key in kind.queue_arguments}
    _check_values(queue, arguments, checks)
    _check_keys(queue, arguments, _ALL_QUEUE_ARGUMENTS.difference(kind.queue_arguments), kind)
    return kind


def check_permanent(title: str, *, durable: bool, auto_delete: bool, exclusive: bool) -> None:
    """Check the properties of a new queue of a type that is not `transient`.

    Raises:
        PreconditionFailed: it would not last.
    """
    wrong = {"auto-delete": auto_delete, "exclusive-owner": exclusive, "non-durable": not durable}
    for name, is_so in wrong.items():
        if is_so:
            raise PreconditionFailed(f"invalid property '{name}' for {title}")


def check_consumer_arguments(queue: str, kind: QueueType, arguments: Arguments) -> None:
    """Check the arguments of basic.consume.

    Raises:
        PreconditionFailed: one of them is wrong.
    """
    known = kind.consumer_arguments
    checks = {key: check for key, check in _CONSUMER_CHECKS.items() if key in known}
    _check_values(queue, arguments, checks)
    _check_keys(queue, arguments, _ALL_CONSUMER_ARGUMENTS.difference(known), kind)


def _check_values(thing: str, arguments: Arguments, checks: Mapping[str, Check]) -> None:
    for key, check in checks.items():
        if key in arguments:
            wrong = check(arguments[key], arguments)
            if wrong is not None:
                raise PreconditionFailed(f"invalid arg '{key}' for {thing}: {wrong}")


def _check_keys(thing: str, arguments: Arguments, foreign: frozenset[str], kind: QueueType) -> None:
    for key in arguments:
        if key in foreign:
            raise PreconditionFailed(f"invalid arg '{key}' for {thing} of queue type {kind.module}")


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


def check_same(thing: str, what: str, current: bool | str, received: bool | str) -> None:
    """Check one property of a redeclaration.

    Raises:
        PreconditionFailed: it is not what the existing exchange or queue has.
    """
    if current != received:
        _refuse(thing, what, f"'{plain(received)}'", f"'{plain(current)}'")


def check_same_arguments(
    thing: str, current: Arguments, received: Arguments, keys: Iterable[str]
) -> None:
    """Check the arguments of a redeclaration, only those that `keys` names.

    Raises:
        PreconditionFailed: one differs; integers of different sizes do not.
    """
    for key in keys:
        if key in current and key in received:
            one, other = current[key], received[key]
            if not _same(one, other):
                _refuse(thing, key, _short(other), _short(one))
        elif key in current or key in received:
            the_only = current[key] if key in current else received[key]
            if key == "x-queue-type" and the_only == CLASSIC.name:
                continue
            _refuse(thing, key, _long(received, key), _long(current, key))


def _refuse(thing: str, what: str, received: str, current: str) -> None:
    raise PreconditionFailed(
        f"inequivalent arg '{what}' for {thing}: received {received} but current is {current}"
    )


def _short(value: Value) -> str:
    return "none" if value is None else f"'{plain(value)}'"


def _long(arguments: Arguments, key: str) -> str:
    if key not in arguments:
        return "none"
    value = arguments[key]
    return f"the value '{plain(value)}' of type '{type_name(value)}'"


def _same(one: Value, other: Value) -> bool:
    """Compare as RabbitMQ does: within a class of types at the top, exactly below it."""
    return _class(one) == _class(other) and typed(one)[1] == typed(other)[1]


def _class(value: Value) -> str:
    name = type_name(value)
    if name in INTEGER_TYPES:
        return "int"
    return "double" if name == "float" else name
