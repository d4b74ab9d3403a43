"""What /metrics/per-object and /metrics/detailed say: of each queue, channel, connection and so on.

Responsible for the families of metrics that RabbitMQ has of single objects, as far as there are
such counts here, and for their text, sample by sample. Must not know who asks, nor when the next
part is made. Invariants: a sample is made when it is asked for, of objects that there were at the
beginning and that are still there; those of one metric are together, as the text format wants it.

An iterator here gives an empty text for what it only looked at, so that whoever makes a page can
stop after each.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from leporid.broker.names import REPLY_PREFIX
from leporid.broker.stream import partitions
from leporid.broker.stream.readers import Standing

if TYPE_CHECKING:
    from leporid.broker.broker import Broker
    from leporid.broker.connection.channel import ChannelState
    from leporid.broker.connection.session import ConnectionState
    from leporid.broker.exchange.exchange import ExchangeState
    from leporid.broker.queue.queue import QueueState
    from leporid.broker.vhost import VirtualHost

DETAILED: Final = "rabbitmq_detailed"
"""What names begin with in /metrics/detailed, so that one Prometheus can scrape both pages."""
CLUSTER: Final = "rabbitmq_cluster"
"""What names begin with that RabbitMQ has once for all nodes."""


@dataclass(frozen=True, slots=True)
class ObjectMetric:
    """One metric of a family.

    Attributes:
        name: without the word in front.
        kind: "gauge" or "counter".
        text: what it is, for people.
        value: gives the value of one object.
        ours: RabbitMQ has no such metric.
        of_cluster: its name begins with CLUSTER, whatever page it is on.
    """

    name: str
    kind: str
    text: str
    value: Callable[[Any], float]
    ours: bool = False
    of_cluster: bool = False


@dataclass(frozen=True, slots=True)
class Family:
    """Metrics of the same objects.

    Attributes:
        objects: gives those of a broker, and None for what was only looked at.
        labels: what tells one object from another; None if it is gone.
        metrics: what there is to know of each.
        covers: a family that is part of this one.
    """

    objects: Callable[[Broker, Collection[str]], Iterator[Any]]
    labels: Callable[[Any], str | None]
    metrics: tuple[ObjectMetric, ...]
    covers: str = ""


def escaped(value: str) -> str:
    """Return the value of a label as the text format writes it."""
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


# ------------------------------------------------------------------ what there is of each kind


def _vhosts(broker: Broker, names: Collection[str]) -> list[VirtualHost]:
    return [vhost for name, vhost in broker.vhosts.items() if not names or name in names]


def _queues(broker: Broker, names: Collection[str]) -> Iterator[QueueState]:
    for vhost in _vhosts(broker, names):
        yield from vhost.all_queues()


def _queue_labels(queue: QueueState) -> str | None:
    if queue.deleted or queue.name.startswith(REPLY_PREFIX):
        return None
    return f'vhost="{escaped(queue.vhost)}",queue="{escaped(queue.name)}"'


def _streams(broker: Broker, names: Collection[str]) -> Iterator[QueueState | None]:
    for queue in _queues(broker, names):
        yield queue if queue.stream is not None else None


@dataclass(frozen=True, slots=True)
class ReaderFound:
    """A named reader of a stream or a partition, and where that is."""

    vhost: VirtualHost
    standing: Standing


def _readers(broker: Broker, names: Collection[str]) -> Iterator[ReaderFound | None]:
    for vhost in _vhosts(broker, names):
        for standing in partitions.standings(vhost, saved=False):
            yield None if standing is None else ReaderFound(vhost, standing)


def _reader_labels(found: ReaderFound) -> str | None:
    of = found.standing
    if of.queue.deleted:
        return None
    vhost, stream, reader = escaped(of.queue.vhost), escaped(of.stream_name), escaped(of.name)
    return f'vhost="{vhost}",stream="{stream}",partition="{of.partition}",reader="{reader}"'


def _lag_seconds(found: ReaderFound) -> float:
    return (found.standing.lag_ms(found.vhost.engine.clock.wall_ms) or 0) / 1000


def _exchanges(
    broker: Broker, names: Collection[str]
) -> Iterator[tuple[VirtualHost, ExchangeState]]:
    for vhost in _vhosts(broker, names):
        for exchange in vhost.all_exchanges():
            yield vhost, exchange


def _exchange_labels(found: tuple[VirtualHost, ExchangeState]) -> str | None:
    vhost, exchange = found
    if exchange.deleted:
        return None
    return f'vhost="{escaped(vhost.name)}",exchange="{escaped(exchange.name)}"'


def _named_exchanges(
    broker: Broker, names: Collection[str]
) -> Iterator[tuple[VirtualHost, ExchangeState] | None]:
    for found in _exchanges(broker, names):
        yield found if found[1].name else None  # the default exchange is nobody's


def _typed_exchange_labels(found: tuple[VirtualHost, ExchangeState]) -> str | None:
    labels = _exchange_labels(found)
    return None if labels is None else f'{labels},type="{escaped(found[1].type)}"'


def _connections(broker: Broker, names: Collection[str]) -> Iterator[ConnectionState | None]:
    for session in tuple(broker.sessions):
        wanted = session.opened and (not names or session.vhost.name in names)
        yield session if wanted else None


def _connection_labels(session: ConnectionState) -> str | None:
    if session not in session.broker.sessions:
        return None
    return f'connection="{escaped(session.name)}"'


def _channels(broker: Broker, names: Collection[str]) -> Iterator[ChannelState | None]:
    for session in _connections(broker, names):
        yield None
        if session is not None:
            yield from tuple(session.channels.values())


def _channel_labels(channel: ChannelState) -> str | None:
    if channel.is_ending:
        return None
    return f'channel="{escaped(channel.session.name)} ({channel.number})"'


def _users(broker: Broker, _names: Collection[str]) -> Iterator[tuple[str, int, int]]:
    yield from broker.memory.by_user()


def _memory_labels(found: tuple[str, int, int]) -> str:
    return f'user="{escaped(found[0])}"'


def _whole(broker: Broker, _names: Collection[str]) -> Iterator[Broker]:
    yield broker


# ------------------------------------------------------------------ what there is to know


def _gauge(name: str, text: str, value: Callable[[Any], float], *, ours: bool = False) -> Any:
    return ObjectMetric(name, "gauge", text, value, ours)


def _of_cluster(name: str, text: str, value: Callable[[Any], float]) -> Any:
    return ObjectMetric(name, "gauge", text, value, of_cluster=True)


def _counter(name: str, text: str, value: Callable[[Any], float], *, ours: bool = False) -> Any:
    return ObjectMetric(f"{name}_total", "counter", text, value, ours)


_CONSUMERS = _gauge(
    "queue_consumers", "Consumers on a queue", lambda queue: len(queue.subscriptions)
)

FAMILIES: Final[dict[str, Family]] = {
    "connection_churn_metrics": Family(
        _whole,
        lambda _: "",
        (
            _counter(
                "connections_opened",
                "Total number of connections opened",
                lambda broker: broker.churn.connections_opened,
            ),
            _counter(
                "connections_closed",
                "Total number of connections closed or terminated",
                lambda broker: broker.churn.connections_closed,
            ),
            _counter(
                "channels_opened",
                "Total number of channels opened",
                lambda broker: broker.churn.channels_opened,
            ),
            _counter(
                "channels_closed",
                "Total number of channels closed",
                lambda broker: broker.churn.channels_closed,
            ),
            _counter(
                "queues_declared",
                "Total number of queues declared",
                lambda broker: broker.churn.queues_declared,
            ),
            _counter(
                "queues_created",
                "Total number of queues created",
                lambda broker: broker.churn.queues_created,
            ),
            _counter(
                "queues_deleted",
                "Total number of queues deleted",
                lambda broker: broker.churn.queues_deleted,
            ),
        ),
    ),
    "queue_coarse_metrics": Family(
        _queues,
        _queue_labels,
        (
            _gauge(
                "queue_messages_ready",
                "Messages ready to be delivered to consumers",
                lambda queue: queue.engine.ready_count,
            ),
            _gauge(
                "queue_messages_unacked",
                "Messages delivered to consumers but not yet acknowledged",
                lambda queue: queue.engine.unacked_count,
            ),
            _gauge(
                "queue_messages",
                "Sum of ready, held and unacknowledged messages - total queue depth",
                lambda queue: (
                    queue.engine.ready_count + queue.engine.unacked_count + queue.engine.held_count
                ),
            ),
        ),
    ),
    "queue_consumer_count": Family(_queues, _queue_labels, (_CONSUMERS,)),
    "queue_metrics": Family(
        _queues,
        _queue_labels,
        (
            _CONSUMERS,
            _gauge(
                "queue_messages_ready_bytes",
                "Size in bytes of ready messages",
                lambda queue: queue.engine.ready_bytes,
            ),
            _gauge(
                "queue_messages_held",
                "Messages that came back from consumers and are not ready again yet",
                lambda queue: queue.engine.held_count,
                ours=True,
            ),
            _gauge(
                "queue_backlog_messages",
                "Messages from the broker itself that wait for room",
                lambda queue: queue.engine.backlog_count,
                ours=True,
            ),
        ),
        covers="queue_consumer_count",
    ),
    "queue_delivery_metrics": Family(
        _queues,
        _queue_labels,
        (
            _counter(
                "queue_get_ack",
                "Total number of messages fetched from a queue with basic.get in manual "
                "acknowledgement mode",
                lambda queue: queue.engine.counts.got,
            ),
            _counter(
                "queue_get",
                "Total number of messages fetched from a queue with basic.get in automatic "
                "acknowledgement mode",
                lambda queue: queue.engine.counts.got_no_ack,
            ),
            _counter(
                "queue_messages_delivered_ack",
                "Total number of messages delivered from a queue to consumers in manual "
                "acknowledgement mode",
                lambda queue: queue.engine.counts.delivered,
            ),
            _counter(
                "queue_messages_delivered",
                "Total number of messages delivered from a queue to consumers in automatic "
                "acknowledgement mode",
                lambda queue: queue.engine.counts.delivered_no_ack,
            ),
            _counter(
                "queue_messages_redelivered",
                "Total number of messages redelivered from a queue to consumers",
                lambda queue: queue.engine.counts.redelivered,
            ),
            _counter(
                "queue_messages_acked",
                "Total number of messages acknowledged by consumers on a queue",
                lambda queue: queue.engine.counts.acked,
            ),
            _counter(
                "queue_get_empty",
                "Total number of times basic.get operations fetched no message on a queue",
                lambda queue: queue.engine.counts.get_empty,
            ),
            _counter(
                "queue_messages_appended",
                "Total number of messages that came to a queue",
                lambda queue: queue.engine.published,
                ours=True,
            ),
        ),
    ),
    "exchange_metrics": Family(
        _exchanges,
        _exchange_labels,
        (
            _counter(
                "exchange_messages_published",
                "Total number of messages published to an exchange",
                lambda found: found[1].routes.published,
            ),
            _counter(
                "exchange_messages_routed",
                "Total number of messages that queues took from an exchange, once for each queue",
                lambda found: found[1].routes.routed,
                ours=True,
            ),
        ),
    ),
    "connection_coarse_metrics": Family(
        _connections,
        _connection_labels,
        (
            _counter(
                "connection_incoming_bytes",
                "Total number of bytes received on a connection",
                lambda session: session.connection.received_bytes,
            ),
            _counter(
                "connection_outgoing_bytes",
                "Total number of bytes sent on a connection",
                lambda session: session.connection.sent_bytes,
            ),
        ),
    ),
    "connection_metrics": Family(
        _connections,
        _connection_labels,
        (
            _gauge(
                "connection_channels",
                "Channels on a connection",
                lambda session: len(session.channels),
            ),
            _gauge(
                "connection_memory_bytes",
                "Memory that a connection is charged",
                lambda session: session.account.bytes,
                ours=True,
            ),
        ),
    ),
    "channel_metrics": Family(
        _channels,
        _channel_labels,
        (
            _gauge(
                "channel_consumers",
                "Consumers on a channel",
                lambda channel: len(channel.subscriptions) + len(channel.members),
            ),
            _gauge(
                "channel_messages_unacked",
                "Delivered but not yet acknowledged messages",
                lambda channel: channel.engine.unacked_count,
            ),
            _gauge(
                "channel_messages_unconfirmed",
                "Published but not yet confirmed messages",
                lambda channel: channel.engine.confirms.published - channel.engine.confirms.settled,
            ),
            _gauge(
                "channel_messages_uncommitted",
                "Messages received in a transaction but not yet committed",
                lambda channel: channel.engine.uncommitted[0],
            ),
            _gauge(
                "channel_acks_uncommitted",
                "Message acknowledgements in a transaction not yet committed",
                lambda channel: channel.engine.uncommitted[1],
            ),
            _gauge(
                "consumer_prefetch",
                "Limit of unacknowledged messages for each consumer",
                lambda channel: channel.engine.prefetch_count,
            ),
            _gauge(
                "channel_prefetch",
                "Total limit of unacknowledged messages for all consumers on a channel",
                lambda channel: channel.engine.prefetch_global,
            ),
            _counter(
                "channel_published",
                "Total number of messages published on a channel",
                lambda channel: channel.engine.published,
                ours=True,
            ),
            _counter(
                "channel_delivered",
                "Total number of deliveries on a channel, by basic.get as well",
                lambda channel: channel.engine.delivery_tag,
                ours=True,
            ),
            _counter(
                "channel_acked",
                "Total number of deliveries that were acknowledged on a channel",
                lambda channel: channel.engine.acked,
                ours=True,
            ),
        ),
    ),
    "vhost_status": Family(
        lambda broker, names: iter(_vhosts(broker, names)),
        lambda vhost: f'vhost="{escaped(vhost.name)}"',
        (_of_cluster("vhost_status", "Whether a given vhost is running", lambda _: 1),),
    ),
    "exchange_names": Family(
        _named_exchanges,
        _typed_exchange_labels,
        (_of_cluster("exchange_name", "Exchanges, each with its type", lambda _: 1),),
    ),
    "exchange_bindings": Family(
        _named_exchanges,
        _typed_exchange_labels,
        (
            _of_cluster(
                "exchange_bindings",
                "Number of bindings for an exchange",
                lambda found: len(found[1].outgoing),
            ),
        ),
    ),
    "leporid_stream_metrics": Family(
        _streams,
        _queue_labels,
        (
            _gauge(
                "stream_messages",
                "Messages that a stream keeps, and that are on disk",
                lambda queue: max(0, queue.stream.end - queue.stream.first),
                ours=True,
            ),
            _gauge(
                "stream_log_bytes",
                "Bytes of a stream's segments",
                lambda queue: queue.stream.log.bytes,
                ours=True,
            ),
        ),
    ),
    "leporid_reader_metrics": Family(
        _readers,
        _reader_labels,
        (
            _gauge(
                "reader_lag_messages",
                "Messages of a stream that a named reader has not read, as of a second ago",
                lambda found: found.standing.lag,
                ours=True,
            ),
            _gauge(
                "reader_lag_seconds",
                "How long the first message that a named reader has not read is there; 0 without",
                _lag_seconds,
                ours=True,
            ),
        ),
    ),
    "leporid_memory_metrics": Family(
        _users,
        _memory_labels,
        (
            _gauge(
                "user_memory_bytes",
                "Memory that the connections of a user are charged",
                lambda found: found[1],
                ours=True,
            ),
            _gauge(
                "user_definitions_bytes",
                "Memory of what a user has defined since the broker's start",
                lambda found: found[2],
                ours=True,
            ),
        ),
    ),
}
"""By the name that `?family=` asks for; the first ones are RabbitMQ's."""

