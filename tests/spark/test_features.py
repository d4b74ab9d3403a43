"""The smallest suite of the data source on a real Spark, for each PySpark that is supported.

`make test` runs it on the newest, `make test-sparks` on older ones; what is missing there is the
same as in the table of docs/spark.md.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.spark.fake import EPOCH_MS, FakeBroker

from leporid.spark import features

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not features.HAS_SOURCES, reason="Spark 3.5 has no data sources in Python"),
]

TABLE = Path(__file__).parents[2] / "docs" / "spark.md"


def test_the_documents_say_what_this_pyspark_has():
    minor = ".".join(features.VERSION.split(".")[:2])
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in TABLE.read_text("utf-8").splitlines()
        if re.match(r"\| (PySpark|3\.5|4\.\d)\b", line)
    ]
    names, (said,) = rows[0][2:], [row[2:] for row in rows if minor in row[0].split(", ")]
    has = dict(zip(names, ("no" not in cell.split()[0].lower() for cell in said), strict=True))
    assert has == {
        "`pushDownFilters`": features.HAS_PUSH_DOWN,
        "limits of a micro-batch": features.HAS_LIMITS,
        "streaming sink": features.HAS_STREAM_ARROW_WRITER,
    }


def test_a_batch_is_read_with_all_its_columns(broker, reading):
    broker.make("orders", partitions=2)
    broker.append("orders", 100, partition=0)
    broker.append("orders", 50, partition=1)
    frame = reading(pushDownFilters="true").load("orders")
    assert frame.where("`offset` between 40 and 60").count() == 31
    row = frame.where("partition = 1 and `offset` = 7").collect()[0].asDict(recursive=True)
    assert (row["stream"], row["body"], row["headers"]) == ("orders", b"7", {"h": "1"})
    assert row["properties"]["content_type"] == "text/plain"
    assert int(row["timestamp"].timestamp() * 1000) == EPOCH_MS + 7
    broker.make("empty")
    assert reading(stream="empty").load().collect() == []


class Copy:
    """A streaming query that copies one stream of the fake broker to another."""

    def __init__(self, spark: Any, broker: FakeBroker, checkpoint: str, **options: str) -> None:
        self.broker, self.checkpoint = broker, checkpoint
        given = {"stream": "orders", "startingOffsets": "earliest", "url": broker.url, **options}
        self.frame = spark.readStream.format("leporid").options(**given).load()

    def writer(self) -> Any:
        rows = self.frame.selectExpr("body", "headers", "properties", "timestamp as deliver_at")
        writer = rows.writeStream.format("leporid").option("checkpointLocation", self.checkpoint)
        return writer.options(stream="out", url=self.broker.url)

    def once(self) -> None:
        query = self.writer().trigger(availableNow=True).start()
        assert query.awaitTermination(120)

    def copied(self) -> list[int]:
        return [int(body) for body in self.broker.streams["out"][0].rows["body"].to_pylist()]


@pytest.fixture
def copy(spark_session, broker, checkpoint):
    broker.make("orders")
    broker.make("out")
    return Copy(spark_session, broker, checkpoint, maxOffsetsPerTrigger="60")


def test_a_query_goes_on_from_its_checkpoint_and_writes_once(broker, copy):
    broker.append("orders", 100)
    copy.once()
    broker.append("orders", 50)
    copy.once()
    # The driver dies before a batch is noted as done. Spark repeats it; one of those that have no
    # limits does nothing else in that run.
    batches = Path(copy.checkpoint, "offsets")
    last = max(int(path.name) for path in batches.glob("[0-9]*"))
    for name in (str(last), f".{last}.crc"):
        Path(copy.checkpoint, "commits", name).unlink()
    broker.append("orders", 7)
    copy.once()
    copy.once()
    assert copy.copied() == list(range(157))
    row = broker.posted[0][2].to_pylist()[7]
    assert row["headers"] == [("h", "1")]
    assert row["properties"]["content_type"] == "text/plain"
    assert row["deliver_at"].timestamp() * 1000 == EPOCH_MS + 7
    files = sorted(batches.glob("[0-9]*"), key=lambda path: int(path.name))
    ends = [json.loads(path.read_text().splitlines()[2]) for path in files]
    expected = [60, 100, 150, 157] if features.HAS_LIMITS else [100, 150, 157]
    assert [end["offsets"]["orders"]["0"] for end in ends] == expected


def test_a_query_that_runs_reads_what_comes(broker, copy, spark_session, checkpoint):
    live = Copy(spark_session, broker, checkpoint, startingOffsets="latest", readerName="live")
    broker.append("orders", 10)
    query = live.writer().start()
    try:
        query.processAllAvailable()
        for count in (5, 1):
            broker.append("orders", count)
            query.processAllAvailable()
    finally:
        query.stop()
    assert live.copied() == list(range(10, 16))
    assert broker.readers["orders", 0, "live"] == 16


def test_what_is_wrong_shows_in_one_sentence(broker, reading, spark_session):
    broker.make("orders")
    with pytest.raises(Exception, match="no stream 'ordres' in vhost '/'; did you mean \"orders\""):
        reading(stream="ordres").load()
    broker.queues["jobs"] = [1]
    source = spark_session.readStream.format("leporid").options(url=broker.url, queue="jobs")
    query = source.load().writeStream.format("noop").start()
    with pytest.raises(Exception, match="a queue is read as a batch") as caught:
        query.awaitTermination(60)
    assert "UnboundLocalError" not in str(caught.value)
