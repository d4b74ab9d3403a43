"""Whether a declaration agrees with what is there.

Responsible for RabbitMQ's rule of when two values are the same, and for its words where they are
not. Must not know which arguments count, nor what else may become of a declaration that differs
(`redeclaring`). Invariant: nothing changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from leporid.amqp.errors import PreconditionFailed
from leporid.amqp.tables import Value
from leporid.amqp.values import type_name, typed
from leporid.broker.queue.queue_types import CLASSIC
from leporid.broker.settings.values import INTEGER_TYPES, Arguments, plain


class Difference(NamedTuple):
    """One property or argument that differs; the values are as reply texts have them."""

    what: str
    received: str
    current: str


def check_same(thing: str, what: str, current: bool | str, received: bool | str) -> None:
    """Check one property of a redeclaration.

    Raises:
        PreconditionFailed: it is not what the existing exchange or queue has.
    """
    for difference in differing(what, current, received):
        raise _refusal(thing, difference)


def check_same_arguments(
    thing: str, current: Arguments, received: Arguments, keys: Iterable[str]
) -> None:
    """Check the arguments of a redeclaration, only those that `keys` names.

    Raises:
        PreconditionFailed: one differs; integers of different sizes do not.
    """
    for difference in differing_arguments(current, received, keys):
        raise _refusal(thing, difference)


def differing(what: str, current: bool | str, received: bool | str) -> Iterator[Difference]:
    """Yield how one property of a redeclaration differs, if it does."""
    if current != received:
        yield Difference(what, f"'{plain(received)}'", f"'{plain(current)}'")


def differing_arguments(
    current: Arguments, received: Arguments, keys: Iterable[str]
) -> Iterator[Difference]:
    """Yield how the arguments of a redeclaration differ, only those that `keys` names."""
    for key in keys:
        if key in current and key in received:
            one, other = current[key], received[key]
            if not _same(one, other):
                yield Difference(key, _short(other), _short(one))
        elif key in current or key in received:
            the_only = current[key] if key in current else received[key]
            if key == "x-queue-type" and the_only == CLASSIC.name:
                continue
            yield Difference(key, _long(received, key), _long(current, key))


def _refusal(thing: str, difference: Difference) -> PreconditionFailed:
    what, received, current = difference
    return PreconditionFailed(
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
