"""What an import of definitions changes, noun by noun: told before it is done, or afterwards.

Responsible for what is listed of it, and for how that looks in JSON. Must not know how it was found
out. Invariant: nothing of a document is left out without being listed or counted here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from leporid.broker.registry import Steps

IDENTITIES: Final[Mapping[str, tuple[str, ...]]] = {
    "vhosts": ("name",),
    "users": ("name",),
    "permissions": ("vhost", "user"),
    "topic_permissions": ("vhost", "user", "exchange"),
    "parameters": ("vhost", "component", "name"),
    "global_parameters": ("name",),
    "policies": ("vhost", "name"),
    "exchanges": ("vhost", "name"),
    "queues": ("vhost", "name"),
    "bindings": ("vhost", "source", "destination_type", "destination", "routing_key"),
}
"""What names a definition of each noun, and the order in which nouns are shown."""

IGNORED_MAX: Final = 1000
"""What is ignored is listed up to here, and counted further."""

Identity = tuple[str, ...]
T = TypeVar("T")


@dataclass(slots=True)
class NounDifference:
    """What becomes of the definitions of one noun.

    Attributes:
        added: those that are new.
        changed: those that have other values than before.
        unchanged: how many are there already as they are to be.
        conflicting: those that are there otherwise and stay so, each with what differs.
    """

    added: deque[Identity] = field(default_factory=deque)
    changed: deque[Identity] = field(default_factory=deque)
    unchanged: int = 0
    conflicting: deque[tuple[Identity, str]] = field(default_factory=deque)


class Difference:
    """What becomes of a document."""

    def __init__(self) -> None:
        self._nouns = {noun: NounDifference() for noun in IDENTITIES}
        self.ignored: list[tuple[str, str]] = []
        self.ignored_count = 0

    def __repr__(self) -> str:
        return f"<Difference {self.summary()}>"

    def __getitem__(self, noun: str) -> NounDifference:
        return self._nouns[noun]

    def ignore(self, what: str, reason: str) -> None:
        """Something of the document has no effect."""
        self.ignored_count += 1
        if len(self.ignored) < IGNORED_MAX:
            self.ignored.append((what, reason))

    @property
    def has_conflicts(self) -> bool:
        """Whether something is there otherwise and stays so."""
        return any(each.conflicting for each in self._nouns.values())

    @property
    def is_worth_telling(self) -> bool:
        """Whether not everything of the document is in force."""
        return self.has_conflicts or bool(self.ignored)

    def forgetting(self) -> Steps:
        """Free what is listed, in steps."""
        for each in self._nouns.values():
            for listed in (each.added, each.changed, each.conflicting):
                while listed:
                    listed.pop()
                    yield None

    def summary(self) -> str:
        """Return the counts as one sentence, for the log."""
        counts = {
            "added": sum(len(each.added) for each in self._nouns.values()),
            "changed": sum(len(each.changed) for each in self._nouns.values()),
            "unchanged": sum(each.unchanged for each in self._nouns.values()),
            "conflicting": sum(len(each.conflicting) for each in self._nouns.values()),
            "ignored": self.ignored_count,
        }
        return ", ".join(f"{count} {word}" for word, count in counts.items())

    def shown(self) -> dict[str, Any]:
        """Return it as JSON has it, once: long lists are iterators, which empty it on their way."""
        found: dict[str, Any] = {
            noun: self._shown_noun(noun, each) for noun, each in self._nouns.items()
        }
        found["ignored"] = ({"what": what, "reason": reason} for what, reason in self.ignored)
        found["ignored_count"] = self.ignored_count
        return found

    def _shown_noun(self, noun: str, each: NounDifference) -> dict[str, Any]:
        names = IDENTITIES[noun]

        def listed(identities: deque[Identity]) -> Iterator[dict[str, str]]:
            return (dict(zip(names, one, strict=True)) for one in _emptying(identities))

        return {
            "added": listed(each.added),
            "changed": listed(each.changed),
            "unchanged": each.unchanged,
            "conflicting": (
                {**dict(zip(names, one, strict=True)), "reason": reason}
                for one, reason in _emptying(each.conflicting)
            ),
        }


def _emptying(listed: deque[T]) -> Iterator[T]:
    while listed:
        yield listed.popleft()
