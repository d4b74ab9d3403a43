"""The counts that `/metrics` shows, taken from the broker and the engine when asked.

Responsible for the sums only: of virtual hosts, of which there are as many as the configuration
names. Invariant: what it takes does not grow with queues, bindings, consumers or connections.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from leporid.broker.broker import Broker
from leporid.broker.exchange.delays import DelayStatistics
from leporid.engine.engine import Engine
from leporid.filterserver.filter_class import FilterClassStatus
from leporid.management.surroundings import Holding


@dataclass(frozen=True, slots=True)
class FilterCount:
    """What filters were asked in one kind of place."""

    asked: int
    evaluated: int
    matched: int
    type_errors: int


@dataclass(frozen=True, slots=True)
class Count:
    """What `leporid.server.metrics.Statistics` asks for."""

    connections: int
    channels: int
    queues: int
    consumers: int
    messages_ready: int
    messages_unacked: int
    messages_held: int
    messages_received_total: int
    messages_confirmed_total: int
    messages_delivered_total: int
    messages_redelivered_total: int
    messages_acknowledged_total: int
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


class Counts:
    """Counts one broker.

    Args:
        holdings: the leases of messages that there are at the moment.
        filter_classes: says how each of them is.
    """

    def __init__(
        self,
        broker: Broker,
        engine: Engine,
        holdings: Collection[Holding],
        filter_classes: Callable[[], Mapping[str, FilterClassStatus]] = dict,
    ) -> None:
        self._broker = broker
        self._engine = engine
        self._holdings = holdings
        self._filter_classes = filter_classes

    def now(self) -> Count:
        """Take the totals; nothing is gone through of which there may be many."""
        found = self._broker.statistics()
        engine = self._engine
        skipped, evaluated, matched, type_errors = engine.streams.filtering
        dead_letters = self._broker.dead_letter_counts
        leases = [each.lease for each in self._holdings if not each.lease.queue.retired]
        return Count(
            connections=found.connection_count,
            channels=found.channel_count,
            queues=sum(vhost.queue_count for vhost in found.vhosts),
            consumers=sum(vhost.consumer_count for vhost in found.vhosts),
            messages_ready=sum(vhost.ready_count for vhost in found.vhosts),
            messages_unacked=sum(vhost.unacked_count for vhost in found.vhosts),
            messages_held=sum(vhost.held_count for vhost in found.vhosts),
            messages_received_total=engine.publishing.received,
            messages_confirmed_total=engine.queues.confirmed,
            messages_delivered_total=engine.queues.delivered + engine.queues.got,
            messages_redelivered_total=engine.queues.redelivered,
            messages_acknowledged_total=engine.queues.acked,
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
                "bindings": FilterCount(
                    engine.publishing.filters.asked,
                    engine.publishing.filters.evaluated,
                    engine.publishing.filters.matched,
                    engine.publishing.filters.type_errors,
                ),
                "queues": FilterCount(
                    engine.searches.filters.asked,
                    engine.searches.filters.evaluated,
                    engine.searches.filters.matched,
                    engine.searches.filters.type_errors,
                ),
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
        )
