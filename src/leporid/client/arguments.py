"""Arguments of declarations, bindings and consumers, from what Python has to what AMQP has.

Must not know connections. Invariant: an argument is given once, or refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Final, TypedDict

from leporid.amqp.tables import Value
from leporid.client.errors import LocalProtocolError
from leporid.client.message import HeaderValue, duration_ms, table_of

PREFETCH_MAX: Final = 65535
WINDOW_MAX: Final = 1_000_000
"""Publishes that may be unconfirmed at a time."""

if TYPE_CHECKING:
    from leporid.client.opening import Server


class BindOptions(TypedDict, total=False):
    """The options of `Channel.bind` and `unbind`, which say what they mean."""

    tags: str | list[str] | None
    sql: str | None
    filter_class: str | None
    arguments: Mapping[str, HeaderValue] | None


def whole_number(value: object, name: str, least: int, most: int) -> int:
    """Returns a number within bounds.

    Raises:
        LocalProtocolError: it is none, or outside.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise LocalProtocolError(
            f"{name} must be a whole number from {least} to {most}, not {value!r}"
        )
    return value


def merged(
    arguments: Mapping[str, HeaderValue] | None, named: Mapping[str, Value]
) -> dict[str, Value]:
    """Puts arguments together; those that are None are not given.

    Raises:
        LocalProtocolError: one is given twice, or has no encoding.
    """
    made = {} if arguments is None else table_of(arguments)
    for name, value in named.items():
        if value is None:
            continue
        if name in made:
            raise LocalProtocolError(f"{name} is given by its name and in arguments: give it once")
        made[name] = value
    return made


def milliseconds(duration: timedelta | float | None, name: str) -> int | None:
    """Returns a duration in milliseconds; a number is in seconds."""
    return None if duration is None else duration_ms(duration, name)


def count(number: int | None, name: str) -> int | None:
    """Returns a number that must not be negative."""
    return None if number is None else whole_number(number, name, 0, (1 << 63) - 1)


def filtered(
    server: Server,
    arguments: Mapping[str, HeaderValue] | None,
    tags: str | list[str] | None,
    sql: str | None,
    filter_class: str | None,
) -> dict[str, Value]:
    """Puts the arguments of a binding or consumer together.

    Raises:
        LocalProtocolError: it has a filter, and the broker none.
    """
    named: dict[str, Value] = {
        "x-filter-tags": " || ".join(tags) if isinstance(tags, list) else tags,
        "x-filter-sql": sql,
        "x-filter-class": filter_class,
    }
    require_leporid(server, "filters", any(value is not None for value in named.values()))
    return merged(arguments, named)


def require_leporid(server: Server, what: str, wanted: bool = True) -> None:
    """Refuses what only Leporid has on another broker, which would not heed it.

    Raises:
        LocalProtocolError: it is another broker.
    """
    if wanted and not server.is_leporid:
        product = server.product or "this broker"
        raise LocalProtocolError(f"{product} {server.version} has no {what}: Leporid has")
