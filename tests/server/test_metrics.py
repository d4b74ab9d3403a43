"""Metrics: RabbitMQ's names, one snapshot per scrape."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from prometheus_client.parser import text_string_to_metric_families

from leporid.broker.exchange.delays import DelayStatistics
from leporid.filterserver.filter_class import FilterClassStatus
from leporid.server.counts import FilterCount
from leporid.server.metrics import Metrics


@dataclass(frozen=True)
class Counted:
    connections: int = 1
    channels: int = 2
    queues: int = 3
    consumers: int = 4
    messages_ready: int = 50
    messages_unacked: int = 6
    messages_held: int = 700
    messages_received_total: int = 70
    messages_confirmed_total: int = 8
    messages_delivered_total: int = 9
    messages_redelivered_total: int = 10
    messages_acknowledged_total: int = 11
    deliveries_timed_out_total: int = 14
    dead_lettered_total: Mapping[tuple[str, str], int] = field(
        default_factory=lambda: {("expired", "rabbit_quorum_queue"): 12}
    )
    dead_letters_dropped_total: Mapping[tuple[str, str], int] = field(
        default_factory=lambda: {("maxlen", "no_exchange"): 13}
    )
    delays: Mapping[str, DelayStatistics] = field(
        default_factory=lambda: {"/": DelayStatistics(14, 15, 16, 17)}
    )
    backlog: Mapping[str, int] = field(default_factory=lambda: {"/": 23})
    given_up: Mapping[tuple[str, str], int] = field(default_factory=lambda: {("/", "expired"): 24})
    remembered: Mapping[str, int] = field(default_factory=lambda: {"/": 18})
    retrying: Mapping[str, int] = field(default_factory=lambda: {"/": 19})
    leases: int = 19
    messages_leased: int = 20
    filter_classes: Mapping[str, FilterClassStatus] = field(
        default_factory=lambda: {"big": FilterClassStatus("waiting", 0, 18, 19, 20)}
    )
    filters: Mapping[str, FilterCount] = field(
        default_factory=lambda: {"bindings": FilterCount(18, 19, 20, 21)}
    )
    stream_batches_skipped: int = 22
    stream_messages_skipped: int = 26
    refusals: Mapping[str, int] = field(default_factory=lambda: {"http_uploads": 25})
    unknown_arguments: Mapping[tuple[str, str], int] = field(
        default_factory=lambda: {("/", "queue"): 23}
    )


def samples(text: bytes) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def test_names_and_values():
    found = samples(Metrics(Counted).render())
    assert found.pop(("rabbitmq_process_resident_memory_bytes", ())) > 2**20
    assert found.pop(("rabbitmq_process_cpu_seconds_total", ())) > 0
    amqp = (("protocol", "amqp091"),)
    assert found == {
        ("rabbitmq_connections", ()): 1,
        ("rabbitmq_channels", ()): 2,
        ("rabbitmq_queues", ()): 3,
        ("rabbitmq_consumers", ()): 4,
        ("rabbitmq_queue_messages_ready", ()): 50,
        ("rabbitmq_queue_messages_unacked", ()): 6,
        ("leporid_queue_messages_held", ()): 700,
        ("rabbitmq_queue_messages", ()): 756,
        ("leporid_deliveries_timed_out_total", ()): 14,
        ("leporid_stream_batches_skipped_total", ()): 22,
        ("leporid_stream_reader_skipped_messages_total", ()): 26,
        ("leporid_unknown_arguments_total", (("place", "queue"), ("vhost", "/"))): 23,
        ("leporid_refusals_total", (("kind", "http_uploads"),)): 25,
        ("rabbitmq_global_messages_received_total", amqp): 70,
        ("rabbitmq_global_messages_confirmed_total", amqp): 8,
        ("rabbitmq_global_messages_delivered_total", amqp): 9,
        ("rabbitmq_global_messages_redelivered_total", amqp): 10,
        ("rabbitmq_global_messages_acknowledged_total", amqp): 11,
        (
            "rabbitmq_global_messages_dead_lettered_expired_total",
            (
                ("dead_letter_strategy", "at_least_once"),
                ("queue_type", "rabbit_quorum_queue"),
            ),
        ): 12,
        (
            "leporid_dead_letters_dropped_total",
            (("cause", "no_exchange"), ("reason", "maxlen")),
        ): 13,
        ("leporid_delayed_messages", (("vhost", "/"),)): 14,
        ("leporid_delayed_messages_fired_total", (("vhost", "/"),)): 15,
        ("leporid_delayed_messages_cancelled_total", (("vhost", "/"),)): 16,
        ("leporid_delayed_messages_unroutable_total", (("vhost", "/"),)): 17,
        ("leporid_remembered_messages", (("vhost", "/"),)): 18,
        ("leporid_group_messages_retrying", (("vhost", "/"),)): 19,
        ("leporid_backlog_messages", (("vhost", "/"),)): 23,
        ("leporid_backlog_dropped_total", (("reason", "expired"), ("vhost", "/"))): 24,
        ("leporid_leases", ()): 19,
        ("leporid_queue_messages_leased", ()): 20,
        ("leporid_filter_class_waiting", (("name", "big"),)): 1,
        ("leporid_filter_class_messages_judged_total", (("name", "big"),)): 18,
        ("leporid_filter_class_messages_passed_total", (("name", "big"),)): 19,
        ("leporid_filter_class_failures_total", (("name", "big"),)): 20,
        ("leporid_filters_asked_total", (("on", "bindings"),)): 18,
        ("leporid_filters_evaluated_total", (("on", "bindings"),)): 19,
        ("leporid_filters_matched_total", (("on", "bindings"),)): 20,
        ("leporid_filters_type_errors_total", (("on", "bindings"),)): 21,
    }


def test_what_is_asked_of_filters_is_called_a_question():
    page = Metrics(Counted).render().decode()
    for name in ("asked", "evaluated", "matched", "type_errors"):
        (said,) = re.findall(rf"^# HELP leporid_filters_{name}_total (.*)$", page, re.MULTILINE)
        assert "uestions to filters" in said


def test_each_scrape_asks_once_and_nothing_asks_before():
    asked: list[Counted] = []

    def statistics() -> Counted:
        asked.append(Counted(connections=len(asked)))
        return asked[-1]

    metrics = Metrics(statistics)
    assert asked == []
    first, second = samples(metrics.render()), samples(metrics.render())
    assert len(asked) == 2
    assert first["rabbitmq_connections", ()] == 0
    assert second["rabbitmq_connections", ()] == 1
