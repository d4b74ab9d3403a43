"""The types of queues, and which arguments each of them takes.

Responsible for refusing arguments that a queue or its consumers cannot have, in RabbitMQ's words.
Must not know what an argument does to messages. Invariant: keys that no queue type knows are kept
and never compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from leporid.amqp.errors import PreconditionFailed
from leporid.broker.settings.table import SETTINGS, Place, known_to
from leporid.broker.settings.values import QUEUE_TYPE, Arguments, check_values, one_of


@dataclass(frozen=True, slots=True)
class QueueType:
    """A type of queue."""

    name: str
    module: str
    """The name of RabbitMQ's module for it, which appears in reply texts."""
    transient: bool
    """Whether it may be non-durable, exclusive, auto-delete or named by the server."""
    queue_arguments: tuple[str, ...]
    """Those it reads, in the order they are compared."""
    consumer_arguments: tuple[str, ...]


def _make(name: str, *, transient: bool, compared_first: tuple[str, ...] = ()) -> QueueType:
    known = [each.name for each in known_to("queue", name)]
    known.sort(key=lambda each: (*compared_first, each).index(each))
    return QueueType(
        name,
        f"rabbit_{name}_queue",
        transient,
        tuple(known),
        tuple(each.name for each in known_to("consumer", name)),
    )


CLASSIC: Final = _make("classic", transient=True)
# Accepted because clients ask for it by name; on one node it is a durable queue. RabbitMQ compares
# its arguments in an order of their own.
QUORUM: Final = _make(
    "quorum",
    transient=False,
    compared_first=(
        "x-dead-letter-exchange",
        "x-dead-letter-routing-key",
        "x-dead-letter-strategy",
        "x-expires",
        "x-max-length",
        "x-max-length-bytes",
        "x-max-in-memory-length",
        "x-max-in-memory-bytes",
        "x-overflow",
        "x-single-active-consumer",
        "x-message-deduplication",
        "x-queue-type",
        "x-quorum-initial-group-size",
        "x-message-ttl",
        "x-queue-leader-locator",
    ),
)
STREAM: Final = _make("stream", transient=False)
QUEUE_TYPES: Final = {kind.name: kind for kind in (CLASSIC, QUORUM, STREAM)}

_TYPES: Final = one_of(QUEUE_TYPES, "\"unsupported queue type '{}'\"")


def queue_type(arguments: Arguments) -> QueueType:
    """Return the type that the arguments ask for, classic when they do not say."""
    name = arguments.get(QUEUE_TYPE)
    return QUEUE_TYPES.get(name, CLASSIC) if isinstance(name, str) else CLASSIC


def check_queue_arguments(queue: str, arguments: Arguments) -> QueueType:
    """Check the arguments of a new queue, called `queue` as in `names.queue_in`.

    Raises:
        PreconditionFailed: one of them is wrong.
    """
    check_values(queue, arguments, {QUEUE_TYPE: _TYPES})
    kind = queue_type(arguments)
    _check(queue, arguments, "queue", kind)
    return kind


def check_permanent(title: str, *, durable: bool, auto_delete: bool, exclusive: bool) -> None:
    """Check the properties of a new queue of a type that is not `transient`.

    Raises:
        PreconditionFailed: it would not last.
    """
    wrong = {"auto-delete": auto_delete, "exclusive-owner": exclusive, "non-durable": not durable}
    for name, is_so in wrong.items():
        if is_so:
            raise PreconditionFailed(f"invalid property '{name}' for {title}")


def check_consumer_arguments(queue: str, kind: QueueType, arguments: Arguments) -> None:
    """Check the arguments of basic.consume.

    Raises:
        PreconditionFailed: one of them is wrong.
    """
    _check(queue, arguments, "consumer", kind)


def _check(thing: str, arguments: Arguments, place: Place, kind: QueueType) -> None:
    known = known_to(place, kind.name)
    kinds = {each.name: each.values for each in known if each.values is not None}
    check_values(thing, arguments, kinds)
    for key in arguments:
        # RabbitMQ refuses an argument that only other types of queue read. Those that are ours
        # alone it keeps without effect, and so do we; as it does a stream's filter.
        if key in _REFUSED[place, kind.name]:
            raise PreconditionFailed(f"invalid arg '{key}' for {thing} of queue type {kind.module}")


_REFUSED: Final = {
    (place, kind): frozenset(
        each.name
        for each in SETTINGS
        if each.place == place and each.types and not each.kept_elsewhere
        if kind not in each.types
    )
    for place in ("queue", "consumer")
    for kind in QUEUE_TYPES
}
