"""What /metrics says: the broker's counts under the names of RabbitMQ's Prometheus plugin.

So dashboards and alerts made for RabbitMQ can read them. Responsible for names, kinds, labels and
help texts of totals; those of single queues and connections are in `object_metrics`. Must not know
where the counts come from, and keeps none itself: every scrape asks anew, so a count has one place.
"""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate, islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from prometheus_client import generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from leporid.engine.publishing.publishing import SIZE_LIMITS

if TYPE_CHECKING:
    from leporid.server.counts import Count
    from leporid.server.histograms import Histogram
    from leporid.server.resources import Used

# Asked once: an answer leaves objects that only a full garbage collection would free.
CLIENT_VERSION: Final = importlib.metadata.version("prometheus-client")
METRICS_A_PIECE: Final = 16
"""As text they take 1 ms, and several times that on a slow machine."""
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
PROTOCOL: Final = "amqp091"
PREFIX: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]{0,31}")
"""What may stand for `rabbitmq` in names, as LavinMQ lets scrapers choose."""

Texts = tuple[tuple[str, str, str], ...]
"""Of each metric the attribute that it shows, its name, and its help text."""

GAUGES: Final[Texts] = (
    ("connections", "rabbitmq_connections", "Connections currently open"),
    ("channels", "rabbitmq_channels", "Channels currently open"),
    ("queues", "rabbitmq_queues", "Queues available"),
    ("consumers", "rabbitmq_consumers", "Consumers currently connected"),
    ("consumers", "rabbitmq_queue_consumers", "Consumers of all queues"),
    ("consumers", "rabbitmq_channel_consumers", "Consumers of all channels"),
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
    ("exchanges", "leporid_exchanges", "Exchanges, those of each virtual host included"),
    ("queues_paused", "leporid_queues_paused", "Queues that deliver nothing, as they are paused"),
    ("bindings", "leporid_bindings", "Bindings of queues and exchanges to exchanges"),
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
    ("definitions_bytes", "leporid_definitions_bytes", "Memory of queues, exchanges and bindings"),
    ("peers_bytes", "leporid_peers_bytes", "Memory that connections and definitions are charged"),
    ("output_bytes", "leporid_output_bytes", "Memory of output that clients have not read"),
    ("durable_log_bytes", "leporid_log_durable_bytes", "Segments of the durable log in memory"),
    ("transient_log_bytes", "leporid_log_transient_bytes", "Segments of the transient log"),
    ("log_segments", "leporid_log_segments", "Segments of the durable log, each one file on disk"),
    ("streams", "leporid_streams", "Streams; each has segments of its own"),
)
PROTOCOL_GAUGES: Final[Texts] = (
    ("publishers", "rabbitmq_global_publishers", "Current number of publishers"),
    ("consumers", "rabbitmq_global_consumers", "Current number of consumers"),
)
COUNTERS: Final[Texts] = (
    (
        "churn.connections_opened",
        "rabbitmq_connections_opened",
        "Total number of connections opened",
    ),
    (
        "churn.connections_closed",
        "rabbitmq_connections_closed",
        "Total number of connections closed or terminated",
    ),
    (
        "events_dropped",
        "leporid_events_dropped",
        "Total number of events that were not published, as an alarm was on or too many waited",
    ),
    (
        "traces_dropped",
        "leporid_traces_dropped",
        "Total number of messages that tracing did not copy, as an alarm was on or too many waited",
    ),
    ("churn.channels_opened", "rabbitmq_channels_opened", "Total number of channels opened"),
    ("churn.channels_closed", "rabbitmq_channels_closed", "Total number of channels closed"),
    ("churn.queues_declared", "rabbitmq_queues_declared", "Total number of queues declared"),
    ("churn.queues_created", "rabbitmq_queues_created", "Total number of queues created"),
    ("churn.queues_deleted", "rabbitmq_queues_deleted", "Total number of queues deleted"),
    (
        "deliveries_timed_out_total",
        "leporid_deliveries_timed_out",
        "Total number of deliveries that were not settled in time",
    ),
    (
        "stream_batches_skipped",
        "leporid_stream_batches_skipped",
        "Total number of batches of a stream that filters did not look into",
    ),
    (
        "stream_messages_skipped",
        "leporid_stream_reader_skipped_messages",
        (
            "Total number of messages of streams that consumers missed because retention did not "
            "wait for them"
        ),
    ),
    ("received_bytes", "leporid_received_bytes", "Total number of bytes that clients have sent"),
    ("sent_bytes", "leporid_sent_bytes", "Total number of bytes that clients have read"),
)
# Attributes of `counts.Received`.
RECEIVED: Final[Texts] = (
    ("total", "received", "Total number of messages received from publishers"),
    (
        "confirm",
        "received_confirm",
        "Total number of messages received from publishers expecting confirmations",
    ),
    ("confirmed", "confirmed", "Total number of messages confirmed to publishers"),
    ("routed", "routed", "Total number of messages routed to queues or streams"),
    (
        "dropped",
        "unroutable_dropped",
        (
            "Total number of messages published as non-mandatory into an exchange and dropped as "
            "unroutable"
        ),
    ),
    (
        "returned",
        "unroutable_returned",
        (
            "Total number of messages published as mandatory into an exchange and returned to the "
            "publisher as unroutable"
        ),
    ),
)
# Attributes of `counts.Delivered`.
DELIVERED: Final[Texts] = (
    ("total", "delivered", "Total number of messages delivered to consumers"),
    (
        "delivered",
        "delivered_consume_manual_ack",
        (
            "Total number of messages delivered to consumers using basic.consume with manual "
            "acknowledgment"
        ),
    ),
    (
        "delivered_no_ack",
        "delivered_consume_auto_ack",
        (
            "Total number of messages delivered to consumers using basic.consume with automatic "
            "acknowledgment"
        ),
    ),
    (
        "got",
        "delivered_get_manual_ack",
        (
            "Total number of messages delivered to consumers using basic.get with manual "
            "acknowledgment, and of messages in leases"
        ),
    ),
    (
        "got_no_ack",
        "delivered_get_auto_ack",
        (
            "Total number of messages delivered to consumers using basic.get with automatic "
            "acknowledgment"
        ),
    ),
    (
        "get_empty",
        "get_empty",
        "Total number of times basic.get operations fetched no message",
    ),
    ("redelivered", "redelivered", "Total number of messages redelivered to consumers"),
    (
        "acked",
        "acknowledged",
        "Total number of message acknowledgements received from consumers",
    ),
)
# The sums that older dashboards read; RabbitMQ's are those of open channels alone, and fall.
CHANNELS: Final[Texts] = (
    ("received.total", "messages_published", "Total number of messages published into an exchange"),
    ("received.confirmed", "messages_confirmed", "Total number of messages confirmed"),
    (
        "received.returned",
        "messages_unroutable_returned",
        "Total number of messages published as mandatory and returned as unroutable",
    ),
    (
        "received.dropped",
        "messages_unroutable_dropped",
        "Total number of messages published as non-mandatory and dropped as unroutable",
    ),
    ("got", "get_ack", "Total number of messages fetched with basic.get and acknowledged"),
    ("got_no_ack", "get", "Total number of messages fetched with basic.get without"),
    ("get_empty", "get_empty", "Total number of times basic.get fetched no message"),
    ("delivered", "messages_delivered_ack", "Total number of deliveries to consumers that ack"),
    (
        "delivered_no_ack",
        "messages_delivered",
        "Total number of deliveries to consumers that do not",
    ),
    ("redelivered", "messages_redelivered", "Total number of messages redelivered"),
    ("acked", "messages_acked", "Total number of messages acknowledged"),
)
# Attributes of `resources.Used`.
USED: Final[Texts] = (
    ("descriptors", "rabbitmq_process_open_fds", "Open file descriptors"),
    ("descriptors_max", "rabbitmq_process_max_fds", "Open file descriptors limit"),
    ("sockets", "rabbitmq_process_open_tcp_sockets", "Open TCP sockets of AMQP clients"),
    ("sockets_max", "rabbitmq_process_max_tcp_sockets", "Limit of TCP sockets of AMQP clients"),
    (
        "memory_bytes",
        "rabbitmq_process_resident_memory_bytes",
        "Memory used in bytes, as compared with the watermark: without mapped files",
    ),
    (
        "memory_bytes_max",
        "rabbitmq_resident_memory_limit_bytes",
        "Memory high watermark in bytes",
    ),
    ("disk_free_bytes", "rabbitmq_disk_space_available_bytes", "Disk space available in bytes"),
    (
        "disk_free_bytes_min",
        "rabbitmq_disk_space_available_limit_bytes",
        "Free disk space low watermark in bytes",
    ),
    ("uptime_seconds", "rabbitmq_erlang_uptime_seconds", "Node uptime"),
)
ALARMS: Final = (
    ("memory", "rabbitmq_alarms_memory_used_watermark", "is 1 if VM memory watermark is in effect"),
    (
        "disk",
        "rabbitmq_alarms_free_disk_space_watermark",
        "is 1 if free disk space watermark is in effect",
    ),
)
DEATHS: Final = ("expired", "maxlen", "rejected", "delivery_limit")
DELAYED: Final = (
    ("fired", "Total number of delayed messages that were due and went their way"),
    ("cancelled", "Total number of delayed messages that were cancelled"),
    ("unroutable", "Total number of delayed messages that came to no queue when they were due"),
)
JUDGED: Final[Texts] = (
    ("messages_judged", "judged", "Total number of messages that a filter class gave a verdict of"),
    ("messages_passed", "passed", "Total number of messages that a filter class let pass"),
    ("failures", "failures", "Total number of times that a filter class failed"),
)
FILTERED: Final = (
    ("asked", "Total number of questions to filters: one for each filter that a message met"),
    ("evaluated", "Questions to filters that no tag or value answered by itself"),
    ("matched", "Questions to filters that were answered with yes"),
    ("type_errors", "Questions to filters that were answered with no, and met a type error"),
)


