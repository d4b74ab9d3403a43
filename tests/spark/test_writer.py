"""The writers as Spark calls them, without Spark; the rest is in test_in_spark."""

from datetime import UTC, datetime

import pyarrow as pa
import pyspark
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import Row
from tests.spark.fake import Refusal

from leporid.management.publishing import BODY_BYTES_MAX
from leporid.spark import options, writer
from leporid.spark.errors import BrokerError, OptionError, PublishError
from leporid.spark.schema import publishing
from leporid.spark.writer import (
    BatchWriter,
    Job,
    StreamWriter,
    encoded,
    from_rows,
    gathered,
    identity,
    runs,
)

BODY = {"body": "binary"}


class Context:
    """What Spark tells a task."""

    def __init__(self, partition: int = 0, query: str | None = "q", batch: int | None = 0):
        self.properties = {
            writer.QUERY_PROPERTY: query,
            writer.BATCH_PROPERTY: None if batch is None else str(batch),
        }
        self.partition = partition

    def getLocalProperty(self, key):  # noqa: N802
        return self.properties.get(key)

    def partitionId(self):  # noqa: N802
        return self.partition


@pytest.fixture
def task(monkeypatch):
    def task(**given) -> None:
        context = Context(**given)
        monkeypatch.setattr(pyspark.TaskContext, "get", classmethod(lambda _: context))

    task()
    return task


@pytest.fixture
def make(broker):
    broker.make("orders")
    broker.bindings["e"] = "orders"

    def make(kind=StreamWriter, columns=BODY, **given):
        values = options.check_all({"url": broker.url, "retryTimeout": "2s", **given})
        writing = options.writing(
            values, has_exchange="exchange" in columns, streaming=kind is StreamWriter
        )
        extra = [writing.sequence_column] if writing.sequence_column else []
        schema = publishing(columns, extra)
        return kind(Job(options.connection(values, {}), writing, schema))

    return make


def rows(*bodies: int, **columns) -> pa.RecordBatch:
    body = pa.array([b"%d" % body for body in bodies], pa.binary())
    return pa.RecordBatch.from_pydict({"body": body, **columns})


def stored(broker) -> list[int]:
    return [int(body) for body in broker.streams["orders"][0].rows.column("body").to_pylist()]


def test_a_batch_tried_again_is_published_once(broker, make, task):
    sink = make(exchange="e")
    first = sink.write(iter([rows(*range(10)), rows(*range(10, 15))]))
    again = sink.write(iter([rows(*range(7)), rows(*range(7, 15))]))
    assert (first.rows, first.accepted, first.duplicates) == (15, 15, 0)
    assert (again.rows, again.accepted, again.duplicates) == (15, 0, 15)
    task(batch=1)
    sink.write(iter([rows(15)]))
    assert stored(broker) == list(range(16))


def test_a_task_cut_off_in_the_middle_is_completed_by_the_next_try(broker, make, task):
    sink = make(exchange="e", requestRows="4")

    def dying():
        yield rows(*range(6))
        raise RuntimeError("executor lost")

    with pytest.raises(RuntimeError, match="executor lost"):
        sink.write(dying())
    assert stored(broker) == list(range(6))
    sink.write(iter([rows(*range(6)), rows(*range(6, 10))]))
    assert stored(broker) == list(range(10))


def test_partitions_of_a_batch_do_not_take_each_other_for_duplicates(broker, make, task):
    sink = make(exchange="e")
    for partition in (0, 1):
        task(partition=partition)
        assert sink.write(iter([rows(1, 2)])).accepted == 2


def test_rows_become_the_batches_that_a_newer_spark_would_give():
    """As PySpark 4.0 hands them over: maps as dicts, structs as rows, times in the local zone."""
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    schema = publishing(
        {
            "body": "binary",
            "headers": "map<string,string>",
            "properties": "struct<type:string,timestamp:timestamp>",
            "deliver_at": "timestamp",
        }
    )
    local = noon.astimezone().replace(tzinfo=None)
    row = Row("body", "headers", "properties", "deliver_at")
    inner = Row("type", "timestamp")
    rows = [row(bytearray(b"a"), {"h": "1"}, inner("t", local), local), row(b"b", None, None, None)]
    (batch,) = from_rows(iter(rows), schema)
    assert batch.schema == schema
    assert batch.to_pylist() == [
        {
            "body": b"a",
            "headers": [("h", "1")],
            "properties": {"type": "t", "timestamp": noon},
            "deliver_at": noon,
        },
        {"body": b"b", "headers": None, "properties": None, "deliver_at": None},
    ]
    assert list(from_rows(iter([]), schema)) == []


