"""The kinds of values that arguments and policies may have.

Responsible for what is wrong with a value, in RabbitMQ's words: with that of an argument, which has
an AMQP type, and with that of a policy, which is JSON. Must not know which argument has which kind
(`table`), nor what it does to messages. Invariant: a check changes nothing, and a table that
passes is stored as it came.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from leporid.amqp.errors import PreconditionFailed
from leporid.amqp.tables import Value
from leporid.amqp.values import erlang_text, type_name

Arguments: TypeAlias = Mapping[str, Value]
# Answers what is wrong with one value, as RabbitMQ's Erlang prints it, or None.
Check: TypeAlias = Callable[[Value, Arguments], str | None]

# Says whether a value of JSON is right.
Fits: TypeAlias = Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Values:
    """A kind of values.

    Attributes:
        wrong: what is wrong with one in an argument.
        fits: whether one of a policy is right.
    """

    wrong: Check
    fits: Fits


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

QUEUE_TYPE: Final = "x-queue-type"

DEDUPLICATION: Final = "x-message-deduplication"
"""The queue argument of the community's plugin of that name: no message comes twice."""

TIMEOUT_ACTION: Final = "x-consumer-timeout-action"
"""The argument of a queue or consumer that says what becomes of an overdue delivery."""

TIMEOUT_ACTIONS: Final = ("close", "requeue")
"""The channel is closed, as in RabbitMQ 3.13; or the message alone goes back."""

RETRY_TYPES: Final = ("disabled", "all", "failed", "returned")
"""Which messages that come back are held before they are ready again (RabbitMQ 4.3)."""

UNBOUNDED: Final = 1 << 64
"""No number of AMQP is larger."""

NUMBER_MAX: Final = 2**63 - 1
"""The largest number that an AMQP table holds; no limit of ours is larger."""

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

_SECOND_MS: Final = 1000
_DAY_MS: Final = 24 * 60 * 60 * _SECOND_MS
_UNITS_MS: Final = {
    "Y": 365 * _DAY_MS,
    "M": 30 * _DAY_MS,
    "D": _DAY_MS,
    "h": 60 * 60 * _SECOND_MS,
    "m": 60 * _SECOND_MS,
    "s": _SECOND_MS,
}

# Eighteen digits of years are more than there have been; without a bound, reading a number takes
# time with the square of its length.
_DURATION: Final = re.compile(r"0*([1-9][0-9]{0,17})([YMDhms])")


