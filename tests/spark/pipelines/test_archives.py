"""Several streams in one run, and what divides a table: filters, partitions, compaction."""

from dataclasses import replace

import pytest

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")

from deltalake import DeltaTable
from tests.spark.pipelines.stores import committed, ends, files

from leporid.spark.errors import DataLossError, OptionError
from leporid.spark.pipelines.archive import INFER, Archive, Plan
from leporid.spark.pipelines.archives import Archives, Compact, plan_of, reading_of
from leporid.spark.pipelines.iceberg_store import IcebergStore
from leporid.spark.pipelines.origin import Origin
from leporid.spark.pipelines.places import place_of
from leporid.spark.pipelines.store import (
    ConflictError,
    Layout,
    bad_place,
    keep_settings,
    open_store,
)
from leporid.spark.pipelines.table import archived, table

SPARK = (pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(300))


def marked(test):
    for mark in SPARK:
        test = mark(test)
    return test


def several(spark, broker, tmp_path, **which):
    plan = Plan(f"{tmp_path}/{{stream}}")
    return Archives(spark, Origin("", {"url": broker.url}), plan, reading_of(**which))


def offsets(df):
    return sorted(row["offset"] for row in df.select("offset").collect())


@marked
def test_each_stream_that_matches_has_a_table_and_none_keeps_another_from_its_own(
    spark, broker, tmp_path
):
    for name, count in (("orders.eu", 3), ("orders.us", 2), ("letters", 9)):
        broker.make(name)
        broker.append(name, count)
    run = several(spark, broker, tmp_path, pattern=r"orders\..*")
    run.check()
    step = run.step()
    assert (step.rows, step.lag) == (5, 0)
    assert offsets(archived(spark, tmp_path / "orders.eu")[0]) == [0, 1, 2]
    assert not (tmp_path / "letters").exists()
    broker.cut("orders.eu", 3)
    broker.append("orders.eu", 2)
    broker.cut("orders.eu", 4)
    broker.append("orders.us", 1)
    with pytest.raises(DataLossError, match=r"orders\.eu"):
        run.step()
    assert offsets(archived(spark, tmp_path / "orders.us")[0]) == [0, 1, 2]
    assert run.labels["stream"] == r"orders\..*"


def test_several_streams_need_a_place_for_each(broker, tmp_path):
    broker.make("a")
    with pytest.raises(OptionError, match=r"a table of its own: have \{stream\} in"):
        Archives(None, Origin(""), Plan(tmp_path), reading_of("a,b"))
    with pytest.raises(OptionError, match="there is no stream 'b'"):
        several(None, broker, tmp_path, streams="a,b").check()
    assert several(None, broker, tmp_path, pattern="x.*").describe() == [
        "no stream matches 'x.*' yet"
    ]


def test_names_of_streams_become_names_of_places_and_tables(broker, tmp_path):
    layout = Layout(catalog="c", table="lake.{stream}")
    made = plan_of(Plan("s3://b/{stream}/t", "iceberg", layout=layout), "a/b-c")
    assert made.layout is not None
    assert (made.place, made.layout.table) == ("s3://b/a%2Fb-c/t", "lake.a_b_c")
    assert plan_of(Plan("data/{stream}"), "..").place == "data/%2E%2E"
    for name in ("a-b", "a.b"):
        broker.make(name)
    run = several(None, broker, tmp_path, streams="a-b,a.b")
    run.plan = replace(
        run.plan, kind="iceberg", layout=Layout(("date",), "c", "l.{stream}", {"uri": "sqlite://"})
    )
    with pytest.raises(OptionError, match=r"'a\.b' and 'a-b' would share a table"):
        run.describe()


def test_a_table_of_another_stream_is_refused(broker, tmp_path):
    options = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": tmp_path.as_uri()}
    layout = Layout(catalog="c", table="lake.all", options=options)
    store = open_store(tmp_path / "a", "iceberg", layout)
    store.commit(files(store, 0, 3), {}, ends(3))
    broker.make("b")
    plan = Plan(tmp_path / "b", "iceberg", layout=layout)
    run = Archive(None, Origin("b", {"url": broker.url}), plan)
    with pytest.raises(OptionError, match=r"lake.all has records of stream 's': give each stream"):
        run.check()


def test_a_stream_may_be_called_as_the_table_of_what_is_put_aside(broker, tmp_path):
    for name in ("a", "a~dlq"):
        broker.make(name)
    run = several(None, broker, tmp_path, streams="a,a~dlq")
    assert len({tuple(line.split()) for line in run.describe()}) == 5
    run = several(None, broker, tmp_path, streams="a,a~dlq")
    run.plan = replace(run.plan, schema="id bigint")
    with pytest.raises(OptionError, match=r"'a~dlq' and 'a' would share a table: archive one"):
        run.describe()


