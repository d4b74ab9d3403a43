"""Lengths of time as stream arguments write them: "7D", "1h", "30s".

Responsible for the one notation that x-max-age and x-stream-offset share, as RabbitMQ reads it
(rabbit_amqqueue:check_max_age): a whole number and one unit, without anything around them. Must
not know what it is the length of. Invariant: what is no such text is None, never an exception.
"""

from __future__ import annotations

import re
from typing import Final

_SECOND_MS: Final = 1000
_DAY_MS: Final = 24 * 60 * 60 * _SECOND_MS
UNITS_MS: Final = {
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


def milliseconds(text: str) -> int | None:
    """Return a length of time, at least a second; None if the text is not one."""
    found = _DURATION.fullmatch(text)
    return None if found is None else int(found[1]) * UNITS_MS[found[2]]
