"""Scopes of OAuth 2.0 as permissions: what a token allows, in the terms that users have.

Responsible for RabbitMQ's scopes, `read:VHOST/NAME`, `write:VHOST/NAME/ROUTING_KEY`, `configure:…`
and `tag:TAG`, with `*` for any text and percent-encoding for everything else. Must not know tokens,
nor how one was verified. Invariants: a scope of another form grants nothing; asking costs a search
in the name for each text between wildcards, a millisecond for the largest token, and never
fails. (RE2 takes 50 ms for as many wildcards, again for each name.)

Source: RabbitMQ's rabbitmq_auth_backend_oauth2, "Scope and Tags".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar
from urllib.parse import unquote_to_bytes

from leporid.broker.access.permissions import RIGHTS, Pattern, Permissions, Right, Unlisted
from leporid.broker.access.topics import NOTHING, TopicPermission

V = TypeVar("V")

SCOPES_MAX: Final = 256
"""Of one token. A token has 24 KB at most, so that these are short."""

CHOSEN_MAX: Final = 64
"""Virtual hosts, and exchanges in one, of which one user keeps which scopes they have."""

TAG: Final = "tag:"
_ENCODED: Final = re.compile(r"(?:[^%]|%[0-9A-Fa-f]{2})*")


class Wildcard(tuple[str, ...]):
    """A text in which `*` stands for any text: what stands between them, decoded."""

    __slots__ = ()

    @classmethod
    def of(cls, text: str) -> Wildcard:
        """Read one; raises ValueError if it is not percent-encoded UTF-8."""
        if not _ENCODED.fullmatch(text):
            raise ValueError(text)
        parts = text.replace("+", " ").split("*")
        return cls(unquote_to_bytes(each).decode() for each in parts)

    def matches(self, text: str) -> bool:
        """Say whether it means this text; each part is looked for once, from left to right."""
        first, last = self[0], self[-1]
        if len(self) == 1:
            return text == first
        if not text.startswith(first) or len(text) < len(first) + len(last):
            return False
        at, end = len(first), len(text) - len(last)
        for part in self[1:-1]:
            at = text.find(part, at, end)
            if at < 0:
                return False
            at += len(part)
        return text.endswith(last)

    @property
    def pattern(self) -> str:
        """The same as a pattern, of RE2's as well."""
        return ".*".join(re.escape(each) for each in self)


@dataclass(frozen=True, slots=True)
class Scope:
    """One scope that grants something.

    Attributes:
        key: of routing keys; None: it was left out, and the scope says nothing of topics.
    """

    right: Right
    vhost: Wildcard
    name: Wildcard
    key: Wildcard | None

    @classmethod
    def of(cls, text: str) -> Scope | None:
        """Read one; None: it is of another form."""
        right, colon, rest = text.partition(":")
        parts = rest.split("/")
        if not colon or right not in RIGHTS or len(parts) not in (2, 3):
            return None
        try:
            vhost, name, *keys = map(Wildcard.of, parts)
        except ValueError:
            return None
        return cls(right, vhost, name, keys[0] if keys else None)


def tags_of(scopes: Iterable[str]) -> tuple[str, ...]:
    """Return the tags that scopes give, each once."""
    return tuple(sorted({each.removeprefix(TAG) for each in scopes if each.startswith(TAG)}))


class _Chosen(dict[str, V]):
    """What was put together by name; that of CHOSEN_MAX names at most."""

    def keep(self, name: str, made: V) -> V:
        if len(self) >= CHOSEN_MAX:
            self.clear()
        self[name] = made
        return made


class ScopedPermissions(Unlisted[Permissions]):
    """The permissions of a user by virtual host."""

    def __init__(self, scopes: Iterable[str]) -> None:
        self._scopes = [found for each in scopes if (found := Scope.of(each)) is not None]
        self._chosen: _Chosen[Permissions] = _Chosen()

    def __repr__(self) -> str:
        return f"<ScopedPermissions {len(self._scopes)}>"

    def __contains__(self, vhost: object) -> bool:
        """Say whether any scope is of a virtual host, which is what it takes to enter it."""
        return isinstance(vhost, str) and any(each.vhost.matches(vhost) for each in self._scopes)

    def __getitem__(self, vhost: str) -> Permissions:
        found = self._chosen.get(vhost)
        if found is not None:
            return found
        if vhost not in self:
            raise KeyError(vhost)
        scopes = self.scopes_in(vhost)
        rights = (AnyOf(each.name for each in scopes if each.right == right) for right in RIGHTS)
        return self._chosen.keep(vhost, Permissions(*rights))

    def scopes_in(self, vhost: str) -> list[Scope]:
        """Return the scopes of a virtual host."""
        return [each for each in self._scopes if each.vhost.matches(vhost)]


class ScopedTopics(Unlisted[Mapping[str, TopicPermission]]):
    """The topic permissions of a user by virtual host and exchange; every exchange has some."""

    def __init__(self, permissions: ScopedPermissions) -> None:
        self._permissions = permissions
        self._chosen: _Chosen[_Topics] = _Chosen()

    def __contains__(self, vhost: object) -> bool:
        return vhost in self._permissions

    def __getitem__(self, vhost: str) -> Mapping[str, TopicPermission]:
        found = self._chosen.get(vhost)
        if found is None:
            if vhost not in self:
                raise KeyError(vhost)
            found = self._chosen.keep(vhost, _Topics(self._permissions.scopes_in(vhost)))
        return found


class _Topics(Unlisted[TopicPermission]):
    """Of one virtual host, by exchange."""

    def __init__(self, scopes: list[Scope]) -> None:
        self._scopes = scopes
        self._chosen: _Chosen[TopicPermission] = _Chosen()

    def __contains__(self, exchange: object) -> bool:
        return isinstance(exchange, str)

    def __getitem__(self, exchange: str) -> TopicPermission:
        found = self._chosen.get(exchange)
        if found is None:
            here = [each for each in self._scopes if each.name.matches(exchange)]
            write, read = (
                AnyOf(each.key for each in here if each.right == right and each.key is not None)
                for right in ("write", "read")
            )
            made = TopicPermission(write.text, read.text, write, read)
            found = self._chosen.keep(exchange, made)
        return found


class AnyOf(Pattern):
    """What some wildcards mean together, as a pattern that is shown, and not run; of none: nothing.

    Args:
        wildcards: each for a whole name.
    """

    __slots__ = ("_wildcards",)

    def __init__(self, wildcards: Iterable[Wildcard]) -> None:
        self._wildcards = tuple(dict.fromkeys(wildcards))
        found = sorted(each.pattern for each in self._wildcards)
        self.text = f"(?s)\\A(?:{'|'.join(found)})\\z" if found else NOTHING

    def matches(self, name: str) -> bool:
        """Say whether any of them means `name`."""
        return any(each.matches(name) for each in self._wildcards)
