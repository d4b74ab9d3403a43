"""The broker process that tests use, driven by shell scripts that play the broker."""

import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from leporid.testing import BrokerError, BrokerProcess, reserve_port
from leporid.testing.process import COMMAND_VARIABLE, default_command

READY = "echo ready amqp=127.0.0.1:1234 http=127.0.0.1:4321 pid=$$"


def play(
    tmp_path: Path, script: str, amqp_port: int = 0, options: Sequence[str] = ()
) -> BrokerProcess:
    """Make a broker process that runs a shell script instead of a broker."""
    command = ["sh", "-c", script]
    return BrokerProcess(tmp_path / "data", amqp_port=amqp_port, options=options, command=command)


def test_addresses_come_from_the_ready_line(tmp_path):
    with play(tmp_path, f"{READY}; exec sleep 60") as broker:
        assert (broker.amqp_port, broker.http_port) == (1234, 4321)
        assert broker.url == "amqp://guest:guest@127.0.0.1:1234/%2F"
        assert f"pid {broker.pid}" in repr(broker)
    assert "not running" in repr(broker)


def test_ports_that_there_are_not_are_0(tmp_path):
    script = "echo ready amqp=127.0.0.1:1234 metrics=127.0.0.1:5678 pid=$$; exec sleep 60"
    with play(tmp_path, script) as broker:
        assert (broker.http_port, broker.metrics_port) == (0, 5678)


def test_options_of_the_command_line(tmp_path):
    script = f'echo "$0 $@" >&2; {READY}; exec sleep 60'
    with play(tmp_path, script, amqp_port=99) as broker:
        ports = "--amqp-port 99 --http-port 0 --metrics-port -1"
        asked = f"--data-dir {tmp_path}/data --bind 127.0.0.1 {ports}"
        assert broker.log_tail().strip() == asked


def test_options_that_are_given_are_not_set_besides(tmp_path):
    script = f'echo "$0 $@" >&2; {READY}; exec sleep 60'
    with play(tmp_path, script, options=["--http-port=99", "--bind", "::1"]) as broker:
        asked = f"--data-dir {tmp_path}/data --amqp-port 0 --metrics-port -1"
        assert broker.log_tail().strip() == f"{asked} --http-port=99 --bind ::1"


def test_a_configuration_is_written_beside_the_data_directory(tmp_path):
    script = f'echo "$@" >&2; {READY}; exec sleep 60'
    command = ["sh", "-c", script]
    with BrokerProcess(tmp_path / "data", config="heartbeat = 7\n", command=command) as broker:
        assert broker.log_tail().split()[-2:] == ["--config", f"{tmp_path}/data.toml"]
    assert (tmp_path / "data.toml").read_text() == "heartbeat = 7\n"


def test_stop_returns_the_exit_code(tmp_path):
    broker = play(tmp_path, f"trap 'exit 7' TERM; {READY}; while :; do :; done")
    broker.start()
    assert broker.stop() == 7
    with pytest.raises(BrokerError, match="not running"):
        broker.stop()


def test_process_that_ignores_sigterm_is_an_error_and_killed(tmp_path):
    broker = play(tmp_path, f"trap '' TERM; {READY}; while :; do :; done")
    broker.start()
    pid = broker.pid
    with pytest.raises(BrokerError, match="still there"):
        broker.stop(seconds=0.1)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_restart_after_kill(tmp_path):
    with play(tmp_path, f"{READY}; exec sleep 60") as broker:
        first = broker.pid
        with pytest.raises(BrokerError, match="running already"):
            broker.start()
        broker.kill()
        broker.start()
        assert broker.pid != first
    broker.close()


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo oh dear >&2; exit 3", "ended with code 3\noh dear"),
        ("echo hello", "not a ready line: 'hello'"),
        ("echo ready amqp=x http=y pid=1", "names process 1"),
        ("exec sleep 60", "no ready line"),
    ],
)
def test_start_fails_with_a_reason(tmp_path, script, why):
    broker = play(tmp_path, script)
    with pytest.raises(BrokerError, match=why):
        broker.start(seconds=0.5)
    assert "not running" in repr(broker)


def test_program_that_is_not_there(tmp_path):
    broker = BrokerProcess(tmp_path / "data", command=[str(tmp_path / "nothing")])
    with pytest.raises(BrokerError, match="cannot run"):
        broker.start()


def test_refused_start(tmp_path):
    code, log = play(tmp_path, "echo in use >&2; exit 1").start_refused()
    assert (code, log) == (1, "in use\n")
    with pytest.raises(BrokerError, match="kept running"):
        play(tmp_path, "exec sleep 60").start_refused(seconds=0.2)


def test_check_needs_a_stopped_broker_of_this_kind(tmp_path):
    with pytest.raises(BrokerError, match="stopped `leporid serve`"):
        play(tmp_path, READY).check()
    tool = tmp_path / "tool"
    tool.write_text('#!/bin/sh\necho "$@"; exit 5\n')
    tool.chmod(0o755)
    broker = BrokerProcess(tmp_path / "data", command=[str(tool), "serve"])
    assert broker.check() == (5, f"check {tmp_path}/data\n")


def test_reserved_port_is_free_and_outside_the_ephemeral_range():
    port = reserve_port()
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert 1024 <= port < first
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", port))


def test_default_command(monkeypatch):
    monkeypatch.delenv(COMMAND_VARIABLE, raising=False)
    assert default_command() == [str(Path(sys.executable).parent / "leporid"), "serve"]
    monkeypatch.setenv(COMMAND_VARIABLE, "other 'with space' serve")
    assert default_command() == ["other", "with space", "serve"]