def test_the_identity_is_query_partition_batch_and_row():
    assert identity(Context(partition=3, query="abc", batch=5)) == ("abc/3", 5 << 32)
    with pytest.raises(PublishError, match="supported version of PySpark"):
        identity(Context(batch=None))
    with pytest.raises(PublishError, match="supported version of PySpark"):
        identity(None)


def test_spark_has_the_properties_that_the_identity_is_made_of():
    assert callable(pyspark.TaskContext.getLocalProperty)


def test_requests_have_the_rows_that_were_said(broker, make, task):
    make(exchange="e", requestRows="4").write(iter([rows(*range(3)), rows(*range(3, 10))]))
    assert [table.num_rows for _, _, table in broker.posted] == [4, 4, 2]
    assert [int(query["sequence"]) for _, query, _ in broker.posted] == [0, 4, 8]


@given(st.lists(st.integers(0, 30), max_size=10), st.integers(1, 20))
def test_gathering_keeps_every_row_in_order(sizes, rows_max):
    ends = [sum(sizes[: at + 1]) for at in range(len(sizes))]
    batches = [rows(*range(end - size, end)) for end, size in zip(ends, sizes, strict=True)]
    pieces = list(gathered(batches, rows_max))
    assert all(0 < piece.num_rows <= rows_max for piece in pieces)
    kept = [int(body) for piece in pieces for body in piece.column("body").to_pylist()]
    assert kept == list(range(sum(sizes)))


def test_large_bodies_make_small_requests():
    batch = pa.RecordBatch.from_pydict({"body": [bytes(3 * 2**20)] * 10})
    assert max(piece.num_rows for piece in gathered([batch], 1000)) == 2


def test_no_request_has_more_than_the_broker_takes_where_rows_differ_in_size():
    # Each fits alone, all of the large ones together do not.
    bodies = [b""] * 10_000 + [bytes(7 * 2**20)] * 6 + [bytes(20 * 2**20)]
    batch = pa.RecordBatch.from_pydict({"body": bodies})
    pieces = list(gathered([batch], 1_000_000))
    assert [body for piece in pieces for body in piece.column("body").to_pylist()] == bodies
    assert all(len(encoded(piece)) < BODY_BYTES_MAX for piece in pieces)


def test_rows_without_a_key_of_their_own_get_the_option(broker, make, task):
    sink = make(columns=BODY | {"routing_key": "string"}, exchange="e", routingKey="k")
    sink.write(iter([rows(1, 2, routing_key=["own", None])]))
    assert broker.posted[0][2].column("routing_key").to_pylist() == ["own", "k"]
    task(batch=1)
    make(exchange="e", routingKey="k").write(iter([rows(3)]))
    assert broker.posted[1][2].column("routing_key").to_pylist() == ["k"]


def test_a_stream_is_written_by_name_or_by_its_exchange(broker, make, task):
    make(stream="orders").write(iter([rows(1)]))
    assert stored(broker) == [1]
    broker.make("parts", partitions=2)
    make(stream="parts", unroutable="ignore").write(iter([rows(1)]))
    assert broker.posted[-1][0] == "parts"
    task(batch=1)
    with pytest.raises(OptionError, match="drop the column 'routing_key'"):
        make(columns=BODY | {"routing_key": "string"}, stream="orders").write(
            iter([rows(1, routing_key=["k"])])
        )


def test_a_wrong_target_is_found_before_a_task_starts(broker, make, task):
    make(exchange="e").job.check()
    make(stream="orders").job.check()
    make(exchange="amq.default", routingKey="orders").job.check()
    broker.queues["jobs"] = []
    make(exchange="amq.default", routingKey="jobs").job.check()
    broker.missing.add("nope")
    with pytest.raises(BrokerError, match=r"404 .*no exchange 'nope'"):
        make(exchange="nope").job.check()
    with pytest.raises(BrokerError, match=r"404 .*no stream nope"):
        make(stream="nope").job.check()
    with pytest.raises(OptionError, match=r"routingKey = 'nope': there is no such queue"):
        make(exchange="amq.default", routingKey="nope").job.check()
    make(exchange="amq.default", routingKey="nope", unroutable="ignore").job.check()
    assert stored(broker) == []


def test_an_exchange_that_only_a_row_names_is_named_with_its_column(broker, make, task):
    broker.missing.add("nope")
    sink = make(columns=BODY | {"exchange": "string"})
    sink.job.check()
    sentence = r"^column 'exchange' has 'nope', and there is no such exchange in vhost '/': declare"
    with pytest.raises(BrokerError, match=sentence) as refused:
        sink.write(iter([rows(1, 2, exchange=["e", "nope"])]))
    assert refused.value.status == 404
    assert stored(broker) == []


