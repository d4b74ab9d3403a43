"""RabbitMQ's tools as its image has them, on a broker with a rabbitmq.conf; without the image."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pika
import pytest
from tests.packaging.test_container import DOCKER, TOOLS

from leporid.testing import BrokerProcess, reserve_port

PATIENCE_S = 20
SECRET = "s3cret-of-the-container"


class Container:
    """What would be one: a directory of configuration, variables, a broker, and the tools."""

    def __init__(self, path: Path) -> None:
        self.amqp_port = reserve_port()
        self.config = path / "rabbitmq"
        (self.config / "conf.d").mkdir(parents=True)
        (path / "leporid").mkdir()
        (path / "secret").write_text(SECRET + "\n")
        bin_ = path / "bin"
        bin_.mkdir()
        for name in TOOLS:
            (bin_ / name).symlink_to(DOCKER / "rabbitmq-tool")
        here = {name: one for name, one in os.environ.items() if not name.startswith("LEPORID_")}
        self.environment = here | {
            "PATH": f"{bin_}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "LEPORID_CONFIG": f"{self.config}:{path / 'leporid'}",
            "LEPORID_DATA_DIR": str(path / "data"),
            "RABBITMQ_DEFAULT_USER": "app",
            "RABBITMQ_DEFAULT_PASS_FILE": str(path / "secret"),
            "XDG_CONFIG_HOME": str(path / "home"),
        }
        self.http_port = reserve_port()
        (self.config / "rabbitmq.conf").write_text(
            f"listeners.tcp.default = {self.amqp_port}\n"
            f"management.tcp.port = {self.http_port}\nheartbeat = 21\ncluster_name = shop\n"
        )
        variables = [f"{name}={value}" for name, value in self.environment.items()]
        self.broker = BrokerProcess(
            path / "data",
            amqp_port=self.amqp_port,
            options=["--http-port", str(self.http_port)],
            command=["env", "-i", *variables, str(DOCKER / "docker-entrypoint.sh"),
                     "rabbitmq-server"],
        )  # fmt: skip

    def run(self, command: str, code: int = 0, **variables: str) -> str:
        """Run a line as a health check has it; return what it wrote."""
        done = subprocess.run(
            ["sh", "-c", command],
            env=self.environment | variables,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == code, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
        assert SECRET not in done.stdout + done.stderr
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    made = Container(tmp_path_factory.mktemp("container"))
    with made.broker:
        yield made


def test_the_file_is_read(container: Container):
    log = container.broker.log_path.read_text()
    assert f"{container.config}/rabbitmq.conf:4 cluster_name: there is one node" in log
    shown = container.run("leporid config show")
    assert f"heartbeat = 21  # {container.config}/rabbitmq.conf:3 heartbeat" in shown


@pytest.mark.parametrize(
    "command",
    [
        "rabbitmq-diagnostics -q ping",
        "rabbitmq-diagnostics check_running && rabbitmq-diagnostics check_local_alarms",
        "rabbitmq-diagnostics -q check_local_alarms",
        "rabbitmq-diagnostics -q check_port_connectivity",
        "rabbitmq-diagnostics -q check_virtual_hosts",
        "rabbitmq-diagnostics -q status --timeout 10",
        "rabbitmqctl ping",
        "rabbitmqctl -n rabbit@localhost -t 10 node_health_check",
        "rabbitmqctl wait /var/lib/rabbitmq/mnesia/rabbit@broker.pid",
        "rabbitmqctl wait --timeout 60 $RABBITMQ_PID_FILE",
        "rabbitmqctl list_queues name messages",
        "rabbitmqadmin list queues",
        "leporid ping",
    ],
)
def test_health_checks(command: str, container: Container):
    container.run(command)


def code_of(command: str, container: Container, wanted: int) -> int:
    """The exit code of a health check once it is that one, or after a while."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        done = subprocess.run(
            ["sh", "-c", command], env=container.environment, capture_output=True, check=False
        )
        if done.returncode == wanted or time.monotonic() > deadline:
            return done.returncode


def test_an_alarm_fails_the_checks_of_alarms_alone(container: Container):
    file = container.config / "conf.d" / "alarm.conf"
    file.write_text("disk_free_limit.absolute = 100000TB\n")
    os.kill(container.broker.pid, signal.SIGHUP)
    try:
        assert code_of("rabbitmq-diagnostics -q check_local_alarms", container, 1) == 1
        container.run("rabbitmqctl node_health_check", code=1)
        container.run("rabbitmq-diagnostics -q ping")
        container.run("rabbitmq-diagnostics -q check_running")
    finally:
        file.unlink()
        os.kill(container.broker.pid, signal.SIGHUP)
    assert code_of("rabbitmq-diagnostics -q check_alarms", container, 0) == 0


