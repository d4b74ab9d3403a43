"""Spark and a real broker, which is killed while they work: everything arrives, and once."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest
from tests.spark.progress import Progress

from leporid.spark.http import forget_clients
from leporid.testing import BrokerProcess, reserve_port

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROWS = 100_000
KILLS = 3
# Long enough for a batch whose broker was killed.
BATCH_SECONDS = 40


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
    batches: queue.SimpleQueue[int] = queue.SimpleQueue()
    listener = Progress(lambda done: batches.put(done.batchId))
    spark_session.streams.addListener(listener)
    killed: list[int] = []
    kills = threading.Thread(target=kill_after_batches, args=(broker, batches, killed))
    try:
        query = (
            changed.writeStream.format("leporid")
            .options(url=url, exchange="amq.default")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        kills.start()
        assert query.awaitTermination(110)
        kills.join()
    finally:
        spark_session.streams.removeListener(listener)
    assert len(killed) == KILLS
    found = spark_session.read.format("leporid").options(url=url, stream="out").load()
    bodies = [row[0] for row in found.selectExpr("cast(body as string)").collect()]
    assert len(bodies) == ROWS + 1
    assert set(bodies) == {"row last", *(f"row {number}" for number in range(ROWS))}


def kill_after_batches(
    broker: BrokerProcess, batches: queue.SimpleQueue[int], killed: list[int]
) -> None:
    """Each time another batch is done, until it was killed often enough."""
    while len(killed) < KILLS:
        try:
            done = batches.get(timeout=BATCH_SECONDS)
        except queue.Empty:
            return
        broker.kill()
        killed.append(done)
        broker.start()
