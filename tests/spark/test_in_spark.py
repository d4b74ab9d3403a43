"""The data source in a real Spark session, over the fake broker, which is told to fail.

What every PySpark can do is in test_features.
"""

import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException
from tests.spark.fake import FakeBroker

from leporid.spark.progress import follow

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]

GOLDEN = Path(__file__).parent / "golden"


def bodies(frame: Any) -> list[int]:
    return [int(row.body) for row in frame.select("body").collect()]


def stored(broker: FakeBroker, name: str) -> list[int]:
    return [
        int(body) for part in broker.streams[name] for body in part.rows.column("body").to_pylist()
    ]


class Query:
    """A streaming query from one stream of the fake broker to another."""

    def __init__(self, spark: Any, broker: FakeBroker, checkpoint: str) -> None:
        self.spark, self.broker, self.checkpoint = spark, broker, checkpoint

    def frame(self, **given: str) -> Any:
        options = {"stream": "orders", "startingOffsets": "earliest", "url": self.broker.url}
        return self.spark.readStream.format("leporid").options(**options | given).load()

    def start(self, frame: Any, **given: str) -> Any:
        options = {"stream": "out", "url": self.broker.url, "checkpointLocation": self.checkpoint}
        return frame.writeStream.format("leporid").options(**options | given)

    def once(self, **given: str) -> Any:
        """Run from `orders` to `out` until all is read; returns the query."""
        writer = self.start(self.frame(**given).select("body"))
        query = writer.trigger(availableNow=True).start()
        try:
            query.awaitTermination(120)
        finally:
            query.stop()
        return query


@pytest.fixture
def query(spark_session, broker, checkpoint):
    broker.make("orders")
    broker.make("out")
    return Query(spark_session, broker, checkpoint)


# ---------------------------------------------------------------- batches


def test_a_users_schema_is_all_that_is_fetched(broker, reading):
    broker.make("orders")
    broker.append("orders", 10)
    frame = reading(stream="orders").schema("headers_json string, body binary").load()
    assert frame.collect()[3] == ('{"h":1}', b"3")
    assert broker.count("columns=headers_json%2Cbody&") == 1


def test_predicates_are_correct_with_and_without_push_down(broker, reading, spark_session, capsys):
    broker.make("orders", partitions=2)
    keys = ["a.x", "a.y", "b.x"] * 40
    broker.append("orders", 120, partition=0, routing_key=keys)
    broker.append(
        "orders", 120, partition=1, routing_key=keys, properties={"type": "t", "priority": 3}
    )
    predicates = [
        "`offset` between 30 and 60 and partition = 1",
        "routing_key like 'a.%' and not routing_key = 'a.y'",
        "properties.type = 't' and properties.app_id is null",
        "properties.type is null or routing_key = 'b.x'",
        "properties.type like 't%' and properties.priority > 2 and routing_key like '%.y'",
        "headers['h'] = '1' and not properties.type in ('x', 'y')",
        "timestamp > timestamp'2026-01-01 00:00:00.050' and timestamp <= '2026-01-01 00:00:00.052'",
        "`offset` in (1, 5, 300) and stream = 'orders'",
        "stream = 'other'",
    ]
    plain = [sorted(bodies(reading(stream="orders").load().where(one))) for one in predicates]
    assert all(plain[:-1])
    pushing = reading(stream="orders", pushDownFilters="true")
    # Where Spark pushes nothing down, the option does no harm.
    assert sorted(bodies(pushing.load().where(predicates[0]))) == plain[0]
    spark_session.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        broker.calls.clear()
        assert [sorted(bodies(pushing.load().where(one))) for one in predicates] == plain
        assert broker.count("partition=1&from=30&to=61&") == 1
        pushing.load().where(predicates[0]).explain("formatted")
        assert re.search(r"PushedFilters: \[.*EqualTo\(partition,1\)", capsys.readouterr().out)
        assert broker.count("routing_key_prefix=a.") == 2
        # What has a parameter of its own goes there; the rest is one expression.
        assert broker.count("filter=.*p.type%20STARTSWITH.*p.priority%20%3E%202") == 2
        # Of headers Spark tells a source nothing.
        assert broker.count("filter=.*IN%20%28%27x") == 2
        # A reader without push-down works under this setting as well.
        assert sorted(bodies(reading(stream="orders").load().where(predicates[0]))) == plain[0]
    finally:
        spark_session.conf.set("spark.sql.python.filterPushdown.enabled", "false")


