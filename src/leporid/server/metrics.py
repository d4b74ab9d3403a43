"""What /metrics says: the broker's counts under the names of RabbitMQ's Prometheus plugin.

So dashboards and alerts made for RabbitMQ can read them.

Responsible for names, kinds and help texts. Must not know where the counts come from, and keeps
none itself: every scrape asks anew, so a count has one place.
"""

# ruff: noqa: D102 - GAUGES and COUNTERS say what the properties of Statistics are
from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Delays(Protocol):
    """The delayed messages of one virtual host."""

    @property
    def waiting(self) -> int: ...


class FilterClass(Protocol):
    """How one filter class is."""

    @property
    def state(self) -> str: ...


class Filters(Protocol):
    """What filters were asked in one kind of place."""

    @property
    def asked(self) -> int: ...
    @property
    def evaluated(self) -> int: ...
    @property
    def matched(self) -> int: ...
    @property
    def type_errors(self) -> int: ...


class Statistics(Protocol):
    """The counts of a broker at one moment; totals are since its start."""

    @property
    def connections(self) -> int: ...
    @property
    def channels(self) -> int: ...
    @property
    def queues(self) -> int: ...
    @property
    def consumers(self) -> int: ...
    @property
    def messages_ready(self) -> int: ...
    @property
    def messages_unacked(self) -> int: ...
    @property
    def messages_held(self) -> int: ...
    @property
    def messages_received_total(self) -> int: ...
    @property
    def messages_confirmed_total(self) -> int: ...
    @property
    def messages_delivered_total(self) -> int: ...
    @property
    def messages_redelivered_total(self) -> int: ...
    @property
    def messages_acknowledged_total(self) -> int: ...
    @property
    def deliveries_timed_out_total(self) -> int: ...
    @property
    def dead_lettered_total(self) -> Mapping[tuple[str, str], int]: ...
    @property
    def dead_letters_dropped_total(self) -> Mapping[tuple[str, str], int]: ...
    @property
    def delays(self) -> Mapping[str, Delays]: ...
    @property
    def backlog(self) -> Mapping[str, int]: ...
    @property
    def given_up(self) -> Mapping[tuple[str, str], int]: ...
    @property
    def remembered(self) -> Mapping[str, int]: ...
    @property
    def retrying(self) -> Mapping[str, int]: ...
    @property
    def leases(self) -> int: ...
    @property
    def messages_leased(self) -> int: ...
    @property
    def filter_classes(self) -> Mapping[str, FilterClass]: ...
    @property
    def filters(self) -> Mapping[str, Filters]: ...
    @property
    def stream_batches_skipped(self) -> int: ...
    @property
    def stream_messages_skipped(self) -> int: ...
    @property
    def refusals(self) -> Mapping[str, int]: ...
    @property
    def unknown_arguments(self) -> Mapping[tuple[str, str], int]: ...


# Attribute of Statistics, metric, help text.
GAUGES = (
    ("connections", "rabbitmq_connections", "Connections currently open"),
    ("channels", "rabbitmq_channels", "Channels currently open"),
    ("queues", "rabbitmq_queues", "Queues available"),
    ("consumers", "rabbitmq_consumers", "Consumers currently connected"),
    (
        "messages_ready",
        "rabbitmq_queue_messages_ready",
        "Messages ready to be delivered to consumers",
    ),
    (
        "messages_unacked",
        "rabbitmq_queue_messages_unacked",
        "Messages delivered to consumers but not yet acknowledged",
    ),
    (
        "messages_held",
        "leporid_queue_messages_held",
        "Messages that came back from consumers and are not ready again yet",
    ),
    ("leases", "leporid_leases", "Leases of messages that are held over HTTP"),
    (
        "messages_leased",
        "leporid_queue_messages_leased",
        "Messages in leases; they are among the unacknowledged",
    ),
)
COUNTERS = (
    ("messages_received_total", "received", "Total number of messages received from publishers"),
    ("messages_confirmed_total", "confirmed", "Total number of messages confirmed to publishers"),
    ("messages_delivered_total", "delivered", "Total number of messages delivered to consumers"),
    ("messages_redelivered_total", "redelivered", "Total number of messages delivered again"),
    (
        "messages_acknowledged_total",
        "acknowledged",
        "Total number of message acknowledgements received from consumers",
    ),
)


