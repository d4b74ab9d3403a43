"""What systemd is told, by a socket that stands for it; and the unit that it is given."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from leporid.server.notify import EXTEND_S, ServiceManager
from leporid.testing import BrokerProcess

PATIENCE_S = 20
UNIT = Path(__file__).parents[2] / "packaging" / "systemd" / "leporid.service"


@pytest.fixture
def service_manager(tmp_path: Path) -> Iterator[socket.socket]:
    """The end of systemd."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(str(tmp_path / "notify"))
        heard.settimeout(PATIENCE_S)
        yield heard


def told(service_manager: socket.socket, tmp_path: Path) -> ServiceManager:
    return ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "notify")})


def test_each_state_is_one_datagram(service_manager: socket.socket, tmp_path: Path):
    broker = told(service_manager, tmp_path)
    broker.ready()
    broker.stopping()
    broker.alive()
    broker.reloading()
    heard = [service_manager.recv(1000) for _ in range(4)]
    assert heard[:3] == [b"READY=1", b"STOPPING=1", b"WATCHDOG=1"]
    first, second = heard[3].split(b"\n")
    assert first == b"RELOADING=1"
    assert second.removeprefix(b"MONOTONIC_USEC=").isdigit()


def test_a_start_that_goes_on_is_told_once_a_second(
    service_manager: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    now_s = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now_s)
    broker = told(service_manager, tmp_path)
    for now_s in (1000.0, 1000.5, 1001.0):  # noqa: B007 - the clock reads it
        broker.still_starting()
    broker.ready()
    heard = [service_manager.recv(1000) for _ in range(3)]
    extended = b"EXTEND_TIMEOUT_USEC=%d" % (EXTEND_S * 10**6)
    assert heard == [extended, extended, b"READY=1"]


def test_an_abstract_address():
    name = f"leporid-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind("\0" + name)
        heard.settimeout(PATIENCE_S)
        ServiceManager({"NOTIFY_SOCKET": "@" + name}).ready()
        assert heard.recv(100) == b"READY=1"


def test_without_a_service_manager_nothing_is_said():
    broker = ServiceManager({})
    broker.ready()
    broker.still_starting()
    assert broker.watchdog_seconds is None


def test_a_service_manager_that_is_gone_is_told_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    broker = ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "gone")})
    broker.ready()
    broker.alive()
    (line,) = caplog.messages
    assert line.startswith("cannot tell the service manager READY: ")


@pytest.mark.parametrize(
    ("pid", "usec", "seconds"),
    [
        (None, "30000000", 30.0),
        ("mine", "500000", 0.5),
        ("1", "30000000", None),
        (None, "", None),
        (None, "soon", None),
    ],
)
def test_how_long_the_watchdog_waits(pid: str | None, usec: str, seconds: float | None):
    environment = {"WATCHDOG_USEC": usec}
    if pid is not None:
        environment["WATCHDOG_PID"] = pid.replace("mine", str(os.getpid()))
    assert ServiceManager(environment).watchdog_seconds == seconds


@pytest.mark.slow
def test_the_life_of_a_broker(
    service_manager: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    monkeypatch.setenv("WATCHDOG_USEC", "100000")

    def heard() -> str:
        return service_manager.recv(1000).decode().split("=")[0]

    def next_state() -> str:
        while (state := heard()) == "WATCHDOG":
            pass
        return state

    with BrokerProcess(tmp_path / "data") as broker:
        assert heard() == "EXTEND_TIMEOUT_USEC"
        assert heard() == "READY"
        assert heard() == heard() == "WATCHDOG"
        os.kill(broker.pid, signal.SIGHUP)
        assert next_state() == "RELOADING"
        assert next_state() == "READY"
        # A process that stands still says nothing.
        os.kill(broker.pid, signal.SIGSTOP)
        service_manager.settimeout(0)
        silent = False
        while not silent:
            try:
                heard()
            except BlockingIOError:
                silent = True
        os.kill(broker.pid, signal.SIGCONT)
        service_manager.settimeout(PATIENCE_S)
        assert heard() == "WATCHDOG"
        assert broker.stop() == 0
        assert next_state() == "STOPPING"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
def test_the_unit_is_one(tmp_path: Path):
    # systemd-analyze looks whether the program is there.
    command = f"{Path(sys.executable).with_name('leporid')} "
    text = UNIT.read_text()
    assert "ExecStart=/opt/leporid/bin/leporid " in text
    unit = tmp_path / UNIT.name
    unit.write_text(text.replace("/opt/leporid/bin/leporid ", command))
    verify = ["systemd-analyze", "verify", "--man=no", str(unit)]
    done = subprocess.run(verify, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
