"""Programs for RabbitMQ's management, unmodified: rabbitmqadmin, Nagios checks, Python packages."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pika
import pytest
from amqpstorm.management.api import ManagementApi
from rabbitmq_admin import AdminAPI

with warnings.catch_warnings():
    # Its own escapes in strings.
    warnings.simplefilter("ignore")
    from pyrabbit2.api import Client

SECONDS = 30
# A script of Python's, in Debian's package rabbitmq-server.
RABBITMQADMIN = shutil.which("rabbitmqadmin")


@pytest.fixture
def admin(api_url: str) -> Callable[..., str]:
    """Run rabbitmqadmin; it must end in order."""
    if RABBITMQADMIN is None:
        pytest.skip("rabbitmqadmin is not installed (Debian: apt-get install rabbitmq-server)")
    place = urlsplit(api_url)

    def run(*arguments: str) -> str:
        command = [sys.executable, RABBITMQADMIN, "-H", str(place.hostname), "-P", str(place.port)]
        done = subprocess.run(
            [*command, "-f", "tsv", *arguments],
            capture_output=True,
            timeout=SECONDS,
            check=False,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def test_rabbitmqadmin(admin: Callable[..., str], name: Callable[..., str]):
    queue, exchange = name(), name()
    made = admin(
        "declare", "queue", f"name={queue}", "durable=true", 'arguments={"x-max-length":5}'
    )
    assert made.strip() == "queue declared"
    admin("declare", "exchange", f"name={exchange}", "type=topic")
    admin("declare", "binding", f"source={exchange}", f"destination={queue}", "routing_key=a.#")
    assert f"{exchange}\t{queue}\ta.#" in admin(
        "list", "bindings", "source", "destination", "routing_key"
    )
    sent = admin("publish", f"exchange={exchange}", "routing_key=a.b", "payload=hello")
    assert sent.strip() == "Message published"
    lost = admin("publish", f"exchange={exchange}", "routing_key=b", "payload=hello")
    assert lost.strip() == "Message published but NOT routed"
    got = admin("get", f"queue={queue}", "ackmode=ack_requeue_false")
    assert got.splitlines()[1].split("\t")[:4] == ["a.b", exchange, "0", "hello"]
    assert queue in admin("list", "queues", "vhost", "name", "node", "durable")
    assert exchange in admin("list", "exchanges")
    admin("purge", "queue", f"name={queue}")
    admin(
        "delete",
        "binding",
        f"source={exchange}",
        f"destination={queue}",
        "destination_type=queue",
        "properties_key=a.%23",
    )
    admin("delete", "exchange", f"name={exchange}")
    admin("delete", "queue", f"name={queue}")
    assert queue not in admin("list", "queues", "name")
    for noun in ("connections", "channels", "consumers", "parameters", "policies", "nodes"):
        admin("list", noun)
    assert "rabbitmq_version" in admin("show", "overview")


@pytest.mark.parametrize("form", ["tsv", "long", "kvp", "table", "raw_json"])
def test_rabbitmqadmin_prints_connections(admin: Callable[..., str], broker_url: str, form: str):
    with pika.BlockingConnection(pika.URLParameters(broker_url)):
        assert "guest" in admin("-f", form, "list", "connections", "vhost", "user", "ssl")
        assert "guest" in admin("-f", form, "list", "connections")
        if form not in ("tsv", "table"):
            assert "guest" in admin("-f", form, "-d", "3", "list", "connections")


def test_rabbitmqadmin_moves_definitions(
    admin: Callable[..., str], name: Callable[..., str], tmp_path: Path
):
    queue, exchange = name(), name()
    admin("declare", "queue", f"name={queue}", "durable=true", 'arguments={"x-max-length":5}')
    admin("declare", "exchange", f"name={exchange}", "type=topic")
    admin("declare", "binding", f"source={exchange}", f"destination={queue}", "routing_key=a.#")
    everything, here = tmp_path / "all.json", tmp_path / "here.json"
    admin("export", str(everything))
    admin("-V", "/", "export", str(here))
    before = json.loads(everything.read_text())
    for file, options in ((everything, ()), (here, ("-V", "/"))):
        admin("delete", "exchange", f"name={exchange}")
        admin("delete", "queue", f"name={queue}")
        admin(*options, "import", str(file))
        admin("export", str(everything))
        after = json.loads(everything.read_text())
        for noun in ("queues", "exchanges", "bindings"):
            assert _named(after[noun], queue, exchange) == _named(before[noun], queue, exchange)


def _named(items: list[Any], *names: str) -> list[Any]:
    """Those of them that name one of some."""
    return [each for each in items if any(name in each.values() for name in names)]


def test_rabbitmqadmin_says_what_was_refused(admin: Callable[..., str]):
    with pytest.raises(AssertionError, match=r"not_authorised|Access refused"):
        admin("declare", "queue", "name=amq.mine")


@pytest.mark.parametrize(
    ("check", "options", "says"),
    [
        ("aliveness", [], "OK - vhost: /"),
        ("connections", [], "connections_notrunning OK (0)"),
        ("objects", [], "OK - Gathered Object Counts"),
        ("overview", [], "messages_ready OK"),
        ("partition", ["-n", socket.gethostname()], "OK - No Partitions"),
        ("queue", ["--queue"], "consumers OK (0)"),
        ("watermark", ["-n", socket.gethostname()], "OK - mem_alarm disk_free_alarm"),
    ],
)
def test_nagios_checks(
    api_url: str, name: Callable[..., str], check: str, options: list[str], says: str
):
    program = shutil.which(f"check_rabbitmq_{check}")
    if program is None:
        pytest.skip("the check is not installed (Debian: apt-get install nagios-plugins-rabbitmq)")
    place, queue = urlsplit(api_url), name()
    client = Client(place.netloc, "guest", "guest")
    client.create_queue("/", queue)
    named = [*options, queue] if check == "queue" else options
    login = ["-H", str(place.hostname), "--port", str(place.port), "-u", "guest", "-p", "guest"]
    done = subprocess.run(
        [program, *login, *named],
        capture_output=True,
        timeout=SECONDS,
        check=False,
        text=True,
        env={**os.environ, "no_proxy": "*"},
    )
    client.delete_queue("/", queue)
    assert (done.returncode, says in done.stdout) == (0, True), done.stdout + done.stderr


def test_pyrabbit2(api_url: str, name: Callable[..., str]):
    client = Client(urlsplit(api_url).netloc, "guest", "guest")
    queue, exchange = name(), name()
    assert client.is_alive()
    assert client.get_overview()["rabbitmq_version"]
    assert len(client.get_nodes()) == 1
    client.create_queue("/", queue, durable=True)
    client.create_exchange("/", exchange, "topic")
    client.create_binding("/", exchange, queue, "a.*")
    assert client.publish("/", exchange, "a.b", "hi") is True
    (message,) = client.get_messages("/", queue, count=1, requeue=True)
    assert (message["payload"], message["routing_key"]) == ("hi", "a.b")
    assert queue in [each["name"] for each in client.get_queues("/")]
    assert exchange in [each["name"] for each in client.get_exchanges("/")]
    sources = [each["source"] for each in client.get_queue_bindings("/", queue)]
    assert sources == ["", exchange]
    client.purge_queue("/", queue)
    client.delete_binding("/", exchange, queue, "a.%2A")
    client.delete_exchange("/", exchange)
    client.delete_queue("/", queue)
    assert isinstance(client.get_connections(), list)
    assert isinstance(client.get_channels(), list)


def test_rabbitmq_admin(api_url: str, name: Callable[..., str]):
    admin = AdminAPI(url=api_url.removesuffix("/api"), auth=("guest", "guest"))
    exchange = name()
    given = {
        "type": "direct",
        "auto_delete": False,
        "durable": True,
        "internal": False,
        "arguments": {},
    }
    admin.create_exchange_for_vhost(exchange, "/", given)
    found = admin.get_exchange_for_vhost(exchange, "/")
    assert {key: found[key] for key in given} == given
    assert exchange in [each["name"] for each in admin.list_exchanges()]
    admin.delete_exchange_for_vhost(exchange, "/")
    for listing in (
        admin.list_nodes,
        admin.list_connections,
        admin.list_channels,
        admin.list_consumers,
        admin.list_bindings,
        admin.list_policies,
    ):
        assert isinstance(listing(), list)
    assert admin.overview()["node"] == admin.list_nodes()[0]["name"]


def test_amqpstorm(api_url: str, name: Callable[..., str]):
    api: Any = ManagementApi(api_url.removesuffix("/api"), "guest", "guest")
    queue, exchange = name(), name()
    assert api.aliveness_test("/") == {"status": "ok"}
    assert api.healthchecks.get() == {"status": "ok"}
    assert api.overview()["node"] == api.nodes()[0]["name"]
    api.queue.declare(queue, durable=True)
    api.queue.declare(queue, passive=True)
    api.exchange.declare(exchange, "topic")
    api.exchange.bind("amq.direct", exchange, "k")
    api.exchange.unbind("amq.direct", exchange, "k")
    api.queue.bind(queue, exchange, "r.k")
    assert len(api.queue.bindings(queue)) == 2
    properties = {"content_type": "text/plain"}
    assert api.basic.publish("hello", "r.k", exchange, properties=properties) == {"routed": True}
    (message,) = api.basic.get(queue, requeue=True)
    assert (message.body, message.properties["content_type"]) == ("hello", "text/plain")
    assert queue in [each["name"] for each in api.queue.list(page_size=1)]
    named = api.queue.list(name=f"^{queue}$", use_regex=True)
    assert [each["name"] for each in named] == [queue]
    api.queue.unbind(queue, exchange, "r.k")
    api.queue.purge(queue)
    api.exchange.delete(exchange)
    api.queue.delete(queue)
    assert isinstance(api.connection.list(), list)
    assert isinstance(api.channel.list(), list)
    api.queue.delete("aliveness-test")
