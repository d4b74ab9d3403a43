"""Metrics: RabbitMQ's names, one snapshot per scrape."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from leporid.broker.exchange.delays import DelayStatistics
from leporid.broker.statistics import Churn
from leporid.filterserver.filter_class import FilterClassStatus
from leporid.server.counts import Count, Delivered, FilterCount, Received
from leporid.server.histograms import Histogram
from leporid.server.metrics import Identity, Metrics, renamed
from leporid.server.resources import Used

MEASURED = ("turn_seconds", "loop_lag_seconds", "sync_seconds", "sync_bytes")
HISTOGRAM = Histogram("How long it took", (0.5, 1))
HISTOGRAM.note(0.25)
HISTOGRAM.note(2)


def counted(**changes: Any) -> Count:
    """A count in which every figure is another one."""
    count = Count(
        connections=1,
        channels=2,
        queues=3,
        queues_paused=30,
        consumers=4,
        exchanges=27,
        bindings=28,
        publishers=29,
        churn=Churn(31, 32, 33, 34, 35, 36, 37),
        received=Received(
            total=70,
            confirm=41,
            confirmed=8,
            routed=42,
            dropped=43,
            returned=44,
            sizes=(1, 2, 3, 4, 5, 6, 7, 8, 9),
            body_bytes=4711,
        ),
        delivered={
            "rabbit_classic_queue": Delivered(9, 51, 52, 53, 54, 55, 10, 11),
            "rabbit_stream_queue": Delivered(109, 61, 62, 63, 64, 65, 110, 111),
        },
        messages_ready=50,
        messages_unacked=6,
        messages_held=700,
        deliveries_timed_out_total=14,
        dead_lettered_total={("expired", "rabbit_classic_queue"): 12},
        dead_letters_dropped_total={("maxlen", "no_exchange"): 13},
        delays={"/": DelayStatistics(14, 15, 16, 17)},
        backlog={"/": 23},
        given_up={("/", "expired"): 24},
        remembered={"/": 18},
        retrying={"/": 19},
        leases=19,
        messages_leased=20,
        filter_classes={"big": FilterClassStatus("waiting", 0, 18, 19, 20)},
        filters={"bindings": FilterCount(18, 19, 20, 21)},
        stream_batches_skipped=22,
        stream_messages_skipped=26,
        refusals={"http_uploads": 25},
        unknown_arguments={("/", "queue"): 23},
        definitions_bytes=81,
        peers_bytes=82,
        output_bytes=83,
        durable_log_bytes=84,
        transient_log_bytes=85,
        log_segments=86,
        streams=87,
        received_bytes=88,
        sent_bytes=89,
        events_dropped=91,
        traces_dropped=92,
        histograms=dict.fromkeys(MEASURED, HISTOGRAM),
    )
    return replace(count, **changes)


USED = Used(
    memory_bytes=201,
    memory_bytes_max=202,
    disk_free_bytes=203,
    disk_free_bytes_min=204,
    descriptors=205,
    descriptors_max=206,
    sockets=207,
    sockets_max=208,
    cpu_seconds=209.5,
    uptime_seconds=210.5,
    alarms=frozenset({"disk"}),
)
IDENTITY = Identity("leporid@node", lambda: "the cluster", lambda: "its id", "1.2.3", "Python 3")


def metrics(counts: Callable[[], Count] = counted) -> Metrics:
    """What makes the pages."""
    return Metrics(counts, IDENTITY, lambda: USED)


def samples(text: bytes) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


AMQP = (("protocol", "amqp091"),)
TOTALS: dict[str, float] = {
    "rabbitmq_connections": 1,
    "rabbitmq_channels": 2,
    "rabbitmq_queues": 3,
    "rabbitmq_consumers": 4,
    "rabbitmq_queue_consumers": 4,
    "rabbitmq_channel_consumers": 4,
    "rabbitmq_queue_messages_ready": 50,
    "rabbitmq_queue_messages_unacked": 6,
    "rabbitmq_queue_messages": 756,
    "rabbitmq_connections_opened_total": 31,
    "rabbitmq_connections_closed_total": 32,
    "rabbitmq_channels_opened_total": 33,
    "rabbitmq_channels_closed_total": 34,
    "rabbitmq_queues_declared_total": 35,
    "rabbitmq_queues_created_total": 36,
    "rabbitmq_queues_deleted_total": 37,
    "rabbitmq_process_resident_memory_bytes": 201,
    "rabbitmq_resident_memory_limit_bytes": 202,
    "rabbitmq_disk_space_available_bytes": 203,
    "rabbitmq_disk_space_available_limit_bytes": 204,
    "rabbitmq_process_open_fds": 205,
    "rabbitmq_process_max_fds": 206,
    "rabbitmq_process_open_tcp_sockets": 207,
    "rabbitmq_process_max_tcp_sockets": 208,
    "rabbitmq_process_cpu_seconds_total": 209.5,
    "rabbitmq_erlang_uptime_seconds": 210.5,
    "rabbitmq_alarms_memory_used_watermark": 0,
    "rabbitmq_alarms_free_disk_space_watermark": 1,
    "rabbitmq_alarms_file_descriptor_limit": 0,
    "rabbitmq_channel_messages_published_total": 70,
    "rabbitmq_channel_messages_confirmed_total": 8,
    "rabbitmq_channel_messages_unroutable_returned_total": 44,
    "rabbitmq_channel_messages_unroutable_dropped_total": 43,
    "rabbitmq_channel_messages_delivered_ack_total": 112,
    "rabbitmq_channel_messages_delivered_total": 114,
    "rabbitmq_channel_get_ack_total": 116,
    "rabbitmq_channel_get_total": 118,
    "rabbitmq_channel_get_empty_total": 120,
    "rabbitmq_channel_messages_redelivered_total": 120,
    "rabbitmq_channel_messages_acked_total": 122,
    "leporid_exchanges": 27,
    "leporid_bindings": 28,
    "leporid_events_dropped_total": 91,
    "leporid_traces_dropped_total": 92,
    "leporid_queues_paused": 30,
    "leporid_queue_messages_held": 700,
    "leporid_deliveries_timed_out_total": 14,
    "leporid_stream_batches_skipped_total": 22,
    "leporid_stream_reader_skipped_messages_total": 26,
    "leporid_leases": 19,
    "leporid_queue_messages_leased": 20,
    "leporid_definitions_bytes": 81,
    "leporid_peers_bytes": 82,
    "leporid_output_bytes": 83,
    "leporid_log_durable_bytes": 84,
    "leporid_log_transient_bytes": 85,
    "leporid_log_segments": 86,
    "leporid_streams": 87,
    "leporid_received_bytes_total": 88,
    "leporid_sent_bytes_total": 89,
    **{f"leporid_{name}_count": 2 for name in MEASURED},
    **{f"leporid_{name}_sum": 2.25 for name in MEASURED},
}
RECEIVED = {
    "received": 70,
    "received_confirm": 41,
    "confirmed": 8,
    "routed": 42,
    "unroutable_dropped": 43,
    "unroutable_returned": 44,
}
DELIVERED = {
    "delivered": (9, 109),
    "delivered_consume_manual_ack": (51, 61),
    "delivered_consume_auto_ack": (52, 62),
    "delivered_get_manual_ack": (53, 63),
    "delivered_get_auto_ack": (54, 64),
    "get_empty": (55, 65),
    "redelivered": (10, 110),
    "acknowledged": (11, 111),
}
SIZES = {
    "100.0": 1, "1000.0": 3, "10000.0": 6, "100000.0": 10, "1e+06": 15,
    "1e+07": 21, "5e+07": 28, "1e+08": 36, "+Inf": 45,
}  # fmt: skip
OTHERS: dict[tuple[str, tuple[tuple[str, str], ...]], int] = {
    ("leporid_unknown_arguments_total", (("place", "queue"), ("vhost", "/"))): 23,
    ("leporid_refusals_total", (("kind", "http_uploads"),)): 25,
    ("leporid_dead_letters_dropped_total", (("cause", "no_exchange"), ("reason", "maxlen"))): 13,
    ("leporid_delayed_messages", (("vhost", "/"),)): 14,
    ("leporid_delayed_messages_fired_total", (("vhost", "/"),)): 15,
    ("leporid_delayed_messages_cancelled_total", (("vhost", "/"),)): 16,
    ("leporid_delayed_messages_unroutable_total", (("vhost", "/"),)): 17,
    ("leporid_remembered_messages", (("vhost", "/"),)): 18,
    ("leporid_group_messages_retrying", (("vhost", "/"),)): 19,
    ("leporid_backlog_messages", (("vhost", "/"),)): 23,
    ("leporid_backlog_dropped_total", (("reason", "expired"), ("vhost", "/"))): 24,
    ("leporid_filter_class_waiting", (("name", "big"),)): 1,
    ("leporid_filter_class_messages_judged_total", (("name", "big"),)): 18,
    ("leporid_filter_class_messages_passed_total", (("name", "big"),)): 19,
    ("leporid_filter_class_failures_total", (("name", "big"),)): 20,
    ("leporid_filters_asked_total", (("on", "bindings"),)): 18,
    ("leporid_filters_evaluated_total", (("on", "bindings"),)): 19,
    ("leporid_filters_matched_total", (("on", "bindings"),)): 20,
    ("leporid_filters_type_errors_total", (("on", "bindings"),)): 21,
    ("rabbitmq_global_publishers", AMQP): 29,
    ("rabbitmq_global_consumers", AMQP): 4,
    ("rabbitmq_message_size_bytes_count", AMQP): 45,
    ("rabbitmq_message_size_bytes_sum", AMQP): 4711,
    **{
        (f"leporid_{name}_bucket", (("le", limit),)): value
        for name in MEASURED
        for limit, value in (("0.5", 1), ("1.0", 1), ("+Inf", 2))
    },
}


def page_of(made: Metrics, *which: Any) -> bytes:
    return b"".join(made.texts(*which))


def test_names_and_values():
    found = samples(page_of(metrics()))
    expected: dict[tuple[str, tuple[tuple[str, str], ...]], float] = dict(OTHERS)
    expected |= {(name, ()): value for name, value in TOTALS.items()}
    for event, value in RECEIVED.items():
        expected[f"rabbitmq_global_messages_{event}_total", AMQP] = value
    for event, values in DELIVERED.items():
        for kind, value in zip(("classic", "stream"), values, strict=True):
            labelled = (*AMQP, ("queue_type", f"rabbit_{kind}_queue"))
            expected[f"rabbitmq_global_messages_{event}_total", labelled] = value
    for limit, value in SIZES.items():
        expected["rabbitmq_message_size_bytes_bucket", (("le", limit), *AMQP)] = value
    for reason in ("expired", "maxlen", "rejected", "delivery_limit"):
        name = f"rabbitmq_global_messages_dead_lettered_{reason}_total"
        strategy = ("dead_letter_strategy", "at_least_once")
        queue_type = ("queue_type", "rabbit_classic_queue")
        expected[name, (strategy, queue_type)] = 12 if reason == "expired" else 0
    infos = {name: labels for name, labels in found if name.endswith("_info")}
    for name, labels in infos.items():
        assert found.pop((name, labels)) == 1
    assert found == expected
    assert dict(infos["rabbitmq_identity_info"]) == {
        "rabbitmq_node": "leporid@node",
        "rabbitmq_cluster": "the cluster",
        "rabbitmq_cluster_permanent_id": "its id",
        "rabbitmq_endpoint": "aggregated",
    }
    build = dict(infos["rabbitmq_build_info"])
    assert build["rabbitmq_version"] == build["product_version"] == "1.2.3"
    assert build["erlang_version"] == "Python 3"
    assert build["prometheus_client_version"]


def test_an_alarm_of_descriptors_is_on_when_no_more_clients_may_connect():
    full = Metrics(counted, IDENTITY, lambda: replace(USED, sockets=208))
    assert samples(page_of(full))["rabbitmq_alarms_file_descriptor_limit", ()] == 1


def test_a_page_may_leave_out_what_stands_on_it_already():
    whole = samples(page_of(metrics(), "per-object"))
    found = samples(page_of(metrics(), "per-object", {"rabbitmq_queue_consumers"}))
    assert set(whole) - set(found) == {("rabbitmq_queue_consumers", ())}
    assert {dict(labels).get("rabbitmq_endpoint") for _, labels in found} == {None, "per-object"}
    identity = samples(metrics().identity("detailed"))
    assert {name for name, _ in identity} == {"rabbitmq_build_info", "rabbitmq_identity_info"}


def test_scrapers_may_choose_another_word_than_rabbitmq():
    page = page_of(metrics())
    renamed_page = renamed(page, "other")
    assert samples(renamed_page) == {
        (name.replace("rabbitmq_", "other_", 1), labels): value
        for (name, labels), value in samples(page).items()
    }
    assert b"# TYPE other_queues gauge" in renamed_page
    assert b'rabbitmq_node="' in renamed_page, "labels keep their names"
    assert renamed(page, "rabbitmq") == page


def test_what_is_asked_of_filters_is_called_a_question():
    page = page_of(metrics()).decode()
    for name in ("asked", "evaluated", "matched", "type_errors"):
        (said,) = re.findall(rf"^# HELP leporid_filters_{name}_total (.*)$", page, re.MULTILINE)
        assert "uestions to filters" in said


def test_each_scrape_asks_once_and_nothing_asks_before():
    asked: list[Count] = []

    def counts() -> Count:
        asked.append(counted(connections=len(asked)))
        return asked[-1]

    made = metrics(counts)
    assert asked == []
    first, second = samples(page_of(made)), samples(page_of(made))
    assert len(asked) == 2
    assert first["rabbitmq_connections", ()] == 0
    assert second["rabbitmq_connections", ()] == 1
