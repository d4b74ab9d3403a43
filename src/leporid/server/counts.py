"""The counts that `/metrics` shows, taken from the broker and the engine when asked.

Responsible for the sums only: of virtual hosts, of which there are as many as the configuration
names. Must not know how they are shown. Invariants: plain values, that stay as they were counted;
what it takes does not grow with queues, bindings, consumers or connections.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from leporid.broker.queue.queue_types import QUEUE_TYPES
from leporid.engine.queue.counters import DeliveryCounts

if TYPE_CHECKING:
    from leporid.broker.broker import Broker
    from leporid.broker.exchange.delays import DelayStatistics
    from leporid.broker.statistics import Churn
    from leporid.engine.engine import Engine
    from leporid.engine.queue.lease import Lease
    from leporid.engine.selectors.filter import FilterCounters
    from leporid.filterserver.filter_class import FilterClassStatus
    from leporid.server.histograms import Histogram

MODULES: Final = {kind.name: kind.module for kind in QUEUE_TYPES.values()}
"""The types of queues, and what RabbitMQ's metrics name them."""


@dataclass(frozen=True, slots=True)
class Received:
    """What clients have published.

    Attributes:
        total: messages, whatever became of them.
        confirm: those of channels in confirm mode.
        confirmed: messages that were confirmed by basic.ack.
        routed: queues and streams that took them: a message that two take counts twice.
        dropped: messages that came to none, and were not mandatory.
        returned: messages that came to none, and were.
        sizes: messages by the length of their body, as `Publishing.received_sizes` has them.
        body_bytes: all their bodies together.
    """

    total: int
    confirm: int
    confirmed: int
    routed: int
    dropped: int
    returned: int
    sizes: tuple[int, ...]
    body_bytes: int


@dataclass(frozen=True, slots=True)
class Delivered:
    """What consumers were given by the queues of one type; see `DeliveryCounts`."""

    total: int
    delivered: int
    delivered_no_ack: int
    got: int
    got_no_ack: int
    get_empty: int
    redelivered: int
    acked: int


@dataclass(frozen=True, slots=True)
class FilterCount:
    """What filters were asked in one kind of place."""

    asked: int
    evaluated: int
    matched: int
    type_errors: int


@dataclass(frozen=True, slots=True)
class Count:
    """What there is, and what was since the start."""

    connections: int
    channels: int
    queues: int
    queues_paused: int
    consumers: int
    exchanges: int
    bindings: int
    publishers: int
    """Open channels that have published."""
    churn: Churn
    received: Received
    delivered: Mapping[str, Delivered]
    """By type of queue."""
    messages_ready: int
    messages_unacked: int
    messages_held: int
    deliveries_timed_out_total: int
    dead_lettered_total: Mapping[tuple[str, str], int]
    dead_letters_dropped_total: Mapping[tuple[str, str], int]
    delays: Mapping[str, DelayStatistics]
    backlog: Mapping[str, int]
    given_up: Mapping[tuple[str, str], int]
    remembered: Mapping[str, int]
    retrying: Mapping[str, int]
    leases: int
    messages_leased: int
    filter_classes: Mapping[str, FilterClassStatus]
    filters: Mapping[str, FilterCount]
    stream_batches_skipped: int
    stream_messages_skipped: int
    refusals: Mapping[str, int]
    unknown_arguments: Mapping[tuple[str, str], int]
    """By virtual host, and by where they are given."""
    definitions_bytes: int
    peers_bytes: int
    output_bytes: int
    durable_log_bytes: int
    transient_log_bytes: int
    log_segments: int
    streams: int
    received_bytes: int
    sent_bytes: int
    events_dropped: int
    traces_dropped: int
    histograms: Mapping[str, Histogram]
    """What the server has measured, by name."""