@marked
def test_only_what_a_filter_lets_through_is_archived_and_read(spark, broker, tmp_path):
    broker.make("s")
    for key in ("eu.1", "us.1", "eu.2", "us.2"):
        broker.append("s", 1, routing_key=key)
    options = {"url": broker.url}
    origin = Origin("s", options, select={"routingKeyPattern": "eu.*"})
    step = Archive(spark, origin, Plan(tmp_path / "a")).step()
    assert (step.rows, step.passed, step.lag) == (2, 4, 0)
    broker.append("s", 1, routing_key="us.3")
    broker.append("s", 1, routing_key="eu.3")
    assert offsets(table(spark, "s", tmp_path / "a", options=options)) == [0, 2, 5]
    with pytest.raises(OptionError, match="made with another filter"):
        Archive(spark, Origin("s", options), Plan(tmp_path / "a"))
    with pytest.raises(OptionError, match="filter"):
        Archive(None, Origin("s", options, select={"filter": "a ="}), Plan(tmp_path / "b")).check()


BODIES = [
    b'{"id": %d, "in": "%s"}' % (number, b"eu" if number % 3 else b"us") for number in range(9)
]
BODIES += [b'{"id": 9}', b"nope"]


@marked
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_a_table_is_divided_by_time_and_fields(spark, broker, tmp_path, kind):
    broker.make("s")
    keys = [None if b"in" not in body else "eu" if b"eu" in body else "us" for body in BODIES]
    broker.append("s", len(BODIES), body=BODIES, routing_key=keys)
    options = {"url": broker.url}
    place = tmp_path / "a"
    by = "value.in" if kind == "delta" else "routing_key"
    layout = Layout(("hour", by, "partition"))
    run = Archive(spark, Origin("s", options), Plan(place, kind, schema=INFER, layout=layout))
    assert run.step().put_aside == 1
    assert len(run.store.state()[0]) == 3
    if kind == "delta":
        delta = DeltaTable(str(place))
        assert delta.metadata().partition_columns == ["hour", "in", "partition_partition"]
        found = delta.to_pyarrow_table(filters=[("in", "=", "us"), ("hour", "=", 0)])
        assert sorted(found.column("offset").to_pylist()) == [0, 3, 6]
        assert set(found.column("partition").to_pylist()) == {0}
    else:
        assert isinstance(run.store, IcebergStore)
        found = run.store.table()
        assert found is not None
        scan = found.scan(row_filter="routing_key == 'us'")
        assert len(list(scan.plan_files())) == 1
        assert sorted(scan.to_arrow().column("offset").to_pylist()) == [0, 3, 6]
    # The archive knows how it is divided, and its readers need not.
    more = [b'{"id": 10, "in": "us"}', b'{"id": 11}']
    broker.append("s", 2, body=more, routing_key=["us", None])
    again = Archive(spark, Origin("s", options), Plan(place, kind, schema=INFER))
    again.step()
    assert again.store.compact(2, 10**8) == 4
    whole = table(spark, "s", place, options=options)
    rows = whole.select("value.id", "partition", "routing_key").collect()
    assert sorted(row.id for row in rows) == list(range(12))
    assert {row.partition for row in rows} == {0}
    assert {row.routing_key for row in rows} == {"eu", "us", None}
    with pytest.raises(OptionError, match="has other partitions"):
        Archive(spark, Origin("s", options), Plan(place, kind, layout=Layout()))


def test_partitions_by_what_is_no_field_are_refused(broker, tmp_path):
    def made(name, schema):
        plan = Plan(tmp_path / "a", schema=schema, layout=Layout((name,)))
        return Archive(None, Origin("s"), plan)

    with pytest.raises(OptionError, match="the bodies' fields are id"):
        made("value.region", "id bigint")
    with pytest.raises(OptionError, match="the bodies' fields are none: there is no schema"):
        made("value.id", None)
    with pytest.raises(OptionError, match="must be one of bigint, boolean, date"):
        made("value.x", "x double")


def test_a_step_is_done_though_merging_is_refused(tmp_path, caplog, monkeypatch):
    run = Archive(None, Origin("s"), Plan(tmp_path / "a", compact_files=1))

    def refused(*limits):
        raise ConflictError("archived to while merging")

    monkeypatch.setattr(run.store, "compact", refused)
    run._tidy(1)
    assert "small files were not merged: archived to while merging" in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_compaction_is_a_pipeline_without_spark(tmp_path, kind):
    for place in (place_of(tmp_path / "a"), bad_place(tmp_path / "a")):
        store = open_store(place, kind)
        keep_settings(place, {"stream": "s", "kind": kind, "schema": "id int"})
        for at in range(3):
            store.commit(files(store, at, 1), ends(at) if at else {}, ends(at + 1))
    run = Compact(Plan(tmp_path / "a", compact_files=2))
    run.check()
    assert run.describe()[0].startswith(f"3 files of {kind} in ")
    step = run.step()
    assert (step.rows, step.lag, step.note) == (6, 0, "1 files now")
    assert committed(open_store(tmp_path / "a", kind)) == [0, 1, 2]
    assert run.step().rows == 0


def test_there_must_be_something_to_compact(tmp_path):
    from leporid.spark.pipelines.store import StoreError

    with pytest.raises(StoreError, match="there is no archive"):
        Compact(Plan(tmp_path / "a")).check()
