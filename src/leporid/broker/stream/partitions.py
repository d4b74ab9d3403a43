"""Partitioned streams: an exchange and several streams that are declared, and deleted, as one.

Responsible for their shape, which is that of RabbitMQ's super streams: exchange NAME and streams
NAME-0, NAME-1, … bound to it in order, either by number on an exchange that hashes routing keys
(`x-super-stream`), or by a key each on a direct exchange. Must not know permissions. Invariant: a
declaration makes all of it or nothing, as long as the broker runs; whoever changes a part of it by
hand is told so next time. As there may be a thousand, they are made in steps, and deleted so.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from leporid.amqp.constants import SHORTSTR_BYTES_MAX
from leporid.amqp.errors import PreconditionFailed
from leporid.amqp.tables import Value
from leporid.broker.exchange.types import Binding
from leporid.broker.names import check_new_name, exchange_in
from leporid.broker.queue.queue_types import STREAM
from leporid.broker.settings.equivalence import check_same
from leporid.broker.settings.values import Arguments
from leporid.broker.stream.readers import Standing
from leporid.engine.bounds.jobs import AWAITS

if TYPE_CHECKING:
    from leporid.broker.exchange.exchange import ExchangeState
    from leporid.broker.queue.queue import QueueState
    from leporid.broker.registry import Steps, StepsTo
    from leporid.broker.vhost import VirtualHost

Routing: TypeAlias = Literal["hash", "key"]

PARTITIONS_MAX: Final = 1000
"""As many as RabbitMQ makes in one call."""

BINDINGS_MAX: Final = 4096
"""Of an exchange that is taken for a partitioned stream. All are looked at whenever somebody names
it, which takes some milliseconds; with a hundred thousand it would be a tenth of a second."""

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


def declaring(vhost: VirtualHost, wanted: Plan) -> StepsTo[bool]:
    """Make it, or agree that it is there already, in steps.

    Returns:
        Whether it was made.

    Raises:
        AccessRefused: its name is reserved.
        PreconditionFailed: an argument is wrong, or something else is in its place, or came there
            meanwhile.
    """
    while wanted.name in vhost.partitioned_changing:
        yield AWAITS
    exchange = vhost.find_exchange(wanted.name)
    if exchange is not None:
        yield from _checking_same(vhost, exchange, wanted)
        return False
    check_new_name("exchange", wanted.name)
    for stream in (wanted.name, *wanted.streams):
        vhost.check_free(stream)
    vhost.check_queue(
        wanted.streams[0],
        durable=True,
        auto_delete=False,
        exclusive=False,
        arguments=wanted.arguments,
    )
    vhost.check_queue_limit(wanted.name, len(wanted.streams))
    marks: dict[str, Value] = {MARK: True}
    exchange = vhost.create_exchange(
        wanted.name, wanted.type, durable=True, auto_delete=False, internal=False, arguments=marks
    )
    vhost.partitioned_changing.add(wanted.name)
    made: list[QueueState] = []
    try:
        for stream, binding in zip(wanted.streams, wanted.bindings, strict=True):
            vhost.check_free(stream)
            if exchange.deleted:
                raise PreconditionFailed(f"{exchange_in(vhost.name, wanted.name)} was deleted")
            made.append(
                vhost.create_queue(
                    stream, durable=True, auto_delete=False, arguments=wanted.arguments, owner=None
                )
            )
            vhost.bindings.bind(binding, None)
            yield None
    except PreconditionFailed:
        # While others had turns, somebody took a name, or deleted the exchange.
        yield from _deleting(vhost, exchange, made)
        raise
    finally:
        vhost.partitioned_changing.discard(wanted.name)
    return True


def _checking_same(vhost: VirtualHost, exchange: ExchangeState, wanted: Plan) -> Steps:
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
        yield None


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


def names(vhost: VirtualHost) -> Iterator[tuple[str, int] | None]:
    """Go through all partitioned streams, then all streams that are not part of one.

    Each with how many partitions it has; None for what is neither, so that whoever goes through
    many can stop after each and leave the turn to others. Those that come meanwhile are left out.
    """
    found: set[str] = set()
    parts: set[str] = set()
    streams_now = yield from _streams_now(vhost)
    for exchange in vhost.all_exchanges():
        if exchange.deleted or not _is_marked(exchange):
            yield None
            continue
        streams = _parts(vhost, exchange)
        found.add(exchange.name)
        parts.update(stream.name for stream in streams)
        yield exchange.name, len(streams)
    for queue in streams_now:
        if queue.deleted or queue.name in parts or queue.name in found:
            yield None
        else:
            yield queue.name, 1


def _streams_now(vhost: VirtualHost) -> Generator[None, None, list[QueueState]]:
    """Find all streams, in steps: before the exchanges, whose parts come before them."""
    found = []
    for queue in vhost.all_queues():
        if queue.stream is not None and not queue.deleted:
            found.append(queue)
        yield None
    return found


def placed(vhost: VirtualHost) -> Iterator[tuple[QueueState, str, int] | None]:
    """Go through all streams, each with the name and the partition that readers know it by.

    None for what is no stream, as in `names`.
    """
    places: dict[str, tuple[str, int]] = {}
    streams_now = yield from _streams_now(vhost)
    for exchange in vhost.all_exchanges():
        if not exchange.deleted and _is_marked(exchange):
            for number, queue in enumerate(_parts(vhost, exchange)):
                places[queue.name] = exchange.name, number
        yield None
    for queue in streams_now:
        if queue.deleted:
            yield None
        else:
            name, number = places.get(queue.name, (queue.name, 0))
            yield queue, name, number


def standings(vhost: VirtualHost, *, saved: bool = True) -> Iterator[Standing | None]:
    """Go through the named readers of all streams; None for each place that was looked at.

    Args:
        vhost: where they are.
        saved: whether what consumers have settled this very second counts, too.
    """
    for place in placed(vhost):
        yield None
        if place is None or place[0].deleted or place[0].stream is None:
            continue
        queue, name, number = place
        if saved:
            for _ in vhost.offset_tracking.saving_of(queue):
                yield None
        for reader, offset in tuple(queue.reader_offsets.items()):
            yield Standing(queue, place[0].stream, reader, offset, name, number)


def deleting(vhost: VirtualHost, name: str) -> Steps:
    """Delete a partitioned stream, or one stream, with all messages, in steps.

    Raises:
        NotFound: there is neither.
    """
    while name in vhost.partitioned_changing:
        yield AWAITS
    exchange, streams = _partitioned(vhost, name), of(vhost, name)
    vhost.partitioned_changing.add(name)
    try:
        yield from _deleting(vhost, exchange, streams)
    finally:
        vhost.partitioned_changing.discard(name)


def _deleting(
    vhost: VirtualHost, exchange: ExchangeState | None, streams: Sequence[QueueState]
) -> Steps:
    if exchange is not None:
        yield from vhost.deleting_exchange(exchange, if_unused=False)
    for queue in streams:
        yield from vhost.deleting_queue(queue)
        yield None


def _partitioned(vhost: VirtualHost, name: str) -> ExchangeState | None:
    exchange = vhost.find_exchange(name)
    return exchange if exchange is not None and _is_marked(exchange) else None


def _is_marked(exchange: ExchangeState) -> bool:
    marked = exchange.arguments.get(MARK) is True
    return marked and len(exchange.outgoing) <= BINDINGS_MAX


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
