"""The transport of kombu: what it adds to py-amqp's, and Celery tasks that wait in the broker."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import kombu
import pytest
from celery import Celery

import leporid.client.kombu as transport
from leporid.testing import BrokerProcess

SECONDS = 30


def soon(**delay: float) -> datetime:
    return datetime.now(UTC) + timedelta(**delay)


def test_messages_without_an_eta_are_due_at_once():
    assert transport.due(None) is None
    assert transport.due({}) is None
    assert transport.due({"eta": None}) is None


def test_an_eta_is_a_moment_with_its_offset():
    moment = soon(hours=1).replace(microsecond=0)
    expected = round(moment.timestamp() * 1000)
    assert transport.due({"eta": moment.isoformat()}) == expected
    assert transport.due({"eta": moment.replace(tzinfo=None).isoformat()}) == expected


@pytest.mark.parametrize("text", ["tomorrow", "", 17, "2020-02-29T12:00:00+00:00"])
def test_what_is_no_moment_in_the_future_is_due_at_once(text: object):
    assert transport.due({"eta": text}) is None


def test_the_other_scheme_is_tls():
    assert kombu.Connection("leporids://localhost").transport.client.ssl is True
    assert not kombu.Connection("leporid://localhost").transport.client.ssl


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("kombu") / "data") as broker:
        yield broker
        assert broker.stop() == 0, broker.log_tail()


@pytest.fixture
def url(broker: BrokerProcess) -> str:
    return broker.url.replace("amqp://", "leporid://")


@pytest.mark.slow
def test_messages_with_an_eta_wait_in_the_broker(url: str):
    with kombu.Connection(url) as connection:
        queue = connection.SimpleQueue("waits")
        due = soon(seconds=0.5)
        queue.put("later", headers={"eta": due.isoformat()})
        queue.put("now")
        assert queue.get(timeout=SECONDS).payload == "now"
        message = queue.get(timeout=SECONDS)
        assert message.payload == "later"
        assert datetime.now(UTC) >= due.replace(microsecond=0)
        queue.close()


@pytest.mark.slow
def test_delays_can_be_left_to_workers(url: str):
    with kombu.Connection(url, transport_options={"delays": False}) as connection:
        queue = connection.SimpleQueue("comes-at-once")
        queue.put("later", headers={"eta": soon(hours=1).isoformat()})
        assert queue.get(timeout=SECONDS).payload == "later"
        queue.close()


@pytest.mark.slow
def test_publishes_are_confirmed(url: str):
    """A message that no queue takes is returned before `publish` has ended."""
    with kombu.Connection(url) as connection:
        assert connection.default_channel.connection.confirm_publish
        assert not connection.qos_semantics_matches_spec
        returned: list[object] = []
        producer = connection.Producer(on_return=lambda *what: returned.append(what))
        producer.publish("x", routing_key="no-such-queue", mandatory=True)
        if not returned:
            connection.drain_events(timeout=SECONDS)
        assert len(returned) == 1


@pytest.mark.slow
@pytest.mark.parametrize("delays", [True, False], ids=["in-the-broker", "in-the-worker"])
def test_tasks_with_a_countdown_wait(url: str, tmp_path: Path, delays: bool):
    """Celery says of its worker which tasks wait there."""
    queue = f"tasks-{delays}"
    options = {"delays": delays}
    (tmp_path / "tasks.py").write_text(
        "import time\n"
        "import leporid.client.kombu\n"
        "from celery import Celery\n"
        f"app = Celery('tasks', broker={url!r}, backend='rpc://')\n"
        f"app.conf.task_default_queue = {queue!r}\n"
        "@app.task(name='now')\n"
        "def now():\n"
        "    return time.time()\n"
    )
    command = [sys.executable, "-m", "celery", "-A", "tasks", "worker", "--pool=solo"]
    command += ["--without-gossip", "--without-mingle", f"--hostname={queue}@here"]
    with (tmp_path / "log").open("wb") as log:
        worker = subprocess.Popen(
            command, cwd=tmp_path, stdout=log, stderr=log, env={**os.environ, "PYTHONWARNINGS": ""}
        )
    app = Celery("tasks", broker=url, backend="rpc://")
    app.conf.update(task_default_queue=queue, broker_transport_options=options)
    try:
        # The worker has started when it has done something.
        assert app.send_task("now").get(timeout=SECONDS)
        due = time.time() + 2
        result = app.send_task("now", countdown=2)
        waiting = app.control.inspect([f"{queue}@here"], timeout=SECONDS).scheduled()
        assert len(waiting[f"{queue}@here"]) == (0 if delays else 1)
        assert result.get(timeout=SECONDS) >= due - 0.01
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.wait(SECONDS)
        app.backend.result_consumer.stop()
        app.pool.force_close_all()
        app.close()
    assert worker.returncode == 0, (tmp_path / "log").read_text()
