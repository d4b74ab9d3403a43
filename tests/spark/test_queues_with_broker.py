"""Spark, queues and a real broker: a browse leaves no trace, a drain loses nothing."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

from leporid.spark import drain as module
from leporid.spark.drain import drain
from leporid.spark.errors import LeaseError, OptionError
from leporid.spark.http import forget_clients
from leporid.testing import BrokerProcess, reserve_port

pytestmark = [pytest.mark.spark, pytest.mark.slow]

COUNT = 500


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    # The ports of a broker that comes back are those that Spark goes on asking.
    options = ["--http-port", str(reserve_port())]
    with BrokerProcess(tmp_path / "data", amqp_port=reserve_port(), options=options) as process:
        yield process
    forget_clients()


@pytest.fixture
def where(broker: BrokerProcess) -> dict[str, str]:
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        channel.queue_declare("work", durable=True)
        for number in range(COUNT - 1):
            channel.basic_publish("", "work", b"%d" % number, pika.BasicProperties(delivery_mode=2))
        channel.confirm_delivery()
        channel.basic_publish(
            "", "work", b"%d" % (COUNT - 1), pika.BasicProperties(delivery_mode=2)
        )
    return {"url": f"http://127.0.0.1:{broker.http_port}"}


def left(broker: BrokerProcess) -> list[tuple[int, bool]]:
    """What a consumer would get: the message and whether it is marked as redelivered."""
    found: list[tuple[int, bool]] = []
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        while True:
            method, _, body = channel.basic_get("work")
            if method is None:
                return found
            found.append((int(body), method.redelivered))


def numbers(folder: Path, spark: Any) -> list[int]:
    return sorted(int(row[0]) for row in spark.read.text(str(folder)).collect())


def test_a_browse_leaves_no_trace(broker: BrokerProcess, where: dict[str, str], spark_session: Any):
    frame = spark_session.read.format("leporid").options(**where, queue="work").load()
    assert frame.schema.names[-2:] == ["redelivered", "state"]
    rows = frame.select("offset", "body", "redelivered", "state").collect()
    assert [(row[0], int(row[1]), row[2], row[3]) for row in rows] == [
        (at, at, False, "ready") for at in range(COUNT)
    ]
    few = spark_session.read.format("leporid").options(**where, queue="work", limit="3")
    assert few.schema("body binary").load().count() == 3
    assert left(broker) == [(at, False) for at in range(COUNT)]


def test_what_is_wrong_shows_at_load(where: dict[str, str], spark_session: Any):
    for given, says in (
        ({"queue": "wrok"}, "no queue 'wrok'"),
        ({"queue": "work", "startingOffsets": "earliest"}, "startingOffsets has no meaning"),
    ):
        with pytest.raises(Exception, match=says):
            spark_session.read.format("leporid").options(**where, **given).load()


def test_a_sink_that_fails_once_loses_nothing(
    broker: BrokerProcess, where: dict[str, str], spark_session: Any, tmp_path: Path
):
    tries = []

    def sink(frame: Any) -> None:
        tries.append(frame)
        if len(tries) == 3:
            raise OSError("no space left on device")
        frame.selectExpr("cast(body as string)").write.mode("append").text(str(tmp_path / "out"))

    def run() -> int:
        return drain(
            spark_session,
            "work",
            sink,
            options={**where, "minPartitions": "2"},
            messages=100,
            schema="body binary",
        )

    with pytest.raises(OSError, match="no space left"):
        run()
    assert numbers(tmp_path / "out", spark_session) == list(range(200))
    assert run() == 300
    assert numbers(tmp_path / "out", spark_session) == list(range(COUNT))
    assert left(broker) == []


def test_a_broker_that_is_killed_while_the_sink_works_has_everything_again(
    broker: BrokerProcess,
    where: dict[str, str],
    spark_session: Any,
    tmp_path: Path,
    choose: random.Random,
):
    before = choose.randrange(COUNT // 100)
    portions = iter(range(COUNT // 100))

    def sink(frame: Any) -> None:
        frame.selectExpr("cast(body as string)").write.mode("append").text(str(tmp_path / "out"))
        if next(portions) == before:
            broker.kill()
            broker.start()

    with pytest.raises(LeaseError, match="they come again"):
        drain(spark_session, "work", sink, options=where, messages=100)
    # The last portion is written, and there once more: at least once.
    assert numbers(tmp_path / "out", spark_session) == list(range(before * 100 + 100))
    assert [number for number, _ in left(broker)] == list(range(before * 100, COUNT))


def test_a_driver_that_dies_gives_its_messages_back_in_time(
    broker: BrokerProcess,
    where: dict[str, str],
    spark_session: Any,
    monkeypatch: pytest.MonkeyPatch,
):
    class Dies(BaseException):
        pass

    def sink(frame: Any) -> None:
        assert frame.count() == 100
        raise Dies

    # A process that is gone releases nothing.
    monkeypatch.setattr(module, "_release", lambda *_: None)
    with pytest.raises(Dies):
        drain(spark_session, "work", sink, options=where, messages=100, ttl="2s")
    with pika.BlockingConnection(pika.URLParameters(broker.url)) as connection:
        channel = connection.channel()
        got: list[int] = []
        channel.basic_consume("work", lambda *message: got.append(int(message[3])))
        while len(got) < COUNT:
            connection.process_data_events(time_limit=10)
    assert sorted(got) == list(range(COUNT))
    assert got[-100:] == list(range(100))


def test_a_queue_is_no_streaming_source(where: dict[str, str], spark_session: Any):
    stream = spark_session.readStream.format("leporid").options(**where, queue="work")
    with pytest.raises(Exception, match="a queue is read as a batch") as caught:
        stream.load().writeStream.format("noop").start().awaitTermination(30)
    assert "leporid.spark.drain" in str(caught.value)
    assert OptionError.__name__ in str(caught.value)