def plain(value: Value) -> str:
    """Write a value the way RabbitMQ quotes it: text as it is, the rest as a term."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return erlang_text(value)


def duration_ms(text: str) -> int | None:
    """Return a length of time as x-max-age and x-stream-offset write it: "7D", "1h", "30s".

    RabbitMQ reads it so (rabbit_amqqueue:check_max_age): a whole number, not 0, and one unit,
    without anything around them. Anything else is None.
    """
    found = _DURATION.fullmatch(text)
    return None if found is None else int(found[1]) * _UNITS_MS[found[2]]


def _wrong_type(value: Value) -> str:
    return f"{{unacceptable_type,{type_name(value)}}}"


def _integer(value: Value, _arguments: Arguments) -> str | None:
    name = type_name(value)
    return None if name in INTEGER_TYPES else f'"expected integer, got {name}"'


def number(low: int, high: int = UNBOUNDED, over: str = "value_too_large") -> Values:
    """Make the kind of whole numbers between two bounds."""

    def check(value: Value, arguments: Arguments) -> str | None:
        wrong = _integer(value, arguments)
        if wrong is not None or not isinstance(value, int):
            return wrong
        if value == 0 and low > 0:
            return f"{{value_zero,{value:d}}}"
        if value < 0:
            return f"{{value_negative,{value:d}}}"
        return f"{{{over},{value:d}}}" if value > high else None

    return Values(check, whole(low, min(high, NUMBER_MAX)))


def whole(low: int, high: int) -> Fits:
    """Make the check of a number in JSON."""
    return lambda value: (
        isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
    )


def _delivery_limit(value: Value, arguments: Arguments) -> str | None:
    """Any negative number means that there is no limit, as in RabbitMQ."""
    wrong = _integer(value, arguments)
    if wrong is None and isinstance(value, int) and value > DELIVERY_LIMIT_MAX:
        return f"{{value_too_large,{value:d}}}"
    return wrong


def _retry_max(value: Value, arguments: Arguments) -> str | None:
    least = arguments.get("x-delayed-retry-min")
    wrong = RETRY_DELAY.wrong(value, arguments)
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


def one_of(known: Iterable[str], complaint: str) -> Values:
    """Make the kind of some words; {} in the complaint stands for the one that came."""
    words = frozenset(known)

    def check(value: Value, arguments: Arguments) -> str | None:
        wrong = _text(value, arguments)
        if wrong is not None or value in words:
            return wrong
        return complaint.replace("{}", plain(value))

    return Values(check, lambda value: isinstance(value, str) and value in words)


def fits_name(value: Any) -> bool:
    """Say whether a value of JSON is a text that a name or a routing key may be."""
    try:
        return isinstance(value, str) and len(value.encode()) <= KEY_BYTES_MAX
    except UnicodeEncodeError:
        return False


def _dead_letter_key(value: Value, arguments: Arguments) -> str | None:
    wrong = _text(value, arguments)
    if wrong is None and "x-dead-letter-exchange" not in arguments:
        return "routing_key_but_no_dlx_defined"
    if wrong is None and len(plain(value).encode()) > KEY_BYTES_MAX:
        return f'"expected at most {KEY_BYTES_MAX} bytes of text"'
    return wrong


def _max_age(value: Value, arguments: Arguments) -> str | None:
    wrong = _text(value, arguments)
    if wrong is None and duration_ms(plain(value)) is None:
        return "invalid_max_age"
    return wrong


def _stream_offset(value: Value, _arguments: Arguments) -> str | None:
    name = type_name(value)
    if name in INTEGER_TYPES or name == "timestamp":
        return None
    if name == "longstr":
        text = plain(value)
        if text in ("first", "last", "next") or duration_ms(text) is not None:
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
    return SIZE.wrong(value, arguments)


def _queue_version(value: Value, arguments: Arguments) -> str | None:
    wrong = SIZE.wrong(value, arguments)
    if wrong is not None or value in (1, 2):
        return wrong
    return f"\"unsupported queue version '{plain(value)}'\""


def _never(_value: Any) -> bool:
    return False  # policies have none of these


SIZE: Final = number(0)
RETRY_DELAY: Final = number(1, EXPIRY_MS_MAX)
TIMEOUT: Final = number(0, EXPIRY_MS_MAX)
ACTION: Final = one_of(TIMEOUT_ACTIONS, "invalid_consumer_timeout_action")
INTEGER: Final = Values(_integer, _never)
BOOLEAN: Final = Values(_boolean, _never)
TEXT: Final = Values(_text, fits_name)
TEXTS: Final = Values(_texts, _never)
AGE: Final = Values(_max_age, lambda value: isinstance(value, str) and bool(duration_ms(value)))
DELIVERY_LIMIT: Final = Values(_delivery_limit, whole(0, DELIVERY_LIMIT_MAX))
RETRY_MAX: Final = Values(_retry_max, RETRY_DELAY.fits)
DEAD_LETTER_KEY: Final = Values(_dead_letter_key, fits_name)
QUEUE_VERSION: Final = Values(_queue_version, whole(1, 2))
STREAM_OFFSET: Final = Values(_stream_offset, _never)
READER_NAME: Final = Values(_reader, _never)
GROUP_NAME: Final = Values(_group, _never)
VERSION_OF_GROUP: Final = Values(_group_version, _never)


def check_values(thing: str, arguments: Arguments, kinds: Mapping[str, Values]) -> None:
    """Check that arguments have values of their kinds, in the order of these.

    Raises:
        PreconditionFailed: one of them finds something wrong.
    """
    for key, kind in kinds.items():
        if key in arguments:
            wrong = kind.wrong(arguments[key], arguments)
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
