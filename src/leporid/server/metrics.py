"""What /metrics says: the broker's counts under the names of RabbitMQ's Prometheus plugin.

So dashboards and alerts made for RabbitMQ can read them.

Responsible for names, kinds and help texts. Must not know where the counts come from, and keeps
none itself: every scrape asks anew, so a count has one place.
"""

# ruff: noqa: D102 - GAUGES and COUNTERS say what the properties of Statistics are
from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


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
    def messages_received_total(self) -> int: ...
    @property
    def messages_confirmed_total(self) -> int: ...
    @property
    def messages_delivered_total(self) -> int: ...
    @property
    def messages_redelivered_total(self) -> int: ...
    @property
    def messages_acknowledged_total(self) -> int: ...


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
            "Sum of ready and unacknowledged messages",
            value=now.messages_ready + now.messages_unacked,
        )
        for attribute, event, text in COUNTERS:
            counter = CounterMetricFamily(
                f"rabbitmq_global_messages_{event}", text, labels=("protocol",)
            )
            counter.add_metric(("amqp091",), getattr(now, attribute))
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
