"""Spark and a real broker, which is killed while they work: everything arrives, and once."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

from leporid.spark.http import forget_clients
from leporid.testing import BrokerProcess, reserve_port

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROWS = 100_000
KILLS = 3


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    # The port of a broker that comes back is the one that Spark goes on asking.
    http_port = reserve_port()
    with BrokerProcess(
        tmp_path / "data", amqp_port=reserve_port(), options=["--http-port", str(http_port)]
    ) as process:
        yield process
    forget_clients()


def declare(broker: BrokerProcess, *names: str) -> None:
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        for name in names:
            channel.queue_declare(name, durable=True, arguments={"x-queue-type": "stream"})


def publish(broker: BrokerProcess, stream: str, count: int) -> None:
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        for number in range(count):
            channel.basic_publish("", stream, b"%d" % number)
        channel.confirm_delivery()
        channel.basic_publish("", stream, b"last")


def test_every_row_once_through_a_query_whose_broker_is_killed(
    broker: BrokerProcess, spark_session: Any, tmp_path: Path
):
    """Stream, transformation, stream: 100,000 rows, three times kill -9."""
    declare(broker, "in", "out")
    publish(broker, "in", ROWS)
    url = f"http://127.0.0.1:{broker.http_port}"
    source = (
        spark_session.readStream.format("leporid")
        .options(url=url, stream="in", startingOffsets="earliest", maxOffsetsPerTrigger="9000")
        .load()
    )
    changed = source.selectExpr(
        "'out' as routing_key", "cast(concat('row ', cast(body as string)) as binary) as body"
    )
    query = (
        changed.writeStream.format("leporid")
        .options(url=url, exchange="amq.default", checkpointLocation=str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    killed: list[int] = []
    kills = threading.Thread(target=kill_as_it_goes_on, args=(broker, query, killed), daemon=True)
    kills.start()
    assert query.awaitTermination(110)
    kills.join()
    assert len(killed) == KILLS
    found = spark_session.read.format("leporid").options(url=url, stream="out").load()
    bodies = [row[0] for row in found.selectExpr("cast(body as string)").collect()]
    assert len(bodies) == ROWS + 1
    assert set(bodies) == {"row last", *(f"row {number}" for number in range(ROWS))}


def kill_as_it_goes_on(broker: BrokerProcess, query: Any, killed: list[int]) -> None:
    """Each time another batch is done, until it was killed often enough."""
    seen = -1
    for _ in range(KILLS):
        while query.isActive and (progress := query.lastProgress) is None:
            time.sleep(0.01)
        while query.isActive and (progress := query.lastProgress)["batchId"] <= seen:
            time.sleep(0.01)
        if not query.isActive:
            return
        seen = progress["batchId"]
        broker.kill()
        killed.append(seen)
        broker.start()
