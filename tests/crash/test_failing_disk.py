"""A disk that fails while the broker runs: what is confirmed is there, and the broker says why."""

import contextlib
import os
import re
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from tests.crash.conftest import foreign

from leporid.load.amqp import BASIC_ACK, Client, Refused, message
from leporid.testing import BrokerProcess

pytestmark = pytest.mark.skipif(foreign, reason="has its own disk fail")

PROGRAM = Path(__file__).with_name("failing_disk.py")
PATIENCE_S = 20.0
QUEUE = "kept"
PERSISTENT = b"\x10\x00\x02"  # properties as they are encoded


class Machine:
    """A broker, and the disk that it has."""

    def __init__(self, directory: Path) -> None:
        self._faults = directory / "faults"
        self.fail()
        command = [sys.executable, str(PROGRAM), str(self._faults), "serve"]
        self.broker = BrokerProcess(directory / "data", command=command)

    def fail(self, *faults: str) -> None:
        """Have these faults from now on, and no others."""
        new = self._faults.with_suffix(".new")
        new.write_text("\n".join(faults))
        new.rename(self._faults)

    def ask(self, method: str, path: str, body: object = None) -> httpx.Response:
        url = f"http://127.0.0.1:{self.broker.http_port}{path}"
        with httpx.Client(auth=("guest", "guest"), trust_env=False, timeout=PATIENCE_S) as client:
            return client.request(method, url, json=body)

    def get(self, path: str) -> httpx.Response:
        return self.ask("GET", path)

    def health(self) -> object:
        return self.get("/health").json()

    def logged(self) -> str:
        return self.broker.log_path.read_text()

    def ended(self) -> int:
        """Wait for the end of the process; returns the exit code."""
        process, self.broker._process = self.broker._process, None
        assert process is not None
        return self.broker._reap(process, PATIENCE_S)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path)
    with machine.broker:
        yield machine


def body(number: int) -> bytes:
    """Make a body so large that a few hundred need a new file of the log."""
    return b"%08d" % number * 12_000


def until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline


def publisher(broker: BrokerProcess) -> Client:
    """Connect, with confirms and the queue."""
    client = Client(broker.url)
    client.select_confirm()
    client.declare_queue(QUEUE, durable=True)
    return client


@pytest.mark.parametrize(
    "fault",
    ["fdatasync EIO", "pwrite EIO", "pwrite EROFS", "posix_fallocate EIO", "posix_fallocate EROFS"],
)
def test_a_disk_that_fails_ends_the_broker_before_it_confirms_anything(
    machine: Machine, fault: str
):
    confirmed = 0
    with publisher(machine.broker) as client, contextlib.suppress(OSError, Refused):
        while True:
            client.publish("", QUEUE, PERSISTENT, body(confirmed))
            confirmed += 1
            if confirmed == 10:
                machine.fail(fault)
    assert machine.ended() == 1
    assert "storage failed, the broker stops: " in machine.logged()
    # Whoever reads this knows where to look.
    assert f"'{machine.broker.data_dir}/log/0000000" in machine.logged()
    machine.fail()
    machine.broker.start()
    with Client(machine.broker.url) as client:
        count = client.declare_queue(QUEUE, passive=True)
        # The one that was not confirmed may be there or not.
        assert count - confirmed in (0, 1)
        for number in range(confirmed):
            got = client.get(QUEUE)
            assert got is not None
            assert got.body == body(number)
    assert machine.broker.stop() == 0


def test_who_changes_something_over_http_is_told_that_the_disk_failed(machine: Machine):
    publisher(machine.broker).close()
    machine.fail("fdatasync EIO")
    message = {
        "properties": {"delivery_mode": 2},
        "routing_key": QUEUE,
        "payload": "m",
        "payload_encoding": "string",
    }
    answer = machine.ask("POST", "/api/exchanges/%2F/amq.default/publish", message)
    assert (answer.status_code, answer.json()["error"]) == (503, "storage-failed")
    assert machine.ended() == 1
    assert "asyncio.exceptions.CancelledError" not in machine.logged()


def test_a_disk_that_hangs_is_said_and_nothing_is_confirmed_meanwhile(machine: Machine):
    with publisher(machine.broker) as client:
        machine.fail("fdatasync hang")
        late = message("", QUEUE, b"late", persistent=True, frame_bytes_max=4096)
        client.sock.sendall(late)
        until(lambda: machine.get("/health").status_code == 503)
        (reason,) = machine.get("/health").json()["reasons"]
        assert reason.startswith("no sync for ")
        until(lambda: "the disk has not finished a sync for" in machine.logged())
        assert not select.select([client.sock], [], [], 0)[0]
        machine.fail()
        client.wait_for(BASIC_ACK)
        until(lambda: machine.get("/health").status_code == 200)
        until(lambda: "the disk has finished its sync" in machine.logged())
    assert machine.broker.stop() == 0


def test_a_disk_that_does_not_tell_what_is_free_has_nothing_free(machine: Machine):
    assert machine.health() == {"status": "ok"}
    machine.fail("statvfs EIO")
    until(lambda: machine.get("/health").status_code == 503)
    assert machine.get("/health").json()["reasons"] == ["disk alarm"]
    assert machine.get("/metrics").status_code == 200
    (node,) = machine.get("/api/nodes").json()
    assert (node["disk_free"], node["disk_free_alarm"]) == (0, True)
    machine.fail()
    until(lambda: machine.health() == {"status": "ok"})
    said = re.findall(r"what is free on the disk (.*): /", machine.logged())
    assert said == ["cannot be told, as if there was none", "can be told again"]


def test_a_file_that_cannot_be_read_through_its_mapping_is_said(machine: Machine):
    os.kill(machine.broker.pid, signal.SIGBUS)
    assert machine.ended() == -signal.SIGBUS
    assert "Fatal Python error: Bus error" in machine.logged()
