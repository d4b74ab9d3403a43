"""Spark and a real broker, which is killed while they work: everything arrives, and once."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pika
import pytest
from tests.spark.progress import Progress

from leporid.spark.http import Client, forget_clients
from leporid.spark.options import connection as connection_options
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


def fill(channel: Any, exchange: str, keys: list[str], numbers: range) -> None:
    for number in numbers:
        channel.basic_publish(exchange, keys[number % len(keys)], b"%d" % number)


def take(channel: Any, stream: str, reader: str, count: int) -> list[int]:
    """Acknowledge so many messages as a named reader; then stop."""
    found: list[int] = []
    for method, _, body in channel.consume(
        stream, arguments={"x-reader": reader}, inactivity_timeout=10
    ):
        assert method is not None, f"{stream} gave {found} of {count} messages"
        found.append(int(body))
        channel.basic_ack(method.delivery_tag)
        if len(found) == count:
            break
    channel.cancel()
    return found


def test_a_query_and_consumers_of_one_name_go_on_where_the_other_stopped(
    spark_session: Any, tmp_path: Path
):
    """One stream, a partitioned one, one whose beginning is gone, and an empty one."""
    options = ["--http-port", str(reserve_port())]
    with (
        BrokerProcess(tmp_path / "data", amqp_port=reserve_port(), options=options) as broker,
        pika.BlockingConnection(pika.URLParameters(broker.url)) as connection,
    ):
        channel = connection.channel()
        channel.basic_qos(prefetch_count=1)
        url = f"http://127.0.0.1:{broker.http_port}"
        client = Client(connection_options({"url": url}, {}))
        small = {"x-max-length-bytes": 1, "x-stream-max-segment-size-bytes": 4096}
        declare(broker, "plain", "empty")
        channel.queue_declare(
            "trimmed", durable=True, arguments={"x-queue-type": "stream", **small}
        )
        httpx.put(
            f"{url}/api/streams/%2F/parts", json={"partitions": 2}, auth=("guest", "guest")
        ).raise_for_status()
        channel.confirm_delivery()
        fill(channel, "", ["plain"], range(10))
        fill(channel, "parts", ["a", "b", "c", "d"], range(20))
        for number in range(300):
            channel.basic_publish("", "trimmed", b"%d" % number + b" " * 100)
        first = client.info("trimmed")["partitions"][0]["first"]
        assert first > 0

        names = "plain,parts,trimmed,empty"
        read: list[tuple[str, int, int]] = []

        def start(**more: str) -> Any:
            given = {"url": url, "streams": names, "readerName": "etl", **more}
            frame = spark_session.readStream.format("leporid").options(**given).load()
            return (
                frame.writeStream.foreachBatch(
                    lambda batch, _: read.extend(
                        tuple(row)
                        for row in batch.selectExpr(
                            "stream", "partition", "cast(trim(cast(body as string)) as int)"
                        ).collect()
                    )
                )
                .option("checkpointLocation", str(tmp_path / more["startingOffsets"]))
                .start()
            )

        def once(**more: str) -> None:
            read.clear()
            query = start(**more)
            try:
                query.processAllAvailable()
            finally:
                query.stop()

        def stored() -> dict[tuple[str, int], int]:
            return {
                (name, number): offset
                for name in names.split(",")
                for number, offset in client.reader_offsets(name, "etl").items()
            }

        once(startingOffsets="earliest")
        halves = {at: [row[2] for row in read if row[:2] == ("parts", at)] for at in (0, 1)}
        assert all(halves.values())
        read_last = {
            ("plain", 0): 9, ("trimmed", 0): 299,
            ("parts", 0): len(halves[0]) - 1, ("parts", 1): len(halves[1]) - 1,
        }  # fmt: skip
        assert stored() == read_last
        # A restart from the checkpoint; its last batch counts as well.
        fill(channel, "", ["plain"], range(10, 12))
        once(startingOffsets="earliest")
        assert read == [("plain", 0, 10), ("plain", 0, 11)]
        assert stored() == read_last | {("plain", 0): 11}

        # Consumers go on at exactly the next message.
        fill(channel, "", ["plain"], range(12, 15))
        fill(channel, "parts", ["a", "b", "c", "d"], range(20, 40))
        fill(channel, "", ["trimmed"], range(300, 303))
        assert take(channel, "plain", "etl", 2) == [12, 13]
        for at in (0, 1):
            (number,) = take(channel, f"parts-{at}", "etl", 1)
            assert number == next(n for n in range(20, 40) if n % 4 in {m % 4 for m in halves[at]})
        assert take(channel, "trimmed", "etl", 1) == [300]

        # And a new query does so after them; of what was empty it begins at the first message.
        fill(channel, "", ["empty"], range(2))
        read.clear()
        once(startingOffsets="stored")
        assert sorted(row for row in read if row[0] != "parts") == [
            ("empty", 0, 0), ("empty", 0, 1), ("plain", 0, 14),
            ("trimmed", 0, 301), ("trimmed", 0, 302),
        ]  # fmt: skip
        assert len([row for row in read if row[0] == "parts"]) == 20 - 2
        fill(channel, "", ["empty"], range(2, 3))
        assert take(channel, "empty", "etl", 1) == [2]
        client.close()
    forget_clients()