DELAYED = (
    ("fired", "Total number of delayed messages that were due and went their way"),
    ("cancelled", "Total number of delayed messages that were cancelled"),
    ("unroutable", "Total number of delayed messages that came to no queue when they were due"),
)

JUDGED = (
    ("messages_judged", "judged", "Total number of messages that a filter class gave a verdict of"),
    ("messages_passed", "passed", "Total number of messages that a filter class let pass"),
    ("failures", "failures", "Total number of times that a filter class failed"),
)
FILTERED = (
    ("asked", "Total number of questions to filters: one for each filter that a message met"),
    ("evaluated", "Questions to filters that no tag or value answered by itself"),
    ("matched", "Questions to filters that were answered with yes"),
    ("type_errors", "Questions to filters that were answered with no, and met a type error"),
)


class BrokerCollector(Collector):
    """Makes the metrics of one scrape from one snapshot."""

    def __init__(self, statistics: Callable[[], Statistics]) -> None:
        self._statistics = statistics

    def describe(self) -> list[Metric]:
        """Return nothing: it keeps registration from asking a broker that may not run yet."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield every metric, all from the same moment."""
        now = self._statistics()
        for attribute, name, text in GAUGES:
            yield GaugeMetricFamily(name, text, value=getattr(now, attribute))
        yield GaugeMetricFamily(
            "rabbitmq_queue_messages",
            "Sum of ready, held and unacknowledged messages",
            value=now.messages_ready + now.messages_held + now.messages_unacked,
        )
        for attribute, event, text in COUNTERS:
            counter = CounterMetricFamily(
                f"rabbitmq_global_messages_{event}", text, labels=("protocol",)
            )
            counter.add_metric(("amqp091",), getattr(now, attribute))
            yield counter
        yield CounterMetricFamily(
            "leporid_deliveries_timed_out",
            "Total number of deliveries that were not settled in time",
            value=now.deliveries_timed_out_total,
        )
        yield from _dead_letters(now)
        yield from _delays(now)
        yield from _backlogs(now)
        remembered = GaugeMetricFamily(
            "leporid_remembered_messages",
            "Messages that exchanges remember, to take none of them twice",
            labels=("vhost",),
        )
        for vhost, count in now.remembered.items():
            remembered.add_metric((vhost,), count)
        yield remembered
        retrying = GaugeMetricFamily(
            "leporid_group_messages_retrying",
            "Messages that groups of readers hold for another attempt",
            labels=("vhost",),
        )
        for vhost, count in now.retrying.items():
            retrying.add_metric((vhost,), count)
        yield retrying
        yield from _filter_classes(now)
        yield from _filters(now)
        yield CounterMetricFamily(
            "leporid_stream_batches_skipped",
            "Total number of batches of a stream that filters did not look into",
            value=now.stream_batches_skipped,
        )
        yield CounterMetricFamily(
            "leporid_stream_reader_skipped_messages",
            "Total number of messages of streams that consumers missed because retention did not "
            "wait for them",
            value=now.stream_messages_skipped,
        )
        unknown = CounterMetricFamily(
            "leporid_unknown_arguments",
            "Total number of arguments that nothing reads, and of filters that probably match "
            "nothing, by where they were given: queue, exchange, binding, consumer, policy, table",
            labels=("vhost", "place"),
        )
        for labels, count in now.unknown_arguments.items():
            unknown.add_metric(labels, count)
        yield unknown
        refusals = CounterMetricFamily(
            "leporid_refusals",
            "Total number of times that peers were refused something, by the limit that refused it",
            labels=("kind",),
        )
        for kind, count in now.refusals.items():
            refusals.add_metric((kind,), count)
        yield refusals


