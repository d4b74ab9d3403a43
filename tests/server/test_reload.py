"""A reload: what changes in a running broker, what waits for a restart, what changes nothing."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import httpx
import pika
import pika.exceptions
import pytest
from tests.server.certificates import configured, make_files
from tests.server.outside import Decider

from leporid.server.config import Config, Limits
from leporid.server.notify import ServiceManager
from leporid.server.reload import LIVE, Effects, LoadedConfig, Reload, differing, merged
from leporid.server.settings import ConfigError
from leporid.testing import BrokerProcess

slow = pytest.mark.slow

PATIENCE_S = 20
STREAM = {"x-queue-type": "stream"}
BASE = Config(data_dir=Path("/x"))


def test_each_live_setting_has_an_effect_and_no_other():
    nothing: Any = None
    effects = Effects(*[nothing] * 6, http_hosts=set(), connections_max=abs)
    assert effects.by_key().keys() == LIVE


def test_what_differs_is_named_by_its_keys():
    other = replace(BASE, heartbeat=1, limits=Limits(handshake_seconds=3), amqp_port=1)
    assert differing(BASE, BASE) == []
    assert differing(BASE, other) == ["amqp_port", "heartbeat", "limits.handshake_seconds"]


def test_some_of_it_can_be_taken():
    other = replace(
        BASE, heartbeat=1, limits=Limits(handshake_seconds=3, connections_max=4), amqp_port=1
    )
    keys = frozenset({"heartbeat", "limits.handshake_seconds"})
    assert merged(BASE, other, keys) == replace(
        BASE, heartbeat=1, limits=Limits(handshake_seconds=3)
    )
    keys |= {"limits.connections_max"}
    assert merged(BASE, other, keys) == replace(other, amqp_port=5672)
    assert merged(BASE, other, frozenset()) == BASE


class Asked:
    """A reload whose configuration the test gives."""

    def __init__(self) -> None:
        self.next: Config | Exception = BASE
        self.applied: list[list[str]] = []
        self.reads = 0
        self.reload = Reload(BASE, (), self._read, self._apply, ServiceManager({}))

    def _read(self) -> LoadedConfig:
        self.reads += 1
        if isinstance(self.next, Exception):
            raise self.next
        return LoadedConfig(self.next, lambda key: f"of {key}")

    def _apply(self, config: Config, keys: list[str]) -> None:
        self.applied.append(keys)

    async def ask(self) -> None:
        reads = self.reads
        self.reload.ask()
        assert self.reload._running is not None
        async with asyncio.timeout(PATIENCE_S):
            await self.reload._running
        assert self.reads == reads + 1


async def test_what_needs_a_restart_is_said_again(caplog: pytest.LogCaptureFixture):
    asked = Asked()
    asked.next = replace(BASE, heartbeat=1, amqp_port=1)
    with caplog.at_level("INFO"):
        await asked.ask()
        await asked.ask()
    assert asked.applied == [["heartbeat"], []]
    assert [line.split(": ", 1)[1] for line in caplog.messages] == [
        "heartbeat (of heartbeat)",
        "amqp_port (of amqp_port)",
        "nothing",
        "amqp_port (of amqp_port)",
    ]
    assert asked.reload.config == replace(BASE, heartbeat=1)


@pytest.mark.parametrize("error", [ConfigError("x:1: wrong"), RuntimeError("a defect")])
async def test_what_is_wrong_changes_nothing(error: Exception, caplog: pytest.LogCaptureFixture):
    asked = Asked()
    asked.next = error
    await asked.ask()
    assert asked.applied == []
    assert asked.reload.config is BASE
    assert str(error) in caplog.text
    assert ("mend that and send SIGHUP again" in caplog.text) == isinstance(error, ConfigError)
    # It goes on.
    asked.next = replace(BASE, heartbeat=1)
    await asked.ask()
    assert asked.applied == [["heartbeat"]]


async def test_who_asks_while_it_reads_gets_one_more():
    asked = Asked()
    asked.reload.ask()
    asked.reload.ask()  # nothing has begun: these are one
    await asyncio.sleep(0)
    asked.reload.ask()
    assert asked.reload._running is not None
    await asked.reload._running
    assert asked.reads == 2
    await asked.reload.stop()


# ---------------------------------------------------------------- in a real process


class Reloaded:
    """A broker whose configuration changes."""

    def __init__(self, directory: Path, text: str = "") -> None:
        self.file = directory / "leporid.toml"
        self.file.write_text(text)
        self.broker = BrokerProcess(directory / "data", options=["--config", str(self.file)])
        self._connections: list[pika.BlockingConnection] = []

    def write(self, text: str) -> None:
        self.file.write_text(text)

    def reload(self, text: str) -> str:
        """Have a configuration read; returns the line of the log that says so."""
        self.write(text)
        length = len(self.log())
        os.kill(self.broker.pid, signal.SIGHUP)

        def line() -> str:
            lines = self.log()[length:].splitlines()
            said = ("configuration reloaded", "the configuration stays")
            return next((each for each in lines if any(text in each for text in said)), "")

        found: str = self.until(line)
        return found

    def log(self) -> str:
        return self.broker.log_path.read_text()

    @staticmethod
    def until(found: Callable[[], Any]) -> Any:
        deadline = time.monotonic() + PATIENCE_S
        while not (value := found()):
            assert time.monotonic() < deadline, "it did not happen"
            time.sleep(0.01)
        return value

    def connect(self, **parameters: Any) -> pika.BlockingConnection:
        parameters.setdefault("credentials", pika.PlainCredentials("guest", "guest"))
        connection = pika.BlockingConnection(
            pika.ConnectionParameters("127.0.0.1", self.broker.amqp_port, **parameters)
        )
        self._connections.append(connection)
        return connection

    def channel(self) -> Any:
        channel = self.connect().channel()
        channel.confirm_delivery()
        return channel

    def get(self, path: str, **options: Any) -> httpx.Response:
        url = f"http://127.0.0.1:{self.broker.http_port}/{path}"
        return httpx.get(url, auth=("guest", "guest"), trust_env=False, **options)

    def close(self) -> None:
        for connection in self._connections:
            if connection.is_open:
                connection.close()
        self._connections.clear()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reloaded]:
    reloaded = Reloaded(tmp_path_factory.mktemp("reload"))
    with reloaded.broker:
        yield reloaded
        assert reloaded.broker.stop() == 0, reloaded.broker.log_tail()


def refused(do: Callable[[], Any]) -> bool:
    """Whether a channel or connection is closed for it."""
    try:
        do()
    except pika.exceptions.AMQPError:
        return True
    return False


def debug_lines(on: Reloaded) -> bool:
    """Whether the end of a queue that nobody uses is logged."""
    channel = on.channel()
    queue = f"debug-{len(on.log())}"
    channel.queue_declare(queue, arguments={"x-expires": 1})
    on.until(lambda: refused(lambda: on.channel().queue_declare(queue, passive=True)))
    return f"'{queue}' in vhost '/': nobody used it" in on.log()


def json_lines(on: Reloaded) -> bool:
    length = len(on.log())
    refused(lambda: on.channel().queue_declare("none", passive=True))
    line = on.until(lambda: on.log()[length:].rpartition("\n")[0]).splitlines()[-1]
    try:
        fields = json.loads(line)
    except ValueError:
        return False
    assert (fields["level"], fields["user"], fields["vhost"]) == ("info", "guest", "/")
    return True


def tuned(on: Reloaded) -> tuple[int, int]:
    parameters = on.connect()._impl.params
    return parameters.channel_max, parameters.frame_max


def heartbeat(on: Reloaded) -> int:
    proposed: list[int] = []

    def take(_: object, value: int) -> int:
        proposed.append(value)
        return value

    on.connect(heartbeat=take)
    return proposed[0]


def times_out(on: Reloaded) -> Callable[[], bool]:
    """Whether a delivery that was there before the reload is overdue after it."""
    channel = on.channel()
    channel.queue_declare("overdue", auto_delete=True)
    channel.basic_publish("", "overdue", b"x")
    channel.basic_consume("overdue", lambda *_: None)
    channel.connection.process_data_events(0)

    def closed() -> bool:
        def process() -> None:
            channel.connection.process_data_events(0.05)

        on.until(lambda: refused(process) or not channel.is_open)
        return True

    return closed


def group_ends(on: Reloaded) -> Callable[[], bool]:
    """Whether a group without members goes after the reload."""
    channel = on.channel()
    channel.queue_declare("grouped", durable=True, arguments=STREAM)
    channel.basic_qos(prefetch_count=1)
    tag = channel.basic_consume("grouped", lambda *_: None, arguments={"x-group": "g"})
    channel.basic_cancel(tag)

    def groups() -> list[Any]:
        found: list[Any] = on.get("api/groups/%2F/grouped").json()["groups"]
        return found

    assert groups()
    return lambda: bool(on.until(lambda: not groups()))


def alarm(name: str) -> Callable[[Reloaded], bool]:
    return lambda on: f"{name} alarm" in on.get("health").text


def vhost_is_there(on: Reloaded) -> bool:
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError) as error:
        on.connect(virtual_host="shop")
    return "vhost shop not found" not in str(error.value)


def transaction(on: Reloaded) -> bool:
    def commit() -> None:
        channel = on.connect().channel()
        channel.tx_select()
        for _ in range(2):
            channel.basic_publish("amq.fanout", "", b"x")
        channel.tx_commit()

    return refused(commit)


def large_message(on: Reloaded) -> bool:
    return refused(lambda: on.channel().basic_publish("amq.fanout", "", bytes(11)))


def retention_goes_on(on: Reloaded) -> Callable[[], bool]:
    """Whether a stream is cut after the reload although a reader holds it."""
    channel, reading = on.channel(), on.channel()
    limits = {"x-max-length-bytes": 20_000, "x-stream-max-segment-size-bytes": 5_000}
    channel.queue_declare("held", durable=True, arguments=STREAM | limits)
    reading.basic_qos(prefetch_count=1)
    reading.basic_consume("held", lambda *_: None, arguments={"x-stream-offset": "first"})

    def first() -> int:
        channel.basic_publish("", "held", bytes(1000))
        found: int = on.get("api/streams/%2F/held").json()["partitions"][0]["first"]
        return found

    assert [first() for _ in range(60)][-1] == 0
    return lambda: bool(on.until(first))


def second_connection(on: Reloaded) -> bool:
    on.connect()
    return refused(on.connect)


def silent_peer(on: Reloaded) -> Callable[[], bool]:
    peer = socket.create_connection(("127.0.0.1", on.broker.amqp_port), PATIENCE_S)

    def is_closed() -> bool:
        with peer:
            return peer.recv(1) == b""

    return is_closed


def other_host(on: Reloaded) -> bool:
    headers = {"host": "mq.example.org", "accept-language": "en"}
    return on.get("api/policies", headers=headers).status_code != 421


def redeclared(on: Reloaded) -> bool:
    on.channel().queue_declare("twice")
    again = on.channel()
    return not refused(lambda: again.queue_declare("twice", arguments={"x-max-length": 5}))


def unknown_argument(on: Reloaded) -> bool:
    channel = on.channel()
    return refused(lambda: channel.queue_declare("odd", arguments={"x-odd": 1}, auto_delete=True))


def governed(on: Reloaded) -> bool:
    channel = on.channel()
    channel.queue_declare("governed")
    for _ in range(3):
        channel.basic_publish("", "governed", b"x")
    count: int = channel.queue_declare("governed", passive=True).method.message_count
    channel.queue_purge("governed")
    return count == 1


POLICY = """
[[{}]]
name = "one"
pattern = "^governed$"
definition = {{ max-length = 1 }}
"""

# By key: what the file says before and after the reload, and what differs. A function that is
# called before the reload, and returns another one, prepares something that has to outlive it.
PROBES: dict[str, tuple[str, str, Callable[[Reloaded], Any], Any, Any]] = {
    "log_level": ("", 'log_level = "debug"', debug_lines, False, True),
    "log_format": ("", 'log_format = "json"', json_lines, False, True),
    "heartbeat": ("", "heartbeat = 7", heartbeat, 60, 7),
    "frame_max": ("", "frame_max = 8192", tuned, (2047, 131072), (2047, 8192)),
    "channel_max": ("", "channel_max = 10", tuned, (2047, 131072), (10, 131072)),
    "consumer_timeout_ms": ("", "consumer_timeout_ms = 1", times_out, None, True),
    "group_expires_ms": ("", "group_expires_ms = 1", group_ends, None, True),
    "memory_watermark": ("", 'memory_watermark = "1 MiB"', alarm("memory"), False, True),
    "disk_free_min": ("", 'disk_free_min = "100000 TiB"', alarm("disk"), False, True),
    "vhosts": ("", 'vhosts = ["shop"]', vhost_is_there, False, True),
    "limits.transaction_entries_max": (
        "",
        "limits.transaction_entries_max = 1",
        transaction,
        False,
        True,
    ),
    "limits.message_bytes_max": ("", "limits.message_bytes_max = 10", large_message, False, True),
    "limits.reader_hold_percent": (
        "limits.reader_hold_percent = 0",
        "limits.reader_hold_percent = 1",
        retention_goes_on,
        None,
        True,
    ),
    "limits.connections_max": ("", "limits.connections_max = 1", second_connection, False, True),
    "limits.handshake_seconds": (
        "limits.handshake_seconds = 3600",
        "limits.handshake_seconds = 1",
        silent_peer,
        None,
        True,
    ),
    "http.hosts": ("", 'http.hosts = ["mq.example.org"]', other_host, False, True),
    "redeclare": ("", 'redeclare = "warn"', redeclared, False, True),
    "redeclare_by_vhost": ("", 'redeclare_by_vhost = { "/" = "warn" }', redeclared, False, True),
    "unknown_arguments": ("", 'unknown_arguments = "refuse"', unknown_argument, False, True),
    "unknown_arguments_by_vhost": (
        "",
        'unknown_arguments_by_vhost = { "/" = "refuse" }',
        unknown_argument,
        False,
        True,
    ),
    "policies": ("", POLICY.format("policies"), governed, False, True),
    "operator_policies": ("", POLICY.format("operator_policies"), governed, False, True),
}


ASKED: Final = {
    "auth.cache_seconds": "cache_seconds = 3600",
    "auth_http.user_path": "user",
    "auth_http.vhost_path": "vhost",
    "auth_http.resource_path": "resource",
    "auth_http.topic_path": "topic",
    "auth_http.http_method": "get",
}
"""Of a server that decides about users, which a broker must have from its start."""


def test_each_live_setting_is_tried():
    assert PROBES.keys() | ASKED.keys() == LIVE


def deciding(decider: Decider, **other: str) -> str:
    """Return the configuration of a broker that asks a server."""
    keys = ("user", "vhost", "resource", "topic")
    paths = (f'{key}_path = "{decider.url}/{other.get(key, key)}"' for key in keys)
    return "\n".join(
        [
            "[auth]",
            'backends = ["http"]',
            f"cache_seconds = {other.get('cache_seconds', 1)}",
            "[auth_http]",
            f'http_method = "{other.get("http_method", "post")}"',
            *paths,
            "",
        ]
    )


@slow
def test_what_a_server_is_asked_changes(tmp_path: Path):
    decider = Decider()
    running = Reloaded(tmp_path, deciding(decider))
    with contextlib.closing(decider), running.broker:

        def publish(name: str) -> list[tuple[str, str]]:
            """Return how and where the server was asked about somebody who publishes."""
            decider.asked.clear()
            credentials = pika.PlainCredentials(name, "right +ü")
            channel = running.connect(credentials=credentials).channel()
            channel.confirm_delivery()
            channel.basic_publish("amq.topic", "k", b"")
            running.close()
            return [(method, path) for method, path, _ in decider.asked]

        before = [("POST", path) for path in ("/user", "/vhost", "/resource", "/topic")]
        assert publish("a") == before
        for key in ("user", "vhost", "resource", "topic"):
            line = running.reload(deciding(decider, **{key: "other"}))
            assert f"auth_http.{key}_path" in line
            there = [
                ("POST", "/other") if path == f"/{key}" else (how, path) for how, path in before
            ]
            assert publish(f"b {key}") == there
        line = running.reload(deciding(decider, http_method="get"))
        assert "auth_http.http_method" in line
        assert publish("c") == [("GET", path) for _, path in before]
        line = running.reload(deciding(decider, cache_seconds="3600"))
        assert "auth.cache_seconds" in line
        assert publish("d") == before
        assert publish("d") == []
        # What needs a restart is named.
        running.reload(deciding(decider).replace('["http"]', '["internal"]'))
        running.until(lambda: "change with a restart: auth.backends" in running.log())


@slow
@pytest.mark.parametrize("key", PROBES)
def test_a_live_setting_takes_effect(key: str, running: Reloaded):
    before, after, probe, was, becomes = PROBES[key]
    running.reload(before)
    found = probe(running)
    if was is not None:
        assert found == was
        running.close()
    line = running.reload(after)
    assert "stays" not in line
    assert key in line
    assert (probe(running) if was is not None else found()) == becomes
    running.close()
    # And back again.
    assert key in running.reload(before)
    if was is not None and key != "vhosts":
        assert probe(running) == was
    running.close()


@slow
def test_a_file_with_a_mistake_changes_nothing(running: Reloaded):
    running.reload("heartbeat = 20")
    line = running.reload("heartbeat = 30\nframe_max = 1\n")
    assert "the configuration stays as it was: " in line
    assert "leporid.toml:2: frame_max = 1: must be" in line
    assert heartbeat(running) == 20
    running.close()
    running.reload("")


@slow
def test_a_setting_that_needs_a_restart_is_named_and_stays(running: Reloaded):
    length = len(running.log())
    running.reload('durability = "written"\n[users.ann]\npassword = "x"\n')
    said = r"these settings change with a restart: durability \(/.*:1\), users \(/.*:2\)"
    running.until(lambda: re.search(said, running.log()[length:]))
    running.connect()  # as guest, who is not among the users of the file
    running.close()
    running.reload("")


@slow
def test_where_changed_settings_come_from_is_said(running: Reloaded):
    folder = running.file.with_name("conf.d")
    folder.mkdir()
    other = folder / "10-limits.toml"
    other.write_text("[limits]\nhandshake_seconds = 3\n")
    line = running.reload("heartbeat = 20\n[limits]\nconnections_max = 9\n")
    assert line.endswith(
        f"changed: heartbeat ({running.file}:1), limits.connections_max ({running.file}:3), "
        f"limits.handshake_seconds ({other}:2)"
    )
    other.unlink()
    folder.rmdir()
    line = running.reload("[limits]\nconnections_max = 9\n")
    assert line.endswith("changed: heartbeat (default), limits.handshake_seconds (default)")
    running.reload("")


@slow
def test_certificates_that_a_restart_could_not_use_change_nothing(tmp_path: Path):
    pair = make_files(tmp_path).issue("localhost", "server")

    def text(heartbeat: int, key: Path) -> str:
        return f"heartbeat = {heartbeat}\n" + configured(replace(pair, key=key))

    running = Reloaded(tmp_path, text(10, pair.key))
    with running.broker:
        line = running.reload(text(20, tmp_path / "none.pem"))
        said = f"leporid.toml:6: tls.key: {tmp_path / 'none.pem'}: cannot be read: No such file"
        assert "the configuration stays as it was: " in line
        assert said in line
        assert heartbeat(running) == 10
        # The same if a file is gone that was there.
        pair.certificate.rename(tmp_path / "elsewhere.pem")
        line = running.reload(text(20, pair.key))
        said = f"leporid.toml:5: tls.certificate: {pair.certificate}: cannot be read: No such file"
        assert said in line
        running.close()


def test_the_files_that_were_read_are_told(running: Reloaded):
    def told() -> list[str]:
        (node,) = running.get("api/nodes").json()
        return [str(each) for each in node["config_files"]]

    running.reload("")
    assert told() == [str(running.file)]
    more = running.file.parent / "conf.d" / "more.toml"
    more.parent.mkdir()
    try:
        more.write_text("wrong = 1\n")
        assert "the configuration stays" in running.reload("")
        assert told() == [str(running.file)]
        more.write_text("")
        assert "configuration reloaded" in running.reload("")
        assert told() == [str(running.file), str(more)]
    finally:
        shutil.rmtree(more.parent)
