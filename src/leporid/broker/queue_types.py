"""The types of queues, and which arguments each of them takes.

Responsible for refusing arguments that a queue or its consumers cannot have, in RabbitMQ's words.
Must not know what an argument does to messages. Invariant: keys that no queue type knows are kept
and never compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from leporid.amqp.errors import PreconditionFailed
from leporid.broker.arguments import (
    CONSUMER_CHECKS,
    DEDUPLICATION,
    GROUP,
    GROUP_VERSION,
    MATCH_UNFILTERED,
    QUEUE_CHECKS,
    READER,
    STREAM_FILTER,
    TIMEOUT_ACTION,
    Arguments,
    check_values,
    one_of,
)

# What RabbitMQ has on quorum queues only, or not at all.
_RETURNS: Final = (
    "x-delivery-limit",
    "x-consumer-timeout",
    TIMEOUT_ACTION,
    "x-delayed-retry-type",
    "x-delayed-retry-min",
    "x-delayed-retry-max",
)
# What RabbitMQ 3.10 does not have on streams.
_READING: Final = (
    READER,
    GROUP,
    GROUP_VERSION,
    STREAM_FILTER,
    MATCH_UNFILTERED,
    "x-delivery-limit",
    "x-delayed-retry-min",
    "x-delayed-retry-max",
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
)


@dataclass(frozen=True, slots=True)
class QueueType:
    """A type of queue: which arguments it understands, in the order they are compared."""

    name: str
    module: str
    """The name of RabbitMQ's module for it, which appears in reply texts."""
    queue_arguments: tuple[str, ...]
    consumer_arguments: tuple[str, ...]
    transient: bool
    """Whether it may be non-durable, exclusive, auto-delete or named by the server."""


CLASSIC: Final = QueueType(
    name="classic",
    module="rabbit_classic_queue",
    queue_arguments=(
        "x-expires",
        "x-message-ttl",
        "x-dead-letter-exchange",
        "x-dead-letter-routing-key",
        "x-max-length",
        "x-max-length-bytes",
        "x-max-priority",
        "x-overflow",
        "x-queue-mode",
        "x-queue-version",
        "x-single-active-consumer",
        DEDUPLICATION,
        "x-queue-type",
        "x-queue-master-locator",
        *_RETURNS,
    ),
    consumer_arguments=(
        "x-cancel-on-ha-failover",
        "x-priority",
        "x-credit",
        "x-consumer-timeout",
        TIMEOUT_ACTION,
    ),
    transient=True,
)
# Accepted because clients ask for it by name; on one node it is a durable queue.
QUORUM: Final = QueueType(
    name="quorum",
    module="rabbit_quorum_queue",
    queue_arguments=(
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
        DEDUPLICATION,
        "x-queue-type",
        "x-quorum-initial-group-size",
        "x-message-ttl",
        "x-queue-leader-locator",
        *_RETURNS,
    ),
    consumer_arguments=("x-priority", "x-credit", "x-consumer-timeout", TIMEOUT_ACTION),
    transient=False,
)
STREAM: Final = QueueType(
    name="stream",
    module="rabbit_stream_queue",
    queue_arguments=(
        "x-max-length-bytes",
        "x-queue-type",
        "x-max-age",
        "x-stream-max-segment-size-bytes",
        "x-initial-cluster-size",
        "x-queue-leader-locator",
    ),
    consumer_arguments=("x-stream-offset", "x-credit", *_READING),
    transient=False,
)
QUEUE_TYPES: Final = {kind.name: kind for kind in (CLASSIC, QUORUM, STREAM)}

# RabbitMQ refuses an argument that only other types of queue understand. Those that are ours alone
# it keeps without effect, and so do we; as it does a stream's filter.
_ALL_QUEUE_ARGUMENTS: Final = frozenset(
    key for kind in QUEUE_TYPES.values() for key in kind.queue_arguments
) - {TIMEOUT_ACTION}
_ALL_CONSUMER_ARGUMENTS: Final = frozenset(
    key for kind in QUEUE_TYPES.values() for key in kind.consumer_arguments
) - {*_READING, TIMEOUT_ACTION}
_check_queue_type = one_of(QUEUE_TYPES, "\"unsupported queue type '{}'\"")


def queue_type(arguments: Arguments) -> QueueType:
    """Return the type that the arguments ask for, classic when they do not say."""
    name = arguments.get("x-queue-type")
    return QUEUE_TYPES.get(name, CLASSIC) if isinstance(name, str) else CLASSIC


def check_queue_arguments(queue: str, arguments: Arguments) -> QueueType:
    """Check the arguments of a new queue, called `queue` as in `names.queue_in`.

    Raises:
        PreconditionFailed: one of them is wrong.
    """
    check_values(queue, arguments, {"x-queue-type": _check_queue_type})
    kind = queue_type(arguments)
    checks = {key: check for key, check in QUEUE_CHECKS.items() if key in kind.queue_arguments}
    check_values(queue, arguments, checks)
    _check_keys(queue, arguments, _ALL_QUEUE_ARGUMENTS.difference(kind.queue_arguments), kind)
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
    known = kind.consumer_arguments
    checks = {key: check for key, check in CONSUMER_CHECKS.items() if key in known}
    check_values(queue, arguments, checks)
    _check_keys(queue, arguments, _ALL_CONSUMER_ARGUMENTS.difference(known), kind)


def _check_keys(thing: str, arguments: Arguments, foreign: frozenset[str], kind: QueueType) -> None:
    for key in arguments:
        if key in foreign:
            raise PreconditionFailed(f"invalid arg '{key}' for {thing} of queue type {kind.module}")