_DETAILED_ONLY: Final = (
    "connection_churn_metrics",
    "queue_consumer_count",
    "vhost_status",
    "exchange_names",
    "exchange_bindings",
)
PER_OBJECT: Final = tuple(name for name in FAMILIES if name not in _DETAILED_ONLY)
"""What /metrics/per-object has beside the totals."""


def chosen(names: Iterable[str]) -> list[str]:
    """Return the families of these names that there are, without those that another one covers."""
    wanted = [name for name in dict.fromkeys(names) if name in FAMILIES]
    covered = {FAMILIES[name].covers for name in wanted}
    return [name for name in wanted if name not in covered]


def names_of(families: Iterable[str], prefix: str) -> set[str]:
    """Return the names of all metrics of some families."""
    return {_name(metric, prefix) for name in families for metric in FAMILIES[name].metrics}


def page(
    broker: Broker, families: Iterable[str], *, prefix: str, vhosts: Collection[str] = ()
) -> Iterator[str]:
    """Give the text of some families, a sample at a time.

    Args:
        broker: whose objects they are.
        families: their names.
        prefix: of RabbitMQ's names.
        vhosts: the virtual hosts whose objects are wanted; none: all.
    """
    for each in families:
        family = FAMILIES[each]
        for metric in family.metrics:
            name = _name(metric, prefix)
            yield f"# HELP {name} {metric.text}\n# TYPE {name} {metric.kind}\n"
            for found in family.objects(broker, vhosts):
                labels = None if found is None else family.labels(found)
                if labels is None:
                    yield ""
                elif labels:
                    yield f"{name}{{{labels}}} {metric.value(found)}\n"
                else:
                    yield f"{name} {metric.value(found)}\n"


def _name(metric: ObjectMetric, prefix: str) -> str:
    begin = "leporid" if metric.ours else CLUSTER if metric.of_cluster else prefix
    return f"{begin}_{metric.name}"
