"""`leporid pipeline run schedule` against a real broker: tasks come at their time, and once."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pika
import pytest

pytest.importorskip("pyspark")

from leporid.cli.main import main
from leporid.testing import BrokerProcess, reserve_port

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(300)]

# The pipeline runs twice before.
AHEAD_SECONDS = 15
SECONDS = 120.0


@pytest.fixture
def real_broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    http_port = reserve_port()
    with BrokerProcess(
        tmp_path / "data", amqp_port=reserve_port(), options=["--http-port", str(http_port)]
    ) as process:
        yield process


def test_tasks_come_at_their_time_and_once(
    real_broker: BrokerProcess,
    spark: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    choose: random.Random,
):
    with pika.BlockingConnection(pika.URLParameters(real_broker.url)) as connection:
        connection.channel().queue_declare("work", durable=True)
    due = datetime.now(UTC) + timedelta(seconds=AHEAD_SECONDS)
    tasks = tmp_path / "tasks.csv"
    moments = {"later": due + timedelta(seconds=1), "soon": due, "past": due - timedelta(days=1)}
    lines = [f"{name},{moment.isoformat()}" for name, moment in moments.items()]
    tasks.write_text("\n".join(["nr,at", *lines]) + "\n")
    options = [
        "--url", f"http://127.0.0.1:{real_broker.http_port}",
        "--tasks", str(tasks), "--format", "csv", "--ledger", str(tmp_path / "ledger"),
        "--select", "nr as id, at as execute_at, nr as body, 'work' as routing_key",
        "--once",
    ]  # fmt: skip
    # Each run would start Spark, and end it.
    monkeypatch.setattr("leporid.spark.session.session", lambda *_, **__: spark)
    monkeypatch.setattr(type(spark), "stop", lambda _: None)
    killed_after = choose.randrange(2)
    for run in range(2):
        assert main(["pipeline", "run", "schedule", *options]) == 0
        if run == killed_after:
            real_broker.kill()
            real_broker.start()
    came: dict[str, float] = {}
    with pika.BlockingConnection(pika.URLParameters(real_broker.url)) as connection:
        channel = connection.channel()
        deadline = time.monotonic() + SECONDS
        with contextlib.closing(
            channel.consume("work", auto_ack=True, inactivity_timeout=3)
        ) as got:
            for method, _, body in got:
                if method is None and len(came) == len(moments):
                    break
                assert time.monotonic() < deadline, came
                if method is not None:
                    assert body.decode() not in came
                    came[body.decode()] = time.time()
    assert list(came) == ["past", "soon", "later"]
    assert all(at >= moments[name].timestamp() for name, at in came.items())