def test_a_port_is_checked(container: Container):
    container.run(f"rabbitmq-diagnostics -q check_port_listener {container.amqp_port}")
    container.run(f"rabbitmq-diagnostics -q check_port_listener {container.http_port}")
    said = container.run("rabbitmq-diagnostics -q check_port_listener 1", code=1)
    assert "no listener at" in said
    assert "port 1: it is none of the configuration" in said


def test_what_is_not_there_is_said_in_one_line(container: Container):
    said = container.run("rabbitmqctl eval 'rabbit_mnesia:status().'", code=2)
    assert said == "leporid: rabbitmqctl has no 'eval' here: there is no Erlang\n"
    for command in ("rabbitmqctl stop_app", "rabbitmq-diagnostics memory_breakdown"):
        (line,) = container.run(command, code=2).splitlines()
        assert "has no" in line


def test_a_silent_broker_is_unhealthy(container: Container):
    elsewhere = container.config.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "leporid.toml").write_text(f"http_port = {reserve_port()}\n")
    for command in ("rabbitmq-diagnostics ping", "rabbitmqctl await_startup --timeout 0"):
        said = container.run(command, code=1, LEPORID_CONFIG=str(elsewhere))
        assert "no answer from" in said


def test_users_are_made_as_scripts_do(container: Container):
    definitions = container.config.parent / "definitions.json"
    queue = {"name": "imported", "vhost": "shop", "durable": True, "auto_delete": False}
    definitions.write_text(json.dumps({"queues": [{**queue, "arguments": {}}]}))
    container.run(
        "set -e; rabbitmqctl add_vhost shop; rabbitmqctl add_user ann secret-of-ann;"
        "rabbitmqctl set_user_tags ann administrator;"
        "rabbitmqctl set_permissions -p shop ann '.*' '.*' '.*';"
        """rabbitmqctl set_policy -p shop long '^long' '{"max-length": 5}' --apply-to queues;"""
        f"rabbitmqctl import_definitions {definitions}"
    )
    parameters = pika.ConnectionParameters(
        "127.0.0.1",
        container.amqp_port,
        virtual_host="shop",
        credentials=pika.PlainCredentials("ann", "secret-of-ann"),
    )
    with pika.BlockingConnection(parameters) as connection:
        connection.channel().queue_declare("imported", passive=True)
    listed = container.run("rabbitmqctl -q -p shop list_queues name messages").split()
    assert listed == ["name", "messages", "imported", "0"]
    address = f"http://127.0.0.1:{container.http_port}/api/policies/shop/long"
    got = httpx.get(address, auth=("ann", "secret-of-ann"), trust_env=False).json()
    assert got["definition"] == {"max-length": 5}
    # Who is named in the environment asks, and is refused by the broker.
    said = container.run("rabbitmqctl list_users", 4, LEPORID_USER="ann", LEPORID_PASSWORD="no")
    assert "configuration" not in said


def test_who_is_refused_is_told_who_asked(container: Container):
    other: Any = {"RABBITMQ_DEFAULT_PASS_FILE": "", "RABBITMQ_DEFAULT_PASS": "never"}
    said = container.run("rabbitmqctl list_users", 4, **other)
    assert "rabbitmqctl: asked as 'app' of the configuration; LEPORID_USER and" in said
    assert "never" not in said
    # It is healthy nevertheless.
    assert container.run("rabbitmqctl status", **other).startswith("ok\n")
    for command in ("rabbitmq-diagnostics -q check_local_alarms", "rabbitmqctl node_health_check"):
        assert container.run(command, **other) == "ok\n"


def test_guest_asks_where_nobody_is_configured(tmp_path: Path, container: Container):
    (tmp_path / "leporid.toml").write_text(f"http_port = {container.http_port}\n")
    other = {"RABBITMQ_DEFAULT_USER": "", "RABBITMQ_DEFAULT_PASS_FILE": ""}
    said = container.run("rabbitmqctl list_users", 4, LEPORID_CONFIG=str(tmp_path), **other)
    assert "asked as 'guest'" in said


def test_plugins(container: Container):
    container.run("rabbitmq-plugins enable --offline rabbitmq_management")
    said = container.run("rabbitmq-plugins enable rabbitmq_shovel", code=1)
    assert said == "rabbitmq-plugins: rabbitmq_shovel: there is no such plugin here\n"