def test_an_expression_leaves_out_what_it_is_not_true_of(broker, reading, spark_session):
    broker.make("orders")
    broker.append("orders", 100, headers_json=[f'{{"n":{at}}}' for at in range(100)])
    frame = reading(stream="orders", filter="n >= 90 AND n <> 95").load()
    assert sorted(bodies(frame)) == [at for at in range(90, 100) if at != 95]
    query = (
        spark_session.readStream.format("leporid")
        .options(url=broker.url, stream="orders", startingOffsets="earliest", filter="n < 3")
        .load()
        .writeStream.format("memory")
        .queryName("filtered")
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(60)
    assert sorted(bodies(spark_session.table("filtered"))) == [0, 1, 2]
    with pytest.raises(AnalysisException, match=r"(?s)option filter: character 4"):
        reading(stream="orders", filter="n >").load()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"stream": "orders", "maxOffsetPerTrigger": "5"}, 'did you mean "maxOffsetsPerTrigger"'),
        ({"stream": "orders", "startingOffsets": "start"}, "must be earliest, latest, stored"),
        ({"stream": "secret"}, "403 access_refused.*user 'guest'"),
    ],
)
def test_what_is_wrong_shows_at_load(broker, reading, given, says):
    broker.make("orders")
    broker.make("secret")
    broker.forbidden.add("secret")
    with pytest.raises(AnalysisException, match=f"(?s){says}"):
        reading(**given).load()


def test_an_unknown_column_is_named(broker, reading):
    broker.make("orders")
    with pytest.raises(PySparkException, match="no column 'bodi'; did you mean \"body\""):
        reading(stream="orders").schema("bodi binary").load().collect()


def test_a_cut_in_the_middle_of_a_fetch_costs_nothing(broker, reading):
    broker.make("orders")
    broker.append("orders", 50_000)
    for cut in (0, 1000, 2_000_000, -1):
        broker.fail("cut", "records", bytes=cut)
    broker.fail("end", "records")
    assert bodies(reading(stream="orders", minPartitions="4").load()) == list(range(50_000))


def test_sql_reads_a_temporary_view(broker, spark_session):
    broker.make("orders")
    broker.append("orders", 10)
    spark_session.sql(
        f"create or replace temporary view orders using leporid "
        f"options (stream 'orders', url '{broker.url}')"
    )
    found = spark_session.sql("select count(*), max(`offset`) from orders where `offset` in (1, 2)")
    assert found.collect() == [(2, 2)]


def test_a_batch_is_written_and_refused_with_reasons(broker, spark_session):
    broker.make("orders")
    broker.bindings["e"] = "orders"
    frame = spark_session.range(1000).selectExpr(
        "cast(id as string) body",
        "concat('k.', id % 3) routing_key",
        "map('n', cast(id as string)) headers",
        "named_struct('type', 't', 'priority', 5) properties",
    )
    sink = frame.write.format("leporid").options(url=broker.url, exchange="e")
    sink.mode("append").save()
    assert sorted(stored(broker, "orders")) == list(range(1000))
    _, _, first = broker.posted[0]
    assert first.schema.names == ["body", "routing_key", "headers", "properties"]
    assert first.to_pylist()[0]["properties"] == {"type": "t", "priority": 5}
    with pytest.raises(PySparkException, match="cannot be overwritten"):
        sink.mode("overwrite").save()
    wrong = frame.withColumnRenamed("routing_key", "key").write.format("leporid")
    with pytest.raises(PySparkException, match="column 'key' cannot be published"):
        wrong.mode("append").options(url=broker.url, exchange="e").save()


