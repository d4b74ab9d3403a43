"""Queries on a Spark cluster of several processes, which are killed: the results are exact.

Kills come at the worst of moments: tasks wait at a gate after they have handed on some of their
rows, so whatever is killed then has done a part of its work. How many rows these are, and which of
the workers is killed, depends on `LEPORID_TEST_SEED`.
"""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pyarrow as pa
import pytest
from tests.spark.cluster import SPARK_CLASS, WORKERS, Cluster, Gate

from leporid.spark import options
from leporid.spark.http import Client
from leporid.testing import BrokerProcess, reserve_port

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(
        not SPARK_CLASS.exists(), reason="this pyspark has no spark-class to start a cluster with"
    ),
]

STREAMS = ("north", "south")
ROWS = 80_000
# Of a micro-batch.
BATCH_ROWS = 40_000
# Of Arrow's batches, of which a task has 40, or 20 in a micro-batch. After fewer than 8 of a copy
# nothing may have been written: Spark and the writer gather some.
BATCHES_READ = (1, 38)
BATCHES_COPIED = (8, 18)
NUMBERS_SUM = ROWS * (ROWS - 1) // 2
QUERY_SECONDS = 150
WRITE_MS = 20_000


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


class World:
    """A cluster, a broker with rows in two streams, and a stream for what becomes of them."""

    def __init__(
        self, cluster: Cluster, broker: BrokerProcess, folder: Path, choose: random.Random
    ) -> None:
        self.cluster, self.broker, self.folder, self.choose = cluster, broker, folder, choose
        self.running = False
        self.url = f"http://127.0.0.1:{broker.http_port}"
        self.client = Client(options.connection({"url": self.url}, {}))
        with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
            channel = connection.channel()
            for name in (*STREAMS, "out"):
                channel.queue_declare(name, durable=True, arguments={"x-queue-type": "stream"})
        for at, name in enumerate(STREAMS):
            self.client.publish("amq.default", table(name, range(at, ROWS, len(STREAMS))))

    def start(self, query: str, gate: Gate | None = None, **trigger: Any) -> None:
        """Start a query."""
        self.running = True
        before = self.choose.randint(*(BATCHES_READ if query == "read" else BATCHES_COPIED))
        self.cluster.driver.tell(
            query=query,
            gate=gate and (gate.port, before),
            source={
                "url": self.url,
                "streams": ",".join(STREAMS),
                "startingOffsets": "earliest",
                "maxOffsetsPerTrigger": str(BATCH_ROWS),
            },
            sink={
                "url": self.url,
                "exchange": "amq.default",
                "requestRows": "500",
                "checkpointLocation": str(self.folder / "checkpoint"),
            },
            trigger=trigger or {"availableNow": True},
        )

    def result(self) -> str:
        """Return what the query says at its end."""
        said = self.cluster.driver.wait_for("^result (.*)", QUERY_SECONDS)[1]
        self.running = False
        return said

    def half_written(self, before: int = 0) -> None:
        """Return when rows of each stream are in the stream `out`; those of each are one task's.

        Args:
            before: how many are there already.
        """
        seen = before
        while len({number % len(STREAMS) for number in self.copied()[before:]}) < len(STREAMS):
            (facts,) = self.client.info("out", {0: seen}, WRITE_MS)["partitions"]
            assert facts["end"] > seen, f"nothing more was written in {WRITE_MS} ms"
            seen = facts["end"]
        assert len(self.copied()) < ROWS

    def copied(self) -> list[int]:
        """The numbers of the rows in the stream `out`."""
        with (
            self.client.records("out", {"columns": "body"}) as body,
            pa.ipc.open_stream(body) as stream,
        ):
            found = stream.read_all().column("body").to_pylist()
        return [int(text.removeprefix(b"row ")) for text in found]

    def check_copies(self) -> None:
        """Every row is in the stream `out`, once."""
        assert sorted(self.copied()) == list(range(ROWS))


def table(key: str, numbers: range) -> bytes:
    """An Arrow stream of messages with these numbers."""
    rows = pa.table(
        {"routing_key": [key] * len(numbers), "body": [b"%d" % number for number in numbers]}
    )
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return sink.getvalue()


@pytest.fixture
def world(workers: Cluster, tmp_path: Path, choose: random.Random) -> Iterator[World]:
    workers.complete()
    port = reserve_port()
    with BrokerProcess(tmp_path / "data", options=["--http-port", str(port)]) as broker:
        world = World(workers, broker, tmp_path, choose)
        yield world
        world.client.close()
        if world.running:
            # The test has failed; the next one shall not wait for its query.
            workers.kill_driver()


@pytest.fixture
def gate() -> Iterator[Gate]:
    with Gate() as gate:
        yield gate


def kill_worker(world: World) -> None:
    world.cluster.kill_worker(world.choose.randrange(WORKERS))


def kill_broker(world: World) -> None:
    world.broker.kill()
    world.broker.start()


@pytest.mark.parametrize("kill", [kill_worker, kill_broker])
def test_a_batch_counts_every_row_once_though_one_of_them_is_killed(world, gate, kill):
    world.start("read", gate)
    gate.wait_for(WORKERS)
    kill(world)
    gate.open()
    assert [int(word) for word in world.result().split()] == [ROWS, ROWS, NUMBERS_SUM]


@pytest.mark.parametrize("kill", [kill_worker, kill_broker])
def test_a_streaming_query_writes_every_row_once_though_one_of_them_is_killed(world, gate, kill):
    world.start("copy", gate)
    gate.wait_for(WORKERS)
    world.half_written()
    kill(world)
    gate.open()
    assert world.result() == "copied"
    world.check_copies()


def test_a_driver_that_is_killed_between_batches_and_in_one_goes_on_where_it_was(world, gate):
    world.start("copy", processingTime="1 hour")
    world.cluster.driver.wait_for("^batch 0", QUERY_SECONDS)
    # It waits for the time of its second batch.
    world.cluster.kill_driver()
    world.half_written()
    before = len(world.copied())

    world.start("copy", gate)
    gate.wait_for(WORKERS)
    world.half_written(before)
    # It is in the middle of its second batch, which is done again.
    world.cluster.kill_driver()
    assert len(world.copied()) < before + BATCH_ROWS

    world.start("copy")
    assert world.result() == "copied"
    world.check_copies()
