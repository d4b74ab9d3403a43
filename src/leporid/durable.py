"""Durable definitions, as control plane and storage agree on them: kinds, changes, snapshots.

Responsible for what a kind of definition is: a frozen dataclass whose fields are columns, and whose
`TABLE` says how they are kept. Must not know any kind (`broker/stored.py` has them all), nor SQL.
Invariant: applying a change twice is the same as applying it once, and tables of arguments stay
encoded, so that a value's type is never lost on the way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar, Final, TypeAlias, TypeVar

Field: TypeAlias = str | int | bytes
"""What a field of a definition may be; a bool is an int."""


# By their annotations, which modules of kinds do not evaluate.
_TYPES = {"str": str, "int": int, "bool": bool, "bytes": bytes}


@dataclass(frozen=True, slots=True)
class Table:
    """How the definitions of one kind are kept.

    Attributes:
        name: of the table.
        key: the fields that tell one definition from another; the first ones of the class. An `id`
            alone is a number in the log, which is never given twice.
        unique: fields of which there are no two the same.
        since: the version of the schema that brought the table.
        checks_id: whether the table refuses an id of 0.
        inside: the column by which definitions of other kinds name the one of this kind that they
            are dropped with.
    """

    name: str
    key: tuple[str, ...]
    unique: tuple[str, ...] = ()
    since: int = 1
    checks_id: bool = True
    inside: str | None = None

    @property
    def has_id(self) -> bool:
        """Whether definitions have a number in the log."""
        return self.key == ("id",)


# By class: an import of definitions asks for them hundred thousand times.
_COLUMNS: Final[dict[type, tuple[str, ...]]] = {}


@dataclass(frozen=True, slots=True)
class Durable:
    """One durable definition; the base of every kind."""

    TABLE: ClassVar[Table]

    @classmethod
    def columns(cls) -> tuple[str, ...]:
        """Return the names of its fields, in order."""
        found = _COLUMNS.get(cls)
        if found is None:
            found = _COLUMNS[cls] = tuple(field.name for field in fields(cls))
        return found

    @classmethod
    def types(cls) -> dict[str, type]:
        """Return the types of its fields, in order."""
        return {field.name: _TYPES[str(field.type)] for field in fields(cls)}

    @property
    def identity(self) -> tuple[Field, ...]:
        """The values of its key."""
        return tuple(getattr(self, name) for name in self.TABLE.key)

    def values(self) -> tuple[Field, ...]:
        """Return all of its values, in order."""
        # Not dataclasses.astuple, which copies each value, and takes ten times as long.
        return tuple([getattr(self, name) for name in self.columns()])


@dataclass(frozen=True, slots=True)
class Put:
    """A definition is there, or has other values than before."""

    definition: Durable


@dataclass(frozen=True, slots=True)
class Drop:
    """A definition is gone; what was inside it, too."""

    kind: type[Durable]
    identity: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Together:
    """Changes of which all are there after a crash, or none."""

    changes: Sequence[Put | Drop]


Change: TypeAlias = Put | Drop | Together


def each_of(changes: Iterable[Change]) -> Iterator[Put | Drop]:
    """Go through changes one by one, in order."""
    for change in changes:
        if isinstance(change, Together):
            yield from change.changes
        else:
            yield change


D = TypeVar("D", bound=Durable)


@dataclass(frozen=True)
class DefinitionsSnapshot:
    """All definitions at one moment.

    Attributes:
        definitions: of every kind, those of one kind by their keys.
        next_queue_id: the lowest number in the log that nothing ever had.
    """

    definitions: tuple[Durable, ...]
    next_queue_id: int

    def of(self, kind: type[D]) -> tuple[D, ...]:
        """Return the definitions of one kind."""
        return tuple(each for each in self.definitions if isinstance(each, kind))