@pytest.fixture
def logged(spark_session):
    """What the driver logs from now on, as users see it."""
    log4j = spark_session._jvm.org.apache.logging.log4j
    configuration = log4j.LogManager.getContext(False).getConfiguration()
    text = spark_session._jvm.java.io.StringWriter()
    layout = configuration.getAppender("stderr").getLayout()
    appender = log4j.core.appender.WriterAppender.createAppender(
        layout, None, text, "test", False, True
    )
    appender.start()
    root = configuration.getRootLogger()
    before = root.getLevel()
    root.setLevel(log4j.Level.WARN)
    root.addAppender(appender, None, None)
    log4j.LogManager.getContext(False).updateLoggers()
    yield text.toString
    root.removeAppender("test")
    root.setLevel(before)
    log4j.LogManager.getContext(False).updateLoggers()


def test_a_task_that_is_refused_is_logged_once_and_without_javas_way_to_it(
    broker, spark_session, logged
):
    broker.missing.add("nope")
    frame = spark_session.sql("select 'x' as body, 'nope' as exchange").coalesce(1)
    with pytest.raises(PySparkException, match="column 'exchange' has 'nope', and there is no"):
        frame.write.format("leporid").mode("append").option("url", broker.url).save()
    found = logged()
    assert found.count("column 'exchange' has 'nope'") == 1
    assert "WARN TaskSetManager: Lost task" in found
    assert "\tat " not in found


def test_an_error_of_java_is_logged_with_its_stack(spark_session, logged):
    boom = spark_session._jvm.java.lang.IllegalStateException("boom")
    spark_session._jvm.org.apache.logging.log4j.LogManager.getLogger("a.B").error("it fell", boom)
    first, second, *stack = logged().splitlines()
    assert first.endswith(" ERROR B: it fell")
    assert second == "java.lang.IllegalStateException: boom"
    assert stack
    assert all(line.startswith("\tat ") for line in stack)


def test_a_batch_with_a_column_of_numbers_can_be_repeated(broker, spark_session):
    broker.make("orders")
    frame = spark_session.range(100, 1100).selectExpr("cast(id as string) body", "id * 2 as n")
    sorted_ = frame.repartition(1).sortWithinPartitions("n")
    for _ in range(2):
        sorted_.write.format("leporid").mode("append").options(
            url=broker.url, stream="orders", producer="load-7", sequenceColumn="n"
        ).save()
    assert stored(broker, "orders") == list(range(100, 1100))


# ---------------------------------------------------------------- streaming queries


def test_a_hundred_thousand_messages_arrive_once_through_failures(broker, query):
    """Source, transformation, sink; a cut fetch, a lost confirm and a failed batch between them."""
    broker.append("orders", 100_000)
    broker.fail("cut", "GET .*records", bytes=1_000_000)
    broker.fail("lose", "POST")
    query.once(maxOffsetsPerTrigger="30000", minPartitions="3")
    # The third failure ends the query after a part of a batch is published; it is started again.
    broker.append("orders", 20_000)
    broker.fail("status", "POST", status=500, count=1)
    with pytest.raises(PySparkException, match="500"):
        query.once(minPartitions="3")
    query.once(minPartitions="3")
    found = stored(broker, "out")
    assert len(found) == 120_000
    assert sorted(found) == list(range(120_000))


def test_a_batch_that_is_replayed_after_a_lost_commit_is_told_by_its_identity(broker, query):
    broker.append("orders", 1000)
    query.once(maxOffsetsPerTrigger="600", minPartitions="2")
    assert sorted(stored(broker, "out")) == list(range(1000))
    # The driver died after the sink had everything, before it noted so.
    commits = Path(query.checkpoint, "commits")
    for path in (commits / "1", commits / ".1.crc"):
        path.unlink()
    broker.append("orders", 5)
    query.once(minPartitions="2")
    assert sorted(stored(broker, "out")) == list(range(1005))


