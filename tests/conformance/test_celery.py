"""A real Celery worker process: tasks, ETA, retries, priorities, results and remote control."""

import os
import select
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from celery import Celery, chain, group
from celery.exceptions import TaskRevokedError
from kombu import Connection
from tests.conformance.celery_app import (
    BROKER_VARIABLE,
    LADDER_LEVELS,
    PREFIX_VARIABLE,
    QUORUM_VARIABLE,
    READY_VARIABLE,
    make_app,
)

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SECONDS = 30


class Worker:
    """A worker process, and the application that calls it."""

    def __init__(self, app: Celery, name: str, prefix: str) -> None:
        self.app = app
        self.name = name
        self.prefix = prefix

    def call(self, task: str, *args: object, **options: object):
        """Send one task."""
        return self.app.signature(task, args=args).apply_async(**options)

    def ask(self, command: str) -> object:
        """Ask the worker something by remote control; it answers or the test fails."""
        inspect = self.app.control.inspect([self.name], timeout=SECONDS)
        return getattr(inspect, command)()[self.name]


@contextmanager
def running_worker(url: str, log: Path, *, quorum: bool = False) -> Iterator[Worker]:
    """Run a worker with one process for tasks; ended by SIGTERM, with exit code 0."""
    prefix = f"conf-{uuid.uuid4().hex[:8]}"
    name = f"{prefix}@here"
    ready, tell = os.pipe()
    environment = os.environ | {
        BROKER_VARIABLE: url,
        PREFIX_VARIABLE: prefix,
        READY_VARIABLE: str(tell),
        "PYTHONPATH": str(ROOT),
    }
    if quorum:
        environment[QUORUM_VARIABLE] = "1"
    arguments = ["--concurrency=1", "-E", f"--queues={prefix}-work", f"--hostname={name}"]
    command = [sys.executable, "-m", "celery", "-A", "tests.conformance.celery_app", "worker"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, *arguments],
            cwd=ROOT,
            env=environment,
            stdout=output,
            stderr=output,
            pass_fds=[tell],
        )
    os.close(tell)
    try:
        assert select.select([ready], [], [], SECONDS)[0], log.read_text()
        assert os.read(ready, 6) == b"ready\n", log.read_text()
        with calling(url, prefix, quorum=quorum) as app:
            yield Worker(app, name, prefix)
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == 0, log.read_text()
    finally:
        os.close(ready)
        process.kill()
        process.wait()
        forget(url, prefix)
        if quorum:
            forget_ladder(url)


@contextmanager
def calling(url: str, prefix: str, *, quorum: bool = False) -> Iterator[Celery]:
    """Make an application that calls tasks, and close its connections afterwards."""
    app = make_app(url, prefix, quorum=quorum)
    yield app
    # The broker may be another one by now.
    with suppress(OSError, *app.connection_for_read().connection_errors):
        app.backend.result_consumer.stop()
    app.pool.force_close_all()
    app.close()


def forget(url: str, prefix: str) -> None:
    """Delete what Celery leaves behind on a broker."""
    with Connection(url) as connection:
        channel = connection.default_channel
        for label in ("work", "urgent"):
            channel.queue_delete(f"{prefix}-{label}")
            channel.exchange_delete(f"{prefix}-{label}")
        for exchange in ("events", "control.pidbox"):
            channel.exchange_delete(f"{prefix}-{exchange}")
        channel.exchange_delete(f"reply.{prefix}-control.pidbox")


def forget_ladder(url: str) -> None:
    """Delete Celery's ladder of delays, whose names are the same for all applications."""
    with Connection(url) as connection:
        channel = connection.default_channel
        channel.exchange_delete("celery_delayed_delivery")
        for level in range(LADDER_LEVELS):
            channel.queue_delete(f"celery_delayed_{level}")
            channel.exchange_delete(f"celery_delayed_{level}")


