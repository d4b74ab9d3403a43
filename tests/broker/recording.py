"""What storage does with changes, in a dictionary; for tests of what is recorded and restored."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from leporid.broker.stored import Stored, StoredVhost
from leporid.durable import (
    Change,
    DefinitionsSnapshot,
    Drop,
    Durable,
    Field,
    Put,
    Together,
    each_of,
)

S = TypeVar("S", bound=Stored)


class Recording:
    """Applies changes to a dictionary, which is all that storage does too."""

    def __init__(self, vhosts: Iterable[str], changes: Iterable[Change] = ()) -> None:
        self._found: dict[tuple[type[Durable], tuple[Field, ...]], Durable] = {}
        self.next_queue_id = 1
        for name in vhosts:
            self.put(StoredVhost(name))
        self.extend(changes)

    def snapshot(self) -> DefinitionsSnapshot:
        """Return what storage would load."""
        return DefinitionsSnapshot(tuple(self._found.values()), self.next_queue_id)

    def extend(self, changes: Iterable[Change]) -> None:
        for change in changes:
            self.apply(change)

    def put(self, *definitions: Durable) -> None:
        """Add definitions."""
        for each in definitions:
            self.apply(Put(each))

    def apply(self, change: Change) -> None:
        if isinstance(change, Together):
            self.extend(change.changes)
        elif isinstance(change, Put):
            definition = change.definition
            self._found[type(definition), definition.identity] = definition
            self.next_queue_id = max(self.next_queue_id, getattr(definition, "id", 0) + 1)
        else:
            self._found.pop((change.kind, change.identity), None)
            column = change.kind.TABLE.inside
            if column is not None:
                self._found = {
                    key: each
                    for key, each in self._found.items()
                    if getattr(each, column, None) != change.identity[0]
                }

    def clear(self, kind: type[Durable]) -> None:
        """Lose all definitions of a kind."""
        self._found = {key: each for key, each in self._found.items() if key[0] is not kind}

    def of(self, kind: type[S]) -> tuple[S, ...]:
        return tuple(each for each in self._found.values() if isinstance(each, kind))


def puts(changes: Iterable[Change], kind: type[S]) -> list[S]:
    """Return the definitions of a kind that were put, in order."""
    found = [change.definition for change in each_of(changes) if isinstance(change, Put)]
    return [each for each in found if isinstance(each, kind)]


def drops(changes: Iterable[Change], kind: type[Stored]) -> list[tuple[Field, ...]]:
    """Return which definitions of a kind were dropped, in order."""
    return [one.identity for one in each_of(changes) if isinstance(one, Drop) and one.kind is kind]


def summary(changes: Iterable[Change]) -> list[tuple[type[Change], type[Durable]]]:
    """Return whether each change is a Put or a Drop, and of which kind."""
    return [
        (Put, type(one.definition)) if isinstance(one, Put) else (Drop, one.kind)
        for one in each_of(changes)
    ]