def test_available_now_ends_though_producers_go_on(broker, query, spark_session):
    broker.append("orders", 1000)
    frame = query.frame(maxOffsetsPerTrigger="300")
    counts = []

    def count(batch: Any, _: int) -> None:
        counts.append(batch.count())
        broker.append("orders", 500)

    run = frame.writeStream.foreachBatch(count).option("checkpointLocation", query.checkpoint)
    started = run.trigger(availableNow=True).start()
    assert started.awaitTermination(120)
    assert counts == [300, 300, 300, 100]


def test_an_idle_query_leaves_the_broker_alone_and_wakes_up_at_once(
    broker, query, spark_session, tmp_path
):
    broker.append("orders", 10)
    metrics = tmp_path / "queries.prom"
    listener = follow(spark_session, metrics)
    running = query.start(query.frame().select("body")).start()
    try:
        wait_for(lambda: broker.streams["out"][0].end == 10)
        wait_for(lambda: broker.count("beyond") > 2)
        before, started = len(broker.calls), time.monotonic()
        wait_for(lambda: time.monotonic() - started > 4)
        assert (len(broker.calls) - before) / 4 < 5
        appended = time.monotonic()
        broker.append("orders", 1)
        wait_for(lambda: broker.streams["out"][0].end == 11)
        assert time.monotonic() - appended < 5
        wait_for(lambda: running.lastProgress["numInputRows"] == 1)
        source = running.lastProgress["sources"][0]
        assert json.loads(source["latestOffset"])["offsets"] == {"orders": {"0": 11}}
        place = f'{{partition="0",query="{running.id}",stream="orders"}}'
        wait_for(lambda: f"leporid_query_next_offset{place} 11.0" in metrics.read_text())
        assert f"leporid_query_lag_messages{place} 0.0" in metrics.read_text()
    finally:
        running.stop()
        spark_session.streams.removeListener(listener)


def test_a_retention_under_a_checkpoint_decides_by_fail_on_data_loss(broker, query):
    broker.append("orders", 100)
    query.once()
    broker.append("orders", 100)
    broker.cut("orders", 150)
    with pytest.raises(PySparkException, match=r"\[100, 150\) of partition 0 of stream 'orders'"):
        query.once()
    query.once(failOnDataLoss="false")
    assert stored(broker, "out") == [*range(100), *range(150, 200)]


def test_a_logged_range_that_is_gone_decides_as_well(broker, query):
    """The range was planned and logged; the records went before they were read."""
    broker.append("orders", 100)
    query.once()
    for path in (Path(query.checkpoint, "commits", name) for name in ("0", ".0.crc")):
        path.unlink()
    broker.cut("orders", 40)
    with pytest.raises(PySparkException, match=r"\[0, 40\) of partition 0 of stream 'orders'"):
        query.once()
    broker.producers.clear()
    query.once(failOnDataLoss="false")
    assert stored(broker, "out") == [*range(100), *range(40, 100)]


def test_a_stream_made_again_under_a_checkpoint_is_refused(broker, query):
    broker.append("orders", 100)
    query.once()
    broker.make("orders")
    broker.append("orders", 200)
    with pytest.raises(PySparkException, match="deleted and made again"):
        query.once()
    query.once(failOnDataLoss="false")
    assert stored(broker, "out") == [*range(100), *range(200)]
    broker.make("bills")
    with pytest.raises(PySparkException, match="over stream 'orders', and this query reads"):
        query.once(stream="bills", failOnDataLoss="false")