class Counts:
    """Counts one broker.

    Args:
        leases: gives the leases of messages that there are at the moment.
        filter_classes: says how each of them is.
        histograms: what the server measures, by name.
    """

    def __init__(
        self,
        broker: Broker,
        engine: Engine,
        leases: Callable[[], Collection[Lease]] = tuple,
        filter_classes: Callable[[], Mapping[str, FilterClassStatus]] = dict,
        histograms: Mapping[str, Histogram] | None = None,
    ) -> None:
        self._broker = broker
        self._engine = engine
        self._leases = leases
        self._filter_classes = filter_classes
        self._histograms = histograms or {}

    def now(self) -> Count:
        """Take the totals; nothing is gone through of which there may be many."""
        found, engine = self._broker.statistics(), self._engine
        skipped, evaluated, matched, type_errors = engine.streams.filtering
        dead_letters = self._broker.dead_letter_counts
        leases = [each for each in self._leases() if not each.queue.retired]
        return Count(
            connections=found.connection_count,
            channels=found.channel_count,
            queues=sum(vhost.queue_count for vhost in found.vhosts),
            queues_paused=sum(vhost.paused_count for vhost in found.vhosts),
            consumers=sum(vhost.consumer_count for vhost in found.vhosts),
            exchanges=sum(vhost.exchange_count for vhost in found.vhosts),
            bindings=sum(vhost.binding_count for vhost in found.vhosts),
            publishers=engine.connections.publishers,
            churn=found.churn,
            received=self._received(),
            delivered=self._delivered(),
            messages_ready=sum(vhost.ready_count for vhost in found.vhosts),
            messages_unacked=sum(vhost.unacked_count for vhost in found.vhosts),
            messages_held=sum(vhost.held_count for vhost in found.vhosts),
            deliveries_timed_out_total=engine.queues.timed_out,
            dead_lettered_total=dict(dead_letters.deaths),
            dead_letters_dropped_total=dict(dead_letters.dropped),
            delays={vhost.name: vhost.delays for vhost in found.vhosts},
            backlog={vhost.name: vhost.backlog for vhost in found.vhosts},
            given_up={
                (vhost.name, reason): count
                for vhost in found.vhosts
                for reason, count in vhost.given_up.items()
            },
            remembered={vhost.name: vhost.remembered for vhost in found.vhosts},
            retrying={vhost.name: vhost.retrying for vhost in found.vhosts},
            leases=len(leases),
            messages_leased=sum(lease.count for lease in leases),
            filter_classes=self._filter_classes(),
            filters={
                "bindings": _filter_count(engine.publishing.filters),
                "queues": _filter_count(engine.searches.filters),
                "streams": FilterCount(evaluated, evaluated, matched, type_errors),
            },
            stream_batches_skipped=skipped,
            stream_messages_skipped=engine.streams.skipped_messages,
            refusals=dict(self._broker.refusals.by_kind),
            unknown_arguments={
                (vhost.name, place): count
                for vhost in found.vhosts
                for place, count in vhost.unknown_arguments.items()
            },
            definitions_bytes=self._broker.memory.definitions.bytes,
            peers_bytes=self._broker.memory.total.bytes,
            output_bytes=engine.connections.output_bytes,
            durable_log_bytes=engine.logs.durable.bytes,
            transient_log_bytes=engine.logs.transient.bytes,
            log_segments=len(engine.logs.segments),
            streams=len(engine.streams.by_id),
            received_bytes=engine.connections.received_bytes,
            sent_bytes=engine.connections.sent_bytes,
            events_dropped=self._broker.events.outbox.dropped,
            traces_dropped=self._broker.traces.dropped,
            histograms=self._histograms,
        )

    def _received(self) -> Received:
        publishing, queues = self._engine.publishing, self._engine.queues
        return Received(
            total=publishing.received,
            confirm=queues.received_confirm,
            confirmed=queues.confirmed,
            routed=queues.routed,
            dropped=queues.unroutable - queues.returned,
            returned=queues.returned,
            sizes=publishing.received_sizes,
            body_bytes=publishing.received_body_bytes,
        )

    def _delivered(self) -> dict[str, Delivered]:
        """Of the types that there are; what direct reply-to delivers counts in none."""
        by_type = self._engine.queues.counts_by_type
        found = {module: by_type.get(name) or DeliveryCounts() for name, module in MODULES.items()}
        return {
            module: Delivered(
                total=counts.total,
                delivered=counts.delivered,
                delivered_no_ack=counts.delivered_no_ack,
                got=counts.got,
                got_no_ack=counts.got_no_ack,
                get_empty=counts.get_empty,
                redelivered=counts.redelivered,
                acked=counts.acked,
            )
            for module, counts in found.items()
        }


def _filter_count(filters: FilterCounters) -> FilterCount:
    return FilterCount(filters.asked, filters.evaluated, filters.matched, filters.type_errors)
