"""Partitioned streams: an exchange and several streams that are declared, and deleted, as one.

Responsible for their shape, which is that of RabbitMQ's super streams: exchange NAME and streams
NAME-0, NAME-1, … bound to it in order, either by number on an exchange that hashes routing keys
(`x-super-stream`), or by a key each on a direct exchange. Must not know permissions. Invariant: a
declaration makes all of it or nothing; whoever changes a part of it by hand is told so next time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from leporid.amqp.constants import SHORTSTR_BYTES_MAX
from leporid.amqp.errors import PreconditionFailed
from leporid.amqp.tables import Value
from leporid.broker.exchange.types import Binding
from leporid.broker.names import check_new_name, exchange_in, queue_in
from leporid.broker.queue.queue_types import STREAM
from leporid.broker.settings.equivalence import check_same
from leporid.broker.settings.values import Arguments

if TYPE_CHECKING:
    from leporid.broker.exchange.exchange import ExchangeState
    from leporid.broker.queue.queue import QueueState
    from leporid.broker.vhost import VirtualHost

Routing: TypeAlias = Literal["hash", "key"]

PARTITIONS_MAX: Final = 1000
"""As many as RabbitMQ makes in one call."""

HASH_TYPE: Final = "x-super-stream"
# What RabbitMQ's stream clients look for: on the exchange, and on each binding.
MARK: Final = "x-super-stream"
ORDER: Final = "x-stream-partition-order"


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be there."""

    name: str
    keys: tuple[str, ...]
    type: str
    arguments: Arguments
    """Of each stream."""

    @property
    def streams(self) -> list[str]:
        """The names of the streams, in order."""
        return [f"{self.name}-{number}" for number in range(len(self.keys))]

    @property
    def bindings(self) -> list[Binding]:
        """The bindings, in order."""
        return [
            Binding(self.name, stream, "queue", key, {ORDER: number})
            for number, (stream, key) in enumerate(zip(self.streams, self.keys, strict=True))
        ]


def plan(
    name: str,
    partitions: int | None,
    *,
    routing: str = "hash",
    keys: Sequence[str] | None = None,
    arguments: Arguments | None = None,
) -> Plan:
    """Say what a partitioned stream consists of; `name` gets its permissions checked by these.

    Args:
        name: of the exchange.
        partitions: how many; may be None when there are keys.
        routing: `hash` of the routing key, or by `key`.
        keys: for `key`, the routing key of each partition.
        arguments: of each stream; `x-queue-type` is added.

    Raises:
        PreconditionFailed: these do not fit together.
    """
    title = f"partitioned stream '{name}'"
    if not name:
        raise PreconditionFailed("a partitioned stream needs a name")
    if routing not in ("hash", "key"):
        raise PreconditionFailed(f"invalid routing '{routing}' for {title}: it is hash or key")
    if routing == "hash" and keys is not None:
        raise PreconditionFailed(f"{title} is routed by hash, so it takes no keys")
    if routing == "key":
        keys = keys or ()
        if len(set(keys)) < len(keys):
            raise PreconditionFailed(f"two partitions of {title} have the same key")
        if partitions not in (None, len(keys)):
            raise PreconditionFailed(f"{title} has {partitions} partitions but {len(keys)} keys")
        for key in keys:
            if len(key.encode()) > SHORTSTR_BYTES_MAX:
                raise PreconditionFailed(f"a key of {title} is longer than 255 bytes")
    count = len(keys) if keys is not None else partitions or 0
    if not 1 <= count <= PARTITIONS_MAX:
        raise PreconditionFailed(f"{title} must have 1 to {PARTITIONS_MAX} partitions, not {count}")
    if len(f"{name}-{count - 1}".encode()) > SHORTSTR_BYTES_MAX:
        raise PreconditionFailed(f"names longer than 255 bytes: those of the streams of {title}")
    return Plan(
        name,
        tuple(keys) if keys is not None else tuple(map(str, range(count))),
        HASH_TYPE if keys is None else "direct",
        {**(arguments or {}), "x-queue-type": STREAM.name},
    )