def test_the_first_batch_is_replayed_though_the_query_would_start_elsewhere_now(broker, query):
    """Spark asks for the initial offset again then; `latest` has moved on."""
    broker.append("orders", 100)
    running = query.start(query.frame(startingOffsets="latest").select("body")).start()
    try:
        wait_for(lambda: broker.count("beyond"))
        broker.append("orders", 50)
        wait_for(lambda: broker.streams["out"][0].end == 50)
        wait_for(Path(query.checkpoint, "commits", "0").exists)
    finally:
        running.stop()
    for path in Path(query.checkpoint, "commits").iterdir():
        path.unlink()
    broker.make("out")
    broker.producers.clear()
    broker.append("orders", 25)
    query.once(startingOffsets="latest")
    assert stored(broker, "out") == list(range(100, 175))


def test_rows_with_state_and_a_shuffle_before_them_are_written(broker, query):
    broker.append("orders", 90, routing_key=["a", "b", "c"] * 30)
    keys = query.frame().selectExpr("routing_key as body").dropDuplicates()
    run = query.start(keys).trigger(availableNow=True).start()
    assert run.awaitTermination(120)
    assert sorted(broker.streams["out"][0].rows.column("body").to_pylist()) == [b"a", b"b", b"c"]


# ---------------------------------------------------------------- checkpoints that were written


def golden(broker: FakeBroker, checkpoint: str, version: str) -> None:
    shutil.copytree(GOLDEN / version, checkpoint)
    broker.streams["orders"][0].incarnation = "fake-1-0"
    broker.append("orders", 1000)


@pytest.mark.parametrize("spark", ["", "-4.0", "-3.5"])
def test_a_checkpoint_of_the_first_version_is_gone_on_with(broker, query, spark):
    """It was written after [0, 400) and [400, 700), the second of which was not committed.

    Those with a number were written by that PySpark: 4.0.5, and 3.5.9 by `leporid.spark.legacy`.
    """
    golden(broker, query.checkpoint, f"checkpoint-v1{spark}")
    query.once()
    assert stored(broker, "out") == list(range(400, 1000))
    (producer,) = broker.producers
    assert producer == "11111111-2222-4333-8444-555555555555/0"


def test_a_checkpoint_of_a_newer_version_is_refused(broker, query):
    golden(broker, query.checkpoint, "checkpoint-future")
    with pytest.raises(PySparkException, match="offsets of version 2, and this leporid reads up"):
        query.once()
    assert stored(broker, "out") == []


# ---------------------------------------------------------------- Spark Connect

CONNECT = """
import sys
from leporid.spark.session import session
spark = session("connect", remote="local[1]")
frame = spark.read.format("leporid").options(url=sys.argv[1], stream="orders").load()
assert frame.count() == 100, frame.count()
large = spark.read.format("leporid").options(url=sys.argv[1]).load("large")
assert len(large.limit(3).collect()) == 3
sink = frame.selectExpr("body", "'out' as routing_key").write.format("leporid")
sink.mode("append").options(url=sys.argv[1], exchange="amq.default").save()
live = spark.readStream.format("leporid").options(url=sys.argv[1], startingOffsets="earliest")
counts = live.load("orders").groupBy("routing_key").count().writeStream.outputMode("complete")
query = counts.format("noop").trigger(availableNow=True).start()
assert query.awaitTermination(200)
spark.stop()
"""


@pytest.mark.timeout(400)
def test_it_works_in_a_connect_session(broker, tmp_path):
    """In a process of its own, as one process has one kind of session."""
    broker.make("orders")
    broker.make("out")
    broker.append("orders", 100)
    broker.make("large")
    broker.append("large", 100_000)
    done = subprocess.run(
        [sys.executable, "-c", CONNECT, broker.url],
        cwd=tmp_path, capture_output=True, text=True, timeout=360, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    # Spark closes a worker's connection that has more rows than the limit.
    for noise in ("BrokenPipeError", "Traceback", " WARN ", "UserWarning", "log4j"):
        assert noise not in done.stderr, done.stderr[-3000:]
    assert sorted(stored(broker, "out")) == list(range(100))


def wait_for(condition: Any, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