def test_an_exchange_of_a_row_that_may_not_be_written_to_is_named(broker, make, task, monkeypatch):
    def refuse(*_):
        reason = "write access to exchange 'e' in vhost '/' refused for user 'guest'"
        raise Refusal(403, "forbidden", reason)

    monkeypatch.setattr(broker, "publish", refuse)
    sink = make(columns=BODY | {"exchange": "string"})
    with pytest.raises(BrokerError, match=r"^column 'exchange' has 'e', .* write access"):
        sink.write(iter([rows(1, 2, exchange=["x", "e"])]))
    with pytest.raises(BrokerError, match=r"^POST"):
        sink.write(iter([rows(1, 2, exchange=["x", "y"])]))


def test_rows_that_go_nowhere_fail_unless_told_otherwise(broker, make, task):
    with pytest.raises(PublishError, match="1 of 1 rows for exchange 'nowhere' went to no queue"):
        make(exchange="nowhere").write(iter([rows(1)]))
    task(query="other")
    assert make(exchange="nowhere", unroutable="ignore").write(iter([rows(1)])).unroutable == 1


def test_a_row_without_a_body_is_named(make, task):
    batch = pa.RecordBatch.from_pydict({"body": [b"x", None]})
    with pytest.raises(PublishError, match="row 3 of the task has no body"):
        make(exchange="e").write(iter([rows(1, 2), batch]))


def test_a_refused_row_fails_the_task(broker, make, task, monkeypatch):
    full = {"rows": 5, "accepted": 3, "duplicates": 0, "unroutable": 0, "refused": 2}
    monkeypatch.setattr(broker, "publish", lambda *_: full)
    with pytest.raises(PublishError, match="refused 2 of 5 rows for exchange 'e'"):
        make(exchange="e").write(iter([rows(*range(5))]))


def test_a_lost_answer_does_not_double_a_streaming_querys_rows(broker, make, task):
    broker.fail("lose", "POST")
    assert make(exchange="e").write(iter([rows(1, 2)])).duplicates == 2
    assert stored(broker) == [1, 2]


# ---------------------------------------------------------------- batches


def test_a_batch_without_numbers_is_published_as_often_as_it_is_tried(broker, make, task):
    sink = make(BatchWriter, exchange="e")
    sink.write(iter([rows(1)]))
    sink.write(iter([rows(1)]))
    assert stored(broker) == [1, 1]
    assert "producer" not in broker.posted[0][1]


def test_a_batch_with_numbers_is_published_once(broker, make, task):
    numbered = {
        "columns": BODY | {"n": "bigint"},
        "exchange": "e",
        "producer": "p",
        "sequenceColumn": "n",
    }
    batches = [rows(1, 2, 3, n=[1, 2, 5]), rows(4, 5, n=[6, 9])]
    assert make(BatchWriter, **numbered).write(iter(batches)).accepted == 5
    assert make(BatchWriter, **numbered).write(iter(batches)).duplicates == 5
    more = [*batches, rows(6, n=[10])]
    assert make(BatchWriter, **numbered).write(iter(more)).accepted == 1
    assert stored(broker) == [1, 2, 3, 4, 5, 6]
    assert "n" not in broker.posted[0][2].schema.names


def test_numbers_must_rise_in_one_partition(make, task):
    numbered = {
        "columns": BODY | {"n": "bigint"},
        "exchange": "e",
        "producer": "p",
        "sequenceColumn": "n",
    }
    with pytest.raises(PublishError, match="does not rise"):
        make(BatchWriter, **numbered).write(iter([rows(1, 2, n=[5, 5])]))
    with pytest.raises(PublishError, match="does not rise"):
        make(BatchWriter, **numbered).write(iter([rows(1, n=[5]), rows(2, n=[4])]))
    with pytest.raises(PublishError, match="has a null"):
        make(BatchWriter, **numbered).write(iter([rows(1, n=pa.array([None], pa.int64()))]))
    task(partition=1)
    with pytest.raises(OptionError, match="repartition\\(1\\)"):
        make(BatchWriter, **numbered).write(iter([rows(1, n=[5])]))


@given(st.lists(st.integers(0, 200), min_size=1, unique=True))
def test_runs_cover_all_rows_and_are_consecutive(numbers):
    numbers.sort()
    found = runs(pa.array(numbers), -1)
    assert [at for start, end in found for at in range(start, end)] == list(range(len(numbers)))
    for start, end in found:
        assert numbers[start:end] == list(range(numbers[start], numbers[start] + end - start))
    starts = [numbers[start] for start, _ in found]
    ends = [numbers[end - 1] for _, end in found]
    assert all(start > end + 1 for start, end in zip(starts[1:], ends, strict=False))
