"""What monitoring tools read of the lists of the management API, and which of it is not there.

The fields are those that the sources of Telegraf's input `rabbitmq`, Datadog's check, Zabbix's
template "RabbitMQ cluster by HTTP" and rabbitmq_exporter name. docs/monitoring.md has a table of
what is not there, with the reasons; a field that is there and in the table fails here, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import httpx
import pika
import pytest
from tests.conformance.marks import differs

pytestmark = differs


def counted(*names: str) -> list[str]:
    """Name counters, each with its rate."""
    return [f"message_stats.{name}{end}" for name in names for end in ("", "_details.rate")]


OF_MESSAGES: Final = ("ack", "confirm", "deliver_get", "publish", "return_unroutable", "redeliver")
OF_QUEUES: Final = ("ack", "deliver", "deliver_get", "publish", "redeliver")
LEVELS: Final = ("messages", "messages_ready", "messages_unacknowledged")
LEVELS_OF_QUEUES: Final = [*LEVELS, *(f"{level}_details.rate" for level in LEVELS)]

THERE: Final = {
    "overview": [
        "node", "cluster_name", "rabbitmq_version", "management_version", "product_name",
        *(f"object_totals.{noun}" for noun in (
            "channels", "connections", "consumers", "exchanges", "queues",
        )),
        *(f"queue_totals.{level}" for level in LEVELS_OF_QUEUES),
        *counted(*OF_MESSAGES, "deliver", "deliver_no_ack"),
    ],
    "nodes": [
        "name", "running", "uptime", "partitions", "disk_free", "disk_free_limit",
        "disk_free_alarm", "fd_total", "fd_used", "mem_limit", "mem_used", "mem_alarm",
        "sockets_total", "sockets_used",
    ],
    "queues": [
        "name", "vhost", "node", "state", "durable", "auto_delete", "policy", "consumers",
        "message_bytes_ready", "arguments.x-max-length", "effective_policy_definition",
        *LEVELS_OF_QUEUES, *counted(*OF_QUEUES, "deliver_no_ack", "get", "get_no_ack"),
    ],
    "exchanges": ["name", "vhost", "type", *counted("publish_in", "publish_out")],
}  # fmt: skip
MISSING: Final = {
    "overview": ["erlang_version", *counted("publish_in", "publish_out")],
    "nodes": ["proc_total", "proc_used", "run_queue"],
    "queues": [
        "active_consumers", "consumer_utilisation", "head_message_timestamp", "idle_since",
        "memory", "message_bytes", "message_bytes_unacknowledged", "message_bytes_ram",
        "message_bytes_persistent", "messages_ram", "messages_persistent", "disk_reads",
        "disk_writes", "reductions", "garbage_collection.minor_gcs", "leader", "members", "online",
        *counted("confirm"),
    ],
    "exchanges": counted("ack", "confirm", "deliver_get", "publish", "return_unroutable"),
}  # fmt: skip


@pytest.fixture
def used(channel: Any, name: Callable[..., str]) -> Iterator[tuple[str, str]]:
    """An exchange and a queue through which a message has come."""
    exchange, queue = name("exchange"), name("queue")
    channel.exchange_declare(exchange)
    channel.queue_declare(queue, arguments={"x-max-length": 5})
    channel.queue_bind(queue, exchange, "k")
    channel.basic_publish(exchange, "k", b"x", pika.BasicProperties())
    channel.basic_ack(channel.basic_get(queue)[0].delivery_tag)
    yield exchange, queue
    channel.exchange_delete(exchange)
    channel.queue_delete(queue)


@pytest.mark.parametrize("noun", THERE)
def test_what_monitoring_tools_read(api_url: str, used: tuple[str, str], noun: str):
    found = httpx.get(f"{api_url}/{noun}", auth=("guest", "guest"), trust_env=False).json()
    if isinstance(found, list):
        (found,) = [each for each in found if each["name"] in used or noun == "nodes"]
    assert [field for field in THERE[noun] if not has(found, field)] == []
    assert [field for field in MISSING[noun] if has(found, field)] == []


def has(found: Any, field: str) -> bool:
    for key in field.split("."):
        if not isinstance(found, dict) or key not in found:
            return False
        found = found[key]
    return True