@pytest.fixture(scope="module")
def worker(broker_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """One worker for all tests of this module."""
    with running_worker(broker_url, tmp_path_factory.mktemp("celery") / "log") as worker:
        yield worker


def test_results_come_back(worker):
    results = [worker.call("add", number, number) for number in range(20)]
    assert [result.get(timeout=SECONDS) for result in results] == [2 * n for n in range(20)]


def test_exceptions_come_back(worker):
    with pytest.raises(ValueError, match="as asked"):
        worker.call("fail").get(timeout=SECONDS)


def test_chains_and_groups(worker):
    add = worker.app.signature("add", args=(1, 2))
    more = worker.app.signature("add", args=(10,))
    assert chain(add, more, more, app=worker.app).apply_async().get(timeout=SECONDS) == 23
    both = group([add, add], app=worker.app).apply_async()
    assert both.get(timeout=SECONDS) == [3, 3]


def test_retries(worker):
    assert worker.call("try_again", 3).get(timeout=SECONDS) == 3


def test_eta(worker):
    due = time.time() + 1
    ran = worker.call("now", countdown=1).get(timeout=SECONDS)
    assert due - 0.01 <= ran < due + 10


def test_tasks_for_later_do_not_hold_up_others(worker):
    """A worker raises its prefetch limit by one for each task that it holds for later."""
    later = [worker.call("now", countdown=3600) for _ in range(12)]
    assert worker.call("add", 1, 1).get(timeout=SECONDS) == 2
    assert {each["request"]["id"] for each in worker.ask("scheduled")} == {
        each.id for each in later
    }
    worker.app.control.revoke([each.id for each in later])
    assert worker.call("add", 2, 2).get(timeout=SECONDS) == 4


def test_revoked_task_does_not_run(worker):
    doomed = worker.call("now", countdown=1)
    worker.app.control.revoke(doomed.id, reply=True, timeout=SECONDS, destination=[worker.name])
    assert doomed.id in worker.ask("revoked")
    with pytest.raises(TaskRevokedError):
        doomed.get(timeout=SECONDS)


def test_running_task_is_terminated(worker, tmp_path):
    fifo = tmp_path / "gate"
    os.mkfifo(fifo)
    stuck = worker.call("wait_for", str(fifo))
    with fifo.open("w"):  # returns when the task has opened it too
        stuck.revoke(terminate=True, signal="SIGKILL")
        with pytest.raises(TaskRevokedError):
            stuck.get(timeout=SECONDS)
    assert worker.call("add", 1, 1).get(timeout=SECONDS) == 2


def test_priorities(worker):
    queue = f"{worker.prefix}-urgent"
    order = [0, 9, 3, 9, 5, 1, 10]
    results = [worker.call("take_a_number", queue=queue, priority=each) for each in order]
    worker.app.control.add_consumer(queue, reply=True, destination=[worker.name])
    numbers = [result.get(timeout=SECONDS) for result in results]
    worker.app.control.cancel_consumer(queue, reply=True, destination=[worker.name])
    ran = [priority for _, priority in sorted(zip(numbers, order, strict=True))]
    assert ran == sorted(order, reverse=True)
    first, second = order.index(9), order.index(9, 2)
    assert numbers[first] < numbers[second]


def test_task_of_a_lost_process_is_delivered_again(worker):
    assert worker.call("die_once").get(timeout=SECONDS) == "redelivered"


def test_remote_control(worker):
    ping = worker.app.control.ping(destination=[worker.name], timeout=SECONDS)
    assert ping == [{worker.name: {"ok": "pong"}}]
    assert {"add", "now"} <= set(worker.ask("registered"))
    assert [queue["name"] for queue in worker.ask("active_queues")] == [f"{worker.prefix}-work"]
    assert worker.ask("stats")["broker"]["transport"] == "amqp"
    assert worker.ask("active") == []


def test_events(worker):
    seen: list = []
    with worker.app.connection_for_read() as template:
        receiver = worker.app.events.Receiver(template, handlers={"*": seen.append})
        with receiver.consumer_context() as (connection, _, _):
            result = worker.call("add", 3, 4)
            assert result.get(timeout=SECONDS) == 7
            deadline = time.monotonic() + SECONDS
            while "task-succeeded" not in {each["type"] for each in seen}:
                assert time.monotonic() < deadline
                connection.drain_events(timeout=SECONDS)
    kinds = [each["type"] for each in seen if each.get("uuid") == result.id]
    assert kinds == ["task-received", "task-started", "task-succeeded"]


def test_worker_outlives_a_killed_broker(own_broker, tmp_path):
    with running_worker(own_broker.url, tmp_path / "log") as worker:
        assert worker.call("add", 1, 1).get(timeout=SECONDS) == 2
        own_broker.kill()
        own_broker.start()
        # The caller's application knows nothing of the crash; a new one does not wait for it.
        with calling(own_broker.url, worker.prefix) as app:
            assert app.signature("add", args=(2, 2)).apply_async().get(timeout=SECONDS) == 4


def test_tasks_for_later_wait_in_the_broker(broker_url, tmp_path):
    """Celery's native delayed delivery: the worker is given a task when its time has come."""
    with running_worker(broker_url, tmp_path / "log", quorum=True) as worker:
        sent = time.time()
        delays = [3, 1, 2]
        later = [worker.call("key_and_now", countdown=seconds) for seconds in delays]
        assert worker.call("add", 1, 1).get(timeout=SECONDS) == 2
        assert worker.ask("reserved") == worker.ask("scheduled") == []
        for seconds, result in zip(delays, later, strict=True):
            key, ran = result.get(timeout=SECONDS)
            # Celery sends whole seconds on the ladder, and holds the fraction in the worker.
            digits = f"{seconds - 1:028b}", f"{seconds:028b}"
            assert key in [".".join([*each, f"{worker.prefix}-work"]) for each in digits]
            assert sent + seconds - 0.02 <= ran < sent + seconds + 10
