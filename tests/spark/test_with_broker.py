"""Spark and a real broker, which is killed while they work: everything arrives, and once."""

from __future__ import annotations

import queue
import random
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
    broker: BrokerProcess, spark_session: Any, tmp_path: Path, choose: random.Random
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
    kills = threading.Thread(target=kill_after_batches, args=(broker, batches, killed, choose))
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
    broker: BrokerProcess,
    batches: queue.SimpleQueue[int],
    killed: list[int],
    choose: random.Random,
) -> None:
    """Some time after one or two more batches are done, until it was killed often enough."""
    never = threading.Event()
    while len(killed) < KILLS:
        try:
            for _ in range(choose.randint(1, 2)):
                done = batches.get(timeout=BATCH_SECONDS)
        except queue.Empty:
            return
        # Somewhere in the next batch.
        never.wait(choose.uniform(0, 0.5))
        broker.kill()
        killed.append(done)
        broker.start()


NAMES = "plain,parts,trimmed,empty"
KEYS = ["a", "b", "c", "d"]


def fill(channel: Any, exchange: str, keys: list[str], numbers: range) -> None:
    for number in numbers:
        channel.basic_publish(exchange, keys[number % len(keys)], b"%d" % number + b" " * 100)


def take(channel: Any, stream: str, count: int) -> list[int]:
    """Acknowledge so many messages as a named reader; then stop."""
    found: list[int] = []
    for method, _, body in channel.consume(
        stream, arguments={"x-reader": "etl"}, inactivity_timeout=10
    ):
        assert method is not None, f"{stream} gave {found} of {count} messages"
        found.append(int(body))
        channel.basic_ack(method.delivery_tag)
        if len(found) == count:
            break
    channel.cancel()
    return found


class NamedQuery:
    """A streaming query over all streams, under the same name."""

    def __init__(self, spark: Any, url: str, folder: Path) -> None:
        self.client = Client(connection_options({"url": url}, {}))
        self._options = {"url": url, "streams": NAMES, "readerName": "etl"}
        self._spark = spark
        self._folder = folder

    def once(self, start: str, *, available_now: bool = False) -> list[tuple[str, int, int]]:
        """Run it from its start or its checkpoint to the end; return what it read."""
        read: list[tuple[str, int, int]] = []

        def keep(batch: Any, _: int) -> None:
            number = "cast(trim(cast(body as string)) as int)"
            read.extend(map(tuple, batch.selectExpr("stream", "partition", number).collect()))

        source = self._spark.readStream.format("leporid").options(**self._options)
        frame = source.option("startingOffsets", start).load()
        sink = frame.writeStream.foreachBatch(keep)
        sink = sink.option("checkpointLocation", str(self._folder / start))
        query = (sink.trigger(availableNow=True) if available_now else sink).start()
        try:
            query.awaitTermination(60) if available_now else query.processAllAvailable()
        finally:
            query.stop()
        return read

    def stored(self) -> dict[tuple[str, int], int]:
        return {
            (name, number): next_offset
            for name in NAMES.split(",")
            for number, next_offset in self.client.reader_positions(name, "etl").items()
        }


def declare_named(broker: BrokerProcess, channel: Any) -> None:
    """One stream, a partitioned one, one whose beginning is gone, and an empty one."""
    declare(broker, "plain", "empty")
    small = {"x-max-length-bytes": 1, "x-stream-max-segment-size-bytes": 4096}
    channel.queue_declare("trimmed", durable=True, arguments={"x-queue-type": "stream", **small})
    url = f"http://127.0.0.1:{broker.http_port}/api/streams/%2F/parts"
    httpx.put(url, json={"partitions": 2}, auth=("guest", "guest")).raise_for_status()
    channel.confirm_delivery()
    fill(channel, "", ["plain"], range(10))
    fill(channel, "parts", KEYS, range(20))
    fill(channel, "", ["trimmed"], range(300))


def test_a_query_and_consumers_of_one_name_go_on_where_the_other_stopped(
    spark_session: Any, tmp_path: Path
):
    options = ["--http-port", str(reserve_port())]
    with (
        BrokerProcess(tmp_path / "data", amqp_port=reserve_port(), options=options) as broker,
        pika.BlockingConnection(pika.URLParameters(broker.url)) as connection,
    ):
        channel = connection.channel()
        channel.basic_qos(prefetch_count=1)
        declare_named(broker, channel)
        query = NamedQuery(spark_session, f"http://127.0.0.1:{broker.http_port}", tmp_path)
        assert query.client.info("trimmed")["partitions"][0]["first"] > 0

        read = query.once("earliest")
        halves = [[row[2] for row in read if row[:2] == ("parts", at)] for at in (0, 1)]
        assert sorted(halves[0] + halves[1]) == list(range(20))
        position = {("plain", 0): 10, ("trimmed", 0): 300, ("empty", 0): 0}
        position |= {("parts", at): len(half) for at, half in enumerate(halves)}
        assert query.stored() == position
        # A restart from the checkpoint; its last batch counts as well.
        fill(channel, "", ["plain"], range(10, 12))
        again = query.once("earliest", available_now=True)
        assert again == [("plain", 0, 10), ("plain", 0, 11)]
        assert query.stored() == position | {("plain", 0): 12}

        # Consumers continue at exactly the next message.
        fill(channel, "", ["plain"], range(12, 15))
        fill(channel, "parts", KEYS, range(20, 40))
        fill(channel, "", ["trimmed"], range(300, 303))
        assert take(channel, "plain", 2) == [12, 13]
        for at, half in enumerate(halves):
            # Each key has its own partition, and the keys come in turns.
            assert take(channel, f"parts-{at}", 1) == [half[0] + 20]
        assert take(channel, "trimmed", 1) == [300]

        # A new query continues after them, and begins at the first message of the empty stream.
        fill(channel, "", ["empty"], range(2))
        read = query.once("stored")
        assert sorted(row for row in read if row[0] != "parts") == [
            ("empty", 0, 0), ("empty", 0, 1), ("plain", 0, 14),
            ("trimmed", 0, 301), ("trimmed", 0, 302),
        ]  # fmt: skip
        assert len([row for row in read if row[0] == "parts"]) == 20 - 2
        fill(channel, "", ["empty"], range(2, 3))
        assert take(channel, "empty", 1) == [2]
        query.client.close()
    forget_clients()