@dataclass(frozen=True, slots=True)
class Identity:
    """Who the broker is; the labels by which dashboards tell nodes apart."""

    node: str
    cluster: Callable[[], str]
    """Changed at run time."""
    cluster_id: Callable[[], str]
    """Known only when the data directory was read."""
    version: str
    runtime: str
    """What RabbitMQ has as the version of Erlang."""

    def metrics(self, endpoint: str) -> Iterator[Metric]:
        """Yield both metrics that the others are joined with."""
        build = {
            "rabbitmq_version": self.version,
            "prometheus_plugin_version": self.version,
            "prometheus_client_version": CLIENT_VERSION,
            "erlang_version": self.runtime,
            "product_name": "Leporid",
            "product_version": self.version,
        }
        yield _info("rabbitmq_build_info", "Broker and runtime version info", build)
        identity = {
            "rabbitmq_node": self.node,
            "rabbitmq_cluster": self.cluster(),
            "rabbitmq_cluster_permanent_id": self.cluster_id(),
            "rabbitmq_endpoint": endpoint,
        }
        yield _info("rabbitmq_identity_info", "Node and cluster identity", identity)


def _info(name: str, text: str, labels: Mapping[str, str]) -> Metric:
    metric = GaugeMetricFamily(name, text, labels=tuple(labels))
    metric.add_metric(tuple(labels.values()), 1)
    return metric