def _dead_letters(now: Statistics) -> Iterator[Metric]:
    """What died, as RabbitMQ counts it: each reason is a metric; and what was lost of it."""
    for reason in sorted({reason for reason, _ in now.dead_lettered_total}):
        deaths = CounterMetricFamily(
            f"rabbitmq_global_messages_dead_lettered_{reason}",
            f"Total number of messages dead-lettered for the reason {reason}",
            labels=("queue_type", "dead_letter_strategy"),
        )
        for (of, queue_type), count in now.dead_lettered_total.items():
            if of == reason:
                deaths.add_metric((queue_type, "at_least_once"), count)
        yield deaths
    dropped = CounterMetricFamily(
        "leporid_dead_letters_dropped",
        "Total number of dead letters that came to no queue, by reason of death and by cause: "
        "no_exchange, no_queue, cycle, refused (the queues were full), invalid_key, too_large, "
        "delay_too_long",
        labels=("reason", "cause"),
    )
    for labels, count in now.dead_letters_dropped_total.items():
        dropped.add_metric(labels, count)
    yield dropped


def _delays(now: Statistics) -> Iterator[Metric]:
    """What waits in exchanges, and what became of what did."""
    waiting = GaugeMetricFamily(
        "leporid_delayed_messages",
        "Messages that wait in exchanges until they are due",
        labels=("vhost",),
    )
    for vhost, count in now.delays.items():
        waiting.add_metric((vhost,), count.waiting)
    yield waiting
    for name, text in DELAYED:
        counter = CounterMetricFamily(f"leporid_delayed_messages_{name}", text, labels=("vhost",))
        for vhost, count in now.delays.items():
            counter.add_metric((vhost,), getattr(count, name))
        yield counter


def _backlogs(now: Statistics) -> Iterator[Metric]:
    """What the broker itself sent to full queues."""
    waiting = GaugeMetricFamily(
        "leporid_backlog_messages",
        "Delayed messages, dead letters and messages that a filter class let pass which wait for "
        "room in full queues",
        labels=("vhost",),
    )
    for vhost, count in now.backlog.items():
        waiting.add_metric((vhost,), count)
    yield waiting
    dropped = CounterMetricFamily(
        "leporid_backlog_dropped",
        "Total number of messages that waited for room in full queues and were dropped, by reason: "
        "expired (after a day), backlog_full, too_large",
        labels=("vhost", "reason"),
    )
    for labels, count in now.given_up.items():
        dropped.add_metric(labels, count)
    yield dropped


def _filter_classes(now: Statistics) -> Iterator[Metric]:
    """Code that chooses messages: whether it can, and what it chose."""
    waiting = GaugeMetricFamily(
        "leporid_filter_class_waiting",
        "1: the class failed, and what it judges waits until it is tried again",
        labels=("name",),
    )
    for name, status in now.filter_classes.items():
        waiting.add_metric((name,), status.state == "waiting")
    yield waiting
    for metric, attribute, text in JUDGED:
        counter = CounterMetricFamily(f"leporid_filter_class_{metric}", text, labels=("name",))
        for name, status in now.filter_classes.items():
            counter.add_metric((name,), getattr(status, attribute))
        yield counter


def _filters(now: Statistics) -> Iterator[Metric]:
    """What filters were asked, by where they stand."""
    for name, text in FILTERED:
        counter = CounterMetricFamily(f"leporid_filters_{name}", text, labels=("on",))
        for place, count in now.filters.items():
            counter.add_metric((place,), getattr(count, name))
        yield counter


class ProcessCollector(Collector):
    """Memory and processor time of this process.

    prometheus_client has one of its own, which also lists every open file descriptor: with a
    hundred thousand connections that would stop the event loop at each scrape.
    """

    def describe(self) -> list[Metric]:
        """Return nothing, as above."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield two metrics; the memory only where there is a /proc."""
        try:
            resident_pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
        except OSError:
            pass
        else:
            yield GaugeMetricFamily(
                "rabbitmq_process_resident_memory_bytes",
                "Memory used in bytes",
                value=resident_pages * os.sysconf("SC_PAGE_SIZE"),
            )
        spent = os.times()
        yield CounterMetricFamily(
            "rabbitmq_process_cpu_seconds",
            "Processor time spent, user and system, in seconds",
            value=spent.user + spent.system,
        )


class Metrics:
    """The text of /metrics for one broker."""

    def __init__(self, statistics: Callable[[], Statistics]) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(BrokerCollector(statistics))
        self._registry.register(ProcessCollector())

    def render(self) -> bytes:
        """Return everything in the Prometheus text format; CONTENT_TYPE says which."""
        return generate_latest(self._registry)
