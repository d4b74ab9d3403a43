"""Changes to durable definitions, as facts to be recorded.

Responsible for naming each change that must survive a restart. Must not know where it is
recorded. Invariant: applying a change twice is the same as applying it once, and tables stay
encoded, so that a value's type is never lost on the way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

DestinationKind: TypeAlias = Literal["queue", "exchange"]


@dataclass(frozen=True, slots=True)
class PutVhost:
    """A virtual host exists."""

    name: str


@dataclass(frozen=True, slots=True)
class DropVhost:
    """A virtual host is gone, with all that was in it."""

    name: str


@dataclass(frozen=True, slots=True)
class PutExchange:
    """A durable exchange exists; the predeclared ones are never recorded."""

    vhost: str
    name: str
    type: str
    auto_delete: bool
    internal: bool
    arguments: bytes


@dataclass(frozen=True, slots=True)
class DropExchange:
    """A durable exchange is gone; its bindings were dropped before it."""

    vhost: str
    name: str


@dataclass(frozen=True, slots=True)
class PutDelays:
    """A durable exchange keeps delayed messages, under a number as queues have them."""

    id: int
    vhost: str
    exchange: str


@dataclass(frozen=True, slots=True)
class DropDelays:
    """What an exchange kept is gone; this comes before its exchange goes."""

    id: int


@dataclass(frozen=True, slots=True)
class PutQueue:
    """A durable queue exists under a number that is never used again."""

    id: int
    vhost: str
    name: str
    auto_delete: bool
    arguments: bytes


@dataclass(frozen=True, slots=True)
class DropQueue:
    """A durable queue is gone; its bindings and readers were dropped before it."""

    id: int


@dataclass(frozen=True, slots=True)
class PutBinding:
    """A binding exists between a durable exchange and a durable destination."""

    vhost: str
    source: str
    destination: str
    kind: DestinationKind
    key: str
    arguments: bytes


@dataclass(frozen=True, slots=True)
class DropBinding:
    """Such a binding is gone."""

    vhost: str
    source: str
    destination: str
    kind: DestinationKind
    key: str
    arguments: bytes


@dataclass(frozen=True, slots=True)
class PutStaging:
    """Messages of such a binding wait for a filter class, under a number as queues have them."""

    id: int
    vhost: str
    source: str
    destination: str
    kind: DestinationKind
    key: str
    arguments: bytes


@dataclass(frozen=True, slots=True)
class DropStaging:
    """Nothing waits there any more."""

    id: int


@dataclass(frozen=True, slots=True)
class PutReaderOffset:
    """A named reader has read a stream up to and with that offset."""

    vhost: str
    stream: str
    reader: str
    offset: int


@dataclass(frozen=True, slots=True)
class DropReaderOffset:
    """Nothing is known of that reader any more."""

    vhost: str
    stream: str
    reader: str


@dataclass(frozen=True, slots=True)
class PutGroup:
    """A group reads a stream, or a partitioned one; its filter is a table of arguments."""

    vhost: str
    stream: str
    name: str
    version: int
    arguments: bytes
    used_ms: int


@dataclass(frozen=True, slots=True)
class DropGroup:
    """A group is gone; its offsets were dropped before it, or went with the stream."""

    vhost: str
    stream: str
    name: str


@dataclass(frozen=True, slots=True)
class PutGroupRetries:
    """What a group retries is kept under a number, as a queue has one."""

    id: int
    vhost: str
    stream: str
    name: str


@dataclass(frozen=True, slots=True)
class DropGroupRetries:
    """Nothing is kept there any more."""

    id: int


@dataclass(frozen=True, slots=True)
class PutCache:
    """A durable exchange remembers messages under a number, as a queue has one."""

    id: int
    vhost: str
    exchange: str


@dataclass(frozen=True, slots=True)
class DropCache:
    """What was remembered under that number is forgotten."""

    id: int


@dataclass(frozen=True, slots=True)
class PutPolicy:
    """A policy, or an operator policy, is in force."""

    vhost: str
    operator: bool
    name: str
    pattern: str
    apply_to: str
    priority: int
    definition: bytes


@dataclass(frozen=True, slots=True)
class DropPolicy:
    """A policy is gone."""

    vhost: str
    operator: bool
    name: str


@dataclass(frozen=True, slots=True)
class PutFilterClass:
    """A filter class counts in that version."""

    name: str
    version: int
    class_name: str
    source: bytes


@dataclass(frozen=True, slots=True)
class DropFilterClass:
    """A filter class is gone."""

    name: str


Change: TypeAlias = (
    PutVhost
    | DropVhost
    | PutExchange
    | DropExchange
    | PutDelays
    | DropDelays
    | PutQueue
    | DropQueue
    | PutBinding
    | DropBinding
    | PutReaderOffset
    | DropReaderOffset
    | PutGroup
    | DropGroup
    | PutCache
    | DropCache
    | PutPolicy
    | DropPolicy
    | PutFilterClass
    | PutStaging
    | DropStaging
    | PutGroupRetries
    | DropGroupRetries
    | DropFilterClass
)
