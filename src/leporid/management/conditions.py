"""Conditions on the fields of listed objects, such as `where=state=paused`.

Responsible for reading them, and for comparing one value, in the broker's lists and in those of the
command line. Must not know which fields a noun has, how lists are made, nor HTTP.

Invariant: numbers are compared as numbers, everything else as the text that JSON has for it; an
object without the field has 0 there, as RabbitMQ sorts it.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

# A page of the web UI has three; each is a look at a field of every object.
CONDITIONS_MAX: Final = 8
OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}
_CONDITION: Final = re.compile(r"([^=!<>]+)(!=|[=<>])(.*)", re.DOTALL)
_NUMBER: Final = re.compile(r"-?\d{1,15}(\.\d{1,15})?", re.ASCII)


class ConditionError(ValueError):
    """What was given is no condition.

    Attributes:
        limit: how many there may be, if they are too many.
    """

    def __init__(self, text: str, limit: int | None = None) -> None:
        super().__init__(text)
        self.limit = limit


@dataclass(frozen=True, slots=True)
class Condition:
    """What one field has to be.

    Attributes:
        path: of the field, as in `sort`.
        holds: compares its value with the wanted one.
        text: what is wanted.
        number: the same, if it is one.
    """

    path: tuple[str, ...]
    holds: Callable[[Any, Any], bool]
    text: str
    number: float | None

    def is_met(self, value: Any) -> bool:
        """Say whether a value is wanted; None is a field that the object does not have."""
        if value is None:
            value = 0 if self.number is not None else ""
        if isinstance(value, int | float) and not isinstance(value, bool):
            # A text is neither more nor less than a number.
            return self.holds(value, self.number) if self.number is not None else self._differs()
        text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
        return self.holds(text, self.text)

    def _differs(self) -> bool:
        return self.holds is operator.ne


def conditions_in(given: Sequence[str]) -> tuple[Condition, ...]:
    """Read conditions, each `FIELD=VALUE`, `FIELD!=VALUE`, `FIELD<VALUE` or `FIELD>VALUE`.

    Raises:
        ConditionError: one is none, or there are too many.
    """
    if len(given) > CONDITIONS_MAX:
        said = f"where: {len(given)} conditions were given, {CONDITIONS_MAX} may be (where)"
        raise ConditionError(said, CONDITIONS_MAX)
    return tuple(map(_condition, given))


def _condition(text: str) -> Condition:
    found = _CONDITION.fullmatch(text)
    if found is None:
        raise ConditionError(
            f"where: {text!r} is no condition: it is FIELD=VALUE, with =, !=, < or >"
        )
    field, sign, wanted = found.groups()
    return Condition(tuple(field.split(".")), OPERATORS[sign], wanted, _number(wanted))


def _number(text: str) -> float | None:
    return float(text) if _NUMBER.fullmatch(text) else None
