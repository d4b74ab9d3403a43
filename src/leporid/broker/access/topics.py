"""Topic permissions: with which routing keys a user may publish to, and bind from, an exchange.

Responsible for patterns with variables, and for remembering which keys a connection may use. Must
not know exchanges, nor who asks. Invariants: what a variable stands for is taken literally, so that
no user's name changes a pattern; asking costs time linear in the key, and a connection that repeats
a key costs one lookup.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

import re2  # type: ignore[import-untyped, unused-ignore]

from leporid.broker.access.permissions import Pattern

TopicRight = Literal["write", "read"]

CLIENT_ID: Final = "{client_id}"
"""RabbitMQ's MQTT connections have one. AMQP 0-9-1 has none, so here nothing equals it."""

NOTHING: Final = r"[^\x{0}-\x{10FFFF}]"
"""A pattern for a character that there is not."""

KEYS_MAX: Final = 64
"""Allowed keys that one connection remembers for one exchange: 30 KB at most. A key that is not
among them costs 5 microseconds more, one of them 0.2."""


def expanded(pattern: str, username: str, vhost: str) -> str:
    """Put literals in the place of RabbitMQ's variables."""
    found = pattern.replace("{username}", re2.escape(username))
    return found.replace("{vhost}", re2.escape(vhost)).replace(CLIENT_ID, NOTHING)


@dataclass(frozen=True, slots=True)
class TopicPermission:
    """What one user may do with one topic exchange.

    Attributes:
        write, read: the patterns as they were given.
    """

    write: str
    read: str
    _write: Pattern
    _read: Pattern

    @classmethod
    def of(cls, write: str, read: str, *, username: str, vhost: str) -> TopicPermission:
        """Compile two patterns for a user.

        Raises:
            PatternError: RE2 does not take one, or it is too long with what variables stand for.
        """
        Pattern(write), Pattern(read)  # so that a refusal speaks of what was given
        return cls(
            write,
            read,
            Pattern(expanded(write, username, vhost)),
            Pattern(expanded(read, username, vhost)),
        )

    def allows(self, right: TopicRight, key: str) -> bool:
        """Say whether the right on a routing key is granted."""
        try:
            return (self._write if right == "write" else self._read).matches(key)
        except UnicodeEncodeError:
            return False  # it is not UTF-8, which no exchange takes either


class AllowedKeys:
    """The keys that one connection may publish with to one exchange, as far as it has asked.

    Args:
        check: raises a fault for a key that is not allowed; returns whether that is not known yet.
    """

    __slots__ = ("_allowed", "_check")

    def __init__(self, check: Callable[[str], bool]) -> None:
        self._check = check
        self._allowed: set[str] = set()

    def __repr__(self) -> str:
        return f"<AllowedKeys {len(self._allowed)}>"

    def __call__(self, key: str) -> bool:
        """Raise a fault unless the key is allowed; returns whether that is not known yet."""
        if key in self._allowed:
            return False
        if self._check(key):
            return True
        if len(self._allowed) >= KEYS_MAX:
            self._allowed.clear()
        self._allowed.add(key)
        return False
