"""The dialects of SQL92 that there are, and what their words are."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Dialect(StrEnum):
    """Which grammar an expression has, and how its values are compared."""

    JMS = "jms"
    ROCKETMQ = "rocketmq"


DEFAULT: Final = Dialect.JMS

_SHARED: Final = {
    "NOT",
    "AND",
    "OR",
    "BETWEEN",
    "IN",
    "IS",
    "TRUE",
    "FALSE",
    "NULL",
    "CONTAINS",
    "STARTSWITH",
    "ENDSWITH",
}

KEYWORDS: Final[dict[Dialect, frozenset[str]]] = {
    Dialect.JMS: frozenset(_SHARED | {"LIKE", "ESCAPE"}),
    Dialect.ROCKETMQ: frozenset(_SHARED),
}
