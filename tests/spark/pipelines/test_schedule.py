"""Tasks as messages, on a real Spark."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

pytest.importorskip("pyspark")

from leporid.spark.errors import OptionError
from leporid.spark.pipelines.origin import Origin
from leporid.spark.pipelines.publishing import Numbered
from leporid.spark.pipelines.schedule import Ledger, Schedule

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(300)]

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Made:
    """Makes schedules over a list of tasks, which tests append to."""

    def __init__(self, spark, broker, ledger):
        self.tasks: list[tuple[Any, ...]] = []
        self._spark, self._broker, self._ledger = spark, broker, ledger

    def frame(self, spark):
        return spark.createDataFrame(self.tasks, "id bigint, execute_at timestamp, body string")

    def __call__(self, **more: Any) -> Schedule:
        client = Origin("", {"url": self._broker.url}).client
        return Schedule(
            self.frame, client, Ledger(self._ledger), "tasks", spark=self._spark, **more
        )


@pytest.fixture
def made(spark, broker, tmp_path):
    broker.make("work")
    broker.bindings["tasks"] = "work"
    return Made(spark, broker, tmp_path / "ledger")


def task(number, minutes=0):
    return (number, NOON + timedelta(minutes=minutes), f"task {number}")


def bodies(broker):
    return broker.streams["work"][0].rows.column("body").to_pylist()


def drain(run):
    rows = 0
    while True:
        step = run.step()
        rows += step.rows
        if not step.lag:
            return rows


def test_each_task_is_published_once_with_its_time(made, broker):
    made.tasks += [task(2, 5), task(1)]
    assert drain(made()) == 2
    sent = broker.posted[-1][2].to_pylist()
    assert [(row["body"], row["deliver_at"]) for row in sent] == [
        ("task 1", NOON),
        ("task 2", NOON + timedelta(minutes=5)),
    ]
    assert drain(made()) == 0
    # A task that comes later may have a smaller id, and an earlier time.
    made.tasks += [task(0, -5), task(2, 5)]
    assert drain(made()) == 1
    assert bodies(broker) == [b"task 1", b"task 2", b"task 0"]


def test_batches_follow_one_another(made, broker):
    made.tasks += [task(number, number) for number in range(10)]
    assert drain(made(batch_rows=4)) == 10
    assert bodies(broker) == [b"task %d" % number for number in range(10)]


def test_killed_before_publishing_the_plan_is_published(made, broker, monkeypatch):
    made.tasks += [task(1), task(2)]

    def killed(self, rows, sequence):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Numbered, "publish", killed)
        with pytest.raises(KeyboardInterrupt):
            made().step()
    # Changed meanwhile: what was planned goes as it was planned.
    made.tasks[0] = (1, NOON, "changed")
    assert drain(made()) == 2
    assert bodies(broker) == [b"task 1", b"task 2"]


def test_killed_after_publishing_nothing_comes_twice(made, broker, monkeypatch):
    made.tasks += [task(1), task(2)]

    def killed(self, number, rows):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "done", killed)
        with pytest.raises(KeyboardInterrupt):
            made().step()
    step = made().step()
    assert step.note == "2 were there already"
    assert drain(made()) == 0
    assert bodies(broker) == [b"task 1", b"task 2"]


def test_beyond_the_horizon_tasks_wait(made):
    made.tasks += [task(1, 5), task(2, 500)]
    run = made(horizon_seconds=3600, now=lambda: NOON)
    assert drain(run) == 1
    run.now = lambda: NOON + timedelta(minutes=480)
    assert drain(run) == 1


def test_a_task_without_a_time_is_left(made):
    made.tasks += [(1, None, "never"), task(2)]
    assert drain(made()) == 1


def test_a_missing_column_is_named(made, spark):
    run = made()
    run.tasks = lambda spark: spark.range(3)
    with pytest.raises(OptionError, match="'execute_at', 'body'"):
        run.step()