def declare(vhost: VirtualHost, wanted: Plan) -> bool:
    """Make it, or agree that it is there already.

    Returns:
        Whether it was made.

    Raises:
        AccessRefused: its name is reserved.
        PreconditionFailed: an argument is wrong, or something else is in its place.
    """
    exchange = vhost.find_exchange(wanted.name)
    if exchange is not None:
        _check_same(vhost, exchange, wanted)
        return False
    check_new_name("exchange", wanted.name)
    for stream in (wanted.name, *wanted.streams):
        if vhost.find_queue(stream) is not None:
            raise PreconditionFailed(f"{queue_in(vhost.name, stream)} is there already")
    vhost.check_queue(
        wanted.streams[0],
        durable=True,
        auto_delete=False,
        exclusive=False,
        arguments=wanted.arguments,
    )
    marks: dict[str, Value] = {MARK: True}
    vhost.create_exchange(
        wanted.name, wanted.type, durable=True, auto_delete=False, internal=False, arguments=marks
    )
    for stream, binding in zip(wanted.streams, wanted.bindings, strict=True):
        vhost.create_queue(
            stream, durable=True, auto_delete=False, arguments=wanted.arguments, owner=None
        )
        vhost.bindings.bind(binding, None)
    return True


def _check_same(vhost: VirtualHost, exchange: ExchangeState, wanted: Plan) -> None:
    title = exchange_in(vhost.name, wanted.name)
    if not _is_marked(exchange):
        raise PreconditionFailed(f"{title} is there already, and is not of a partitioned stream")
    check_same(title, "type", exchange.type, wanted.type)
    found = _bindings(exchange)
    if len(found) != len(wanted.keys):
        raise PreconditionFailed(
            f"inequivalent arg 'partitions' for {title}: received '{len(wanted.keys)}' but current "
            f"is '{len(found)}'"
        )
    for one, other in zip(found, wanted.bindings, strict=True):
        check_same(title, "keys", one.key, other.key)
        check_same(title, "streams", one.destination, other.destination)
    for queue in of(vhost, wanted.name):
        queue.check_same(durable=True, auto_delete=False, arguments=wanted.arguments, owner=None)


def of(vhost: VirtualHost, name: str) -> list[QueueState]:
    """Return the streams behind a name, in order: those of a partitioned stream, or one stream.

    Raises:
        NotFound: there is neither.
    """
    exchange = _partitioned(vhost, name)
    return [vhost.stream(name)] if exchange is None else _parts(vhost, exchange)


def is_stream(vhost: VirtualHost, name: str) -> bool:
    """Say whether a name is that of a stream or of a partitioned one."""
    queue = vhost.find_queue(name)
    return is_partitioned(vhost, name) or (queue is not None and queue.stream is not None)


def is_partitioned(vhost: VirtualHost, name: str) -> bool:
    """Say whether a name is that of a partitioned stream; another exchange may have the name."""
    return _partitioned(vhost, name) is not None


def names(vhost: VirtualHost) -> dict[str, int]:
    """Return all partitioned streams, then all streams that are not part of one.

    Each with how many partitions it has.
    """
    found: dict[str, int] = {}
    parts: set[str] = set()
    for exchange in vhost.exchanges():
        if _is_marked(exchange):
            streams = _parts(vhost, exchange)
            found[exchange.name] = len(streams)
            parts.update(stream.name for stream in streams)
    for queue in vhost.queues():
        if queue.stream is not None and queue.name not in parts:
            found.setdefault(queue.name, 1)
    return found


def delete(vhost: VirtualHost, name: str) -> None:
    """Delete a partitioned stream, or one stream, with all messages.

    Raises:
        NotFound: there is neither.
    """
    streams = of(vhost, name)
    exchange = _partitioned(vhost, name)
    if exchange is not None:
        vhost.delete_exchange(exchange, if_unused=False)
    for queue in streams:
        vhost.delete_queue(queue)


def _partitioned(vhost: VirtualHost, name: str) -> ExchangeState | None:
    exchange = vhost.find_exchange(name)
    return exchange if exchange is not None and _is_marked(exchange) else None


def _is_marked(exchange: ExchangeState) -> bool:
    return exchange.arguments.get(MARK) is True


def _parts(vhost: VirtualHost, exchange: ExchangeState) -> list[QueueState]:
    """The partitions, in order.

    Who may read a partitioned stream may read these, and a binding to it takes no right to read:
    so a stream of another name is none of them, and neither is a queue.
    """
    names = dict.fromkeys(
        binding.destination
        for binding in _bindings(exchange)
        if binding.destination.startswith(f"{exchange.name}-")
    )
    queues = map(vhost.find_queue, names)
    return [queue for queue in queues if queue is not None and queue.stream is not None]


def _bindings(exchange: ExchangeState) -> list[Binding]:
    """The bindings of queues that have a number, in order; others are left out."""
    ordered = [
        (order, binding)
        for binding in exchange.outgoing
        if binding.destination_kind == "queue"
        and isinstance(order := binding.arguments.get(ORDER), int)
    ]
    return [binding for _, binding in sorted(ordered, key=lambda each: each[0])]