def _labelled(
    kind: type[Any],
    name: str,
    text: str,
    labels: tuple[str, ...],
    values: Iterable[tuple[tuple[str, ...], float]],
) -> Metric:
    """A metric with several values, each with its labels."""
    metric: Metric = kind(name, text, labels=labels)
    for names, value in values:
        metric.add_metric(names, value)  # type: ignore[attr-defined]
    return metric


def _by(kind: type[Any], name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    """A metric with one label."""
    found = (((key,), value) for key, value in values.items())
    return _labelled(kind, name, text, (label,), found)


class BrokerCollector(Collector):
    """Makes the metrics of one scrape from one snapshot."""

    def __init__(
        self, counts: Callable[[], Count], identity: Identity, used: Callable[[], Used]
    ) -> None:
        self._counts = counts
        self._identity = identity
        self._used = used

    def collect(self, endpoint: str = "aggregated") -> Iterator[Metric]:
        """Yield every metric, as of the first one; `endpoint` names the page."""
        now = self._counts()
        yield from self._identity.metrics(endpoint)
        yield from _resources(self._used())
        for path, name, text in GAUGES:
            yield GaugeMetricFamily(name, text, value=attrgetter(path)(now))
        yield GaugeMetricFamily(
            "rabbitmq_queue_messages",
            "Sum of ready, held and unacknowledged messages",
            value=now.messages_ready + now.messages_held + now.messages_unacked,
        )
        for path, name, text in PROTOCOL_GAUGES:
            value = attrgetter(path)(now)
            yield _by(GaugeMetricFamily, name, text, "protocol", {PROTOCOL: value})
        for path, name, text in COUNTERS:
            yield CounterMetricFamily(name, text, value=attrgetter(path)(now))
        yield from _messages(now)
        yield from _channels(now)
        yield from _dead_letters(now)
        yield from _delays(now)
        yield from _backlogs(now)
        yield _by(
            GaugeMetricFamily,
            "leporid_remembered_messages",
            "Messages that exchanges remember, to take none of them twice",
            "vhost",
            now.remembered,
        )
        yield _by(
            GaugeMetricFamily,
            "leporid_group_messages_retrying",
            "Messages that groups of readers hold for another attempt",
            "vhost",
            now.retrying,
        )
        yield from _filter_classes(now)
        yield from _filters(now)
        yield _labelled(
            CounterMetricFamily,
            "leporid_unknown_arguments",
            "Total number of arguments that nothing reads, and of filters that probably match "
            "nothing, by where they were given: queue, exchange, binding, consumer, policy, table",
            ("vhost", "place"),
            now.unknown_arguments.items(),
        )
        yield _by(
            CounterMetricFamily,
            "leporid_refusals",
            "Total number of times that peers were refused something, by the limit that refused it",
            "kind",
            now.refusals,
        )
        for name, measured in now.histograms.items():
            yield _histogram(f"leporid_{name}", measured)


def _messages(now: Count) -> Iterator[Metric]:
    """What was published and delivered in all."""
    for attribute, event, text in RECEIVED:
        value = getattr(now.received, attribute)
        name = f"rabbitmq_global_messages_{event}"
        yield _by(CounterMetricFamily, name, text, "protocol", {PROTOCOL: value})
    for attribute, event, text in DELIVERED:
        yield _labelled(
            CounterMetricFamily,
            f"rabbitmq_global_messages_{event}",
            text,
            ("protocol", "queue_type"),
            (
                ((PROTOCOL, module), getattr(delivered, attribute))
                for module, delivered in now.delivered.items()
            ),
        )
    sizes = HistogramMetricFamily(
        "rabbitmq_message_size_bytes",
        "Size of messages received from publishers",
        labels=("protocol",),
    )
    buckets = _cumulative(SIZE_LIMITS, now.received.sizes)
    sizes.add_metric((PROTOCOL,), buckets, now.received.body_bytes)
    yield sizes


def _histogram(name: str, measured: Histogram) -> Metric:
    buckets = _cumulative(measured.limits, measured.counts)
    return HistogramMetricFamily(name, measured.text, buckets=buckets, sum_value=measured.total)


def _cumulative(limits: Iterable[float], counts: Iterable[int]) -> list[tuple[str, float]]:
    """Return how many values were at most each limit; with that for all at the end."""
    names = (*map(floatToGoString, limits), "+Inf")  # as Prometheus 3 writes them
    return list(zip(names, accumulate(counts), strict=True))


def _channels(now: Count) -> Iterator[Metric]:
    """The same without labels."""
    for path, event, text in CHANNELS:
        if path.startswith("received."):
            value = attrgetter(path)(now)
        else:
            value = sum(getattr(each, path) for each in now.delivered.values())
        yield CounterMetricFamily(f"rabbitmq_channel_{event}", text, value=value)


def _resources(used: Used) -> Iterator[Metric]:
    """What the process has and may have."""
    for attribute, name, text in USED:
        yield GaugeMetricFamily(name, text, value=getattr(used, attribute))
    yield CounterMetricFamily(
        "rabbitmq_process_cpu_seconds",
        "Processor time spent, user and system, in seconds",
        value=used.cpu_seconds,
    )
    for alarm, name, text in ALARMS:
        yield GaugeMetricFamily(name, text, value=alarm in used.alarms)
    yield GaugeMetricFamily(
        "rabbitmq_alarms_file_descriptor_limit",
        "is 1 if file descriptor limit alarm is in effect",
        value=used.sockets >= used.sockets_max > 0,
    )


def _dead_letters(now: Count) -> Iterator[Metric]:
    """What died, as RabbitMQ counts it: each reason is a metric; and what was lost of it."""
    modules = [module for module in now.delivered if module != "rabbit_stream_queue"]
    for reason in DEATHS:
        yield _labelled(
            CounterMetricFamily,
            f"rabbitmq_global_messages_dead_lettered_{reason}",
            f"Total number of messages dead-lettered for the reason {reason}",
            ("queue_type", "dead_letter_strategy"),
            (
                ((module, "at_least_once"), now.dead_lettered_total.get((reason, module), 0))
                for module in modules
            ),
        )
    yield _labelled(
        CounterMetricFamily,
        "leporid_dead_letters_dropped",
        "Total number of dead letters that came to no queue, by reason of death and by cause: "
        "no_exchange, no_queue, cycle, refused (the queues were full), invalid_key, too_large, "
        "delay_too_long",
        ("reason", "cause"),
        now.dead_letters_dropped_total.items(),
    )


def _delays(now: Count) -> Iterator[Metric]:
    """What waits in exchanges, and what became of what did."""
    waiting = {vhost: count.waiting for vhost, count in now.delays.items()}
    text = "Messages that wait in exchanges until they are due"
    yield _by(GaugeMetricFamily, "leporid_delayed_messages", text, "vhost", waiting)
    for name, text in DELAYED:
        found = {vhost: getattr(count, name) for vhost, count in now.delays.items()}
        yield _by(CounterMetricFamily, f"leporid_delayed_messages_{name}", text, "vhost", found)


def _backlogs(now: Count) -> Iterator[Metric]:
    """What the broker itself sent to full queues."""
    yield _by(
        GaugeMetricFamily,
        "leporid_backlog_messages",
        "Delayed messages, dead letters and messages that a filter class let pass which wait for "
        "room in full queues",
        "vhost",
        now.backlog,
    )
    yield _labelled(
        CounterMetricFamily,
        "leporid_backlog_dropped",
        "Total number of messages that waited for room in full queues and were dropped, by reason: "
        "expired (after a day), backlog_full, too_large",
        ("vhost", "reason"),
        now.given_up.items(),
    )


def _filter_classes(now: Count) -> Iterator[Metric]:
    """Code that chooses messages: whether it can, and what it chose."""
    waiting = {name: status.state == "waiting" for name, status in now.filter_classes.items()}
    text = "1: the class failed, and what it judges waits until it is tried again"
    yield _by(GaugeMetricFamily, "leporid_filter_class_waiting", text, "name", waiting)
    for metric, attribute, text in JUDGED:
        found = {name: getattr(each, attribute) for name, each in now.filter_classes.items()}
        yield _by(CounterMetricFamily, f"leporid_filter_class_{metric}", text, "name", found)


def _filters(now: Count) -> Iterator[Metric]:
    """What filters were asked, by where they stand."""
    for name, text in FILTERED:
        found = {place: getattr(count, name) for place, count in now.filters.items()}
        yield _by(CounterMetricFamily, f"leporid_filters_{name}", text, "on", found)


class Metrics:
    """The text of /metrics for one broker.

    Args:
        counts: of the broker, asked at each scrape.
        identity: who it is.
        used: what the process uses, likewise.
    """

    def __init__(
        self, counts: Callable[[], Count], identity: Identity, used: Callable[[], Used]
    ) -> None:
        self._identity = identity
        self._collector = BrokerCollector(counts, identity, used)

    def texts(self, endpoint: str = "aggregated", without: Collection[str] = ()) -> Iterator[bytes]:
        """Yield everything in the Prometheus text format, in pieces that take little time each.

        All values are of the moment of the first piece, but for histograms, which are of their own.
        CONTENT_TYPE says which format it is.

        Args:
            endpoint: the page that it is for.
            without: names of samples that stand on that page already.
        """
        metrics = (
            metric
            for metric in self._collector.collect(endpoint)
            if not any(sample.name in without for sample in metric.samples)
        )
        while some := list(islice(metrics, METRICS_A_PIECE)):
            yield _text(some)

    def identity(self, endpoint: str) -> bytes:
        """Return who the broker is, for a page of other metrics."""
        return _text(self._identity.metrics(endpoint))


class _Collected:
    """Metrics as `generate_latest` wants them."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def _text(metrics: Iterable[Metric]) -> bytes:
    return generate_latest(_Collected(metrics))


RABBITMQ: Final = re.compile(rb"^((?:# (?:HELP|TYPE) )?)rabbitmq_", re.MULTILINE)


def renamed(page: bytes, prefix: str) -> bytes:
    """Return a page with another word than `rabbitmq` in front of its names; see PREFIX."""
    if prefix == "rabbitmq":
        return page
    return RABBITMQ.sub(rb"\g<1>%s_" % prefix.encode(), page)
