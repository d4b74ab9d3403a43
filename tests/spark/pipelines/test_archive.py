"""The archive on a real Spark, over the small broker of these tests."""

import contextlib
import io
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")
pytest.importorskip("fastavro")

import fastavro
from deltalake import DeltaTable

from leporid.spark.errors import DataLossError, OptionError
from leporid.spark.pipelines import archive as archive_module
from leporid.spark.pipelines.archive import INFER, Archive, Plan, archive
from leporid.spark.pipelines.bodies.decoder import Body
from leporid.spark.pipelines.files import PARTITIONS_MAX
from leporid.spark.pipelines.origin import Origin
from leporid.spark.pipelines.store import ConflictError, Layout, bad_place, existing, locked
from leporid.spark.pipelines.table import archived, table

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(300)]

KINDS = ["delta", "iceberg"]


def needs(kind):
    if kind == "iceberg":
        pytest.importorskip("pyiceberg")


def offsets(df):
    rows = df.select("partition", "offset").collect()
    return sorted((row.partition, row.offset) for row in rows)


def every(*counts):
    return [(number, at) for number, count in enumerate(counts) for at in range(count)]


def pipeline(spark, broker, place, **plan):
    return Archive(spark, Origin("s", {"url": broker.url}), Plan(place, **plan))


def drain(run):
    rows = 0
    while True:
        step = run.step()
        rows += step.rows
        if not step.lag:
            return rows


@pytest.mark.parametrize("kind", KINDS)
def test_archive_and_stream_are_one_table(spark, broker, tmp_path, kind):
    needs(kind)
    broker.make("s", 2)
    broker.append("s", 500, 0)
    broker.append("s", 300, 1)
    options = {"url": broker.url}
    place = tmp_path / "archive"
    assert archive(spark, "s", place, kind=kind, commit_rows=250, options=options) == 800
    broker.append("s", 20, 0)
    broker.cut("s", 500, 0)
    broker.cut("s", 300, 1)
    whole = table(spark, "s", place, options=options)
    assert offsets(whole) == every(520, 300)
    # What comes later is not in a table that was made before.
    broker.append("s", 5, 1)
    assert archive(spark, "s", place, kind=kind, options=options) == 25
    assert offsets(whole) == every(520, 300)
    again = table(spark, "s", place, options=options)
    assert offsets(again) == every(520, 305)
    row = again.where("partition = 1 and `offset` = 7").first()
    assert bytes(row.body) == b"7"
    assert row.headers == {"h": "1"}
    assert row.properties.content_type == "text/plain"


@pytest.mark.parametrize("kind", KINDS)
def test_compaction_loses_and_doubles_nothing(spark, broker, tmp_path, kind):
    needs(kind)
    broker.make("s")
    broker.append("s", 400)
    run = pipeline(spark, broker, tmp_path / "a", kind=kind, commit_rows=50, compact_files=4)
    drain(run)
    df, ends, _ = archived(spark, tmp_path / "a")
    assert offsets(df) == every(400)
    assert [at.offset for at in ends.values()] == [400]
    assert len(run.store.state()[0]) < 8


@pytest.mark.parametrize("kind", KINDS)
def test_stopped_before_the_commit_the_step_is_done_again(
    spark, broker, tmp_path, kind, monkeypatch
):
    needs(kind)
    broker.make("s")
    broker.append("s", 100)
    run = pipeline(spark, broker, tmp_path / "a", kind=kind)

    def killed(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(run.store, "commit", killed)
        with pytest.raises(KeyboardInterrupt):
            run.step()
    broker.append("s", 10)
    assert drain(pipeline(spark, broker, tmp_path / "a", kind=kind)) == 110
    assert offsets(archived(spark, tmp_path / "a")[0]) == every(110)


JSON = [b'{"id": %d, "name": "n"}' % number for number in range(100)]
SCHEMA = "id bigint, name string"


@pytest.mark.parametrize("kind", KINDS)
def test_bodies_become_columns_and_bad_ones_go_to_a_table_of_their_own(
    spark, broker, tmp_path, kind
):
    needs(kind)
    bodies = [*JSON]
    bodies[3], bodies[5], bodies[8] = b"nope", b'{"id": "text"}', b""
    broker.make("s")
    broker.append("s", 100, body=bodies)
    drain(pipeline(spark, broker, tmp_path / "a", kind=kind, schema=SCHEMA))
    broker.append("s", 2, body=[b'{"id": 100}', b"[]"])
    whole = table(spark, "s", tmp_path / "a", options={"url": broker.url})
    assert sorted(row.id for row in whole.select("value.id").collect()) == [
        number for number in range(101) if number not in {3, 5, 8}
    ]
    bad, _, _ = archived(spark, bad_place(tmp_path / "a"))
    assert bad is not None
    found = {row["offset"]: (row.reason, bytes(row.body)) for row in bad.collect()}
    assert found == {
        3: ("not JSON", b"nope"),
        5: ("does not fit the schema", b'{"id": "text"}'),
        8: ("the body is empty", b""),
    }


@pytest.mark.parametrize("kind", KINDS)
def test_what_does_not_fit_the_schema_is_counted_and_there_for_whoever_asks(
    spark, broker, tmp_path, caplog, kind
):
    needs(kind)
    broker.make("s")
    broker.append("s", 4, body=[JSON[0], b"nope", JSON[1], b"no"])
    drain(pipeline(spark, broker, tmp_path / "a", kind=kind, schema=SCHEMA))
    broker.append("s", 2, body=[b"", JSON[2]])

    def asked(**more):
        return table(spark, "s", tmp_path / "a", options={"url": broker.url}, **more)

    assert asked().count() == 3
    assert f"2 records of the archive {tmp_path / 'a'} do not fit its schema" in caplog.text
    caplog.clear()
    late = "2026-01-01T00:00:00.003Z"
    assert asked(since=late).count() == 1
    assert "1 records of the archive" in caplog.text
    caplog.clear()
    assert "bad_reason" not in asked().columns
    rows = (
        asked(include_bad=True)
        .orderBy("offset")
        .select("offset", "value.id", "bad_reason")
        .collect()
    )
    assert rows == [
        (0, 0, None), (1, None, "not JSON"), (2, 1, None), (3, None, "not JSON"),
        (4, None, "the body is empty"), (5, 2, None),
    ]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_an_archive_may_begin_with_nothing_but_bad_records(spark, broker, tmp_path, kind):
    needs(kind)
    broker.make("s")
    broker.append("s", 2, body=[b"nope", b"no"])
    run = pipeline(spark, broker, tmp_path / "a", kind=kind, schema=SCHEMA)
    assert drain(run) == 2
    assert archived(spark, tmp_path / "a")[0] is None
    broker.append("s", 1, body=[JSON[0]])
    assert drain(run) == 1
    assert offsets(archived(spark, tmp_path / "a")[0]) == [(0, 2)]


def test_too_many_partitions_are_told_and_not_tried_again(spark, broker, tmp_path):
    broker.make("s")
    broker.append("s", PARTITIONS_MAX + 1, routing_key=[f"k{at}" for at in range(501)])
    layout = Layout(("routing_key",))
    run = pipeline(spark, broker, tmp_path / "a", layout=layout, tasks=1)
    # What is no OptionError is tried again, by Spark and by the run.
    told = f"^more than {PARTITIONS_MAX} partitions by routing_key in one task: choose columns"
    with pytest.raises(OptionError, match=told):
        run.step()


def test_stopped_between_the_two_tables_no_bad_record_comes_twice(
    spark, broker, tmp_path, monkeypatch
):
    broker.make("s")
    broker.append("s", 4, body=[JSON[0], b"bad", JSON[1], b"worse"])
    run = pipeline(spark, broker, tmp_path / "a", schema=SCHEMA)

    def killed(*args):
        raise KeyboardInterrupt

    def stop(run):
        with monkeypatch.context() as patch:
            patch.setattr(run.store, "commit", killed)
            with pytest.raises(KeyboardInterrupt):
                run.step()

    stop(run)
    broker.append("s", 2, body=[b"bad again", JSON[2]])
    drain(pipeline(spark, broker, tmp_path / "a"))
    assert offsets(archived(spark, tmp_path / "a")[0]) == [(0, 0), (0, 2), (0, 5)]
    assert offsets(archived(spark, bad_place(tmp_path / "a"))[0]) == [(0, 1), (0, 3), (0, 4)]
    # Who asks for all gets the bad ones of the stream, and not those of the second table as well.
    broker.append("s", 2, body=[b"bad", JSON[3]])
    stop(pipeline(spark, broker, tmp_path / "a"))
    whole = table(spark, "s", tmp_path / "a", options={"url": broker.url}, include_bad=True)
    assert offsets(whole) == [(0, at) for at in range(8)]


def values(df):
    rows = df.orderBy("`offset`").select("value").collect()
    return [row.value.asDict(recursive=True) for row in rows]


def test_new_fields_are_added_to_an_inferred_schema(spark, broker, tmp_path):
    broker.make("s")
    broker.append("s", 1, body=[b'{"id": 1, "in": {"a": 1}}'])
    drain(pipeline(spark, broker, tmp_path / "a", schema=INFER))
    broker.append("s", 1, body=[b'{"id": 2, "in": {"a": 2, "b": "x"}, "more": 1, "later": null}'])
    run = pipeline(spark, broker, tmp_path / "a", schema=INFER)
    drain(run)
    # Fields that are there keep their types: what does not fit them is put aside.
    broker.append("s", 2, body=[b'{"id": "three"}', b'{"id": 4, "later": [true]}'])
    assert (run.step().put_aside, run.step().rows) == (1, 0)
    names = ("id", "in", "more", "later")
    assert values(table(spark, "s", tmp_path / "a", options={"url": broker.url})) == [
        dict(zip(names, (1, {"a": 1, "b": None}, None, None), strict=True)),
        dict(zip(names, (2, {"a": 2, "b": "x"}, 1, None), strict=True)),
        dict(zip(names, (4, None, None, [True]), strict=True)),
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_a_schema_with_more_fields_is_taken_and_another_type_refused(
    spark, broker, tmp_path, kind, monkeypatch
):
    needs(kind)
    place = tmp_path / "a"
    broker.make("s")
    broker.append("s", 1, body=[b'{"id": 1}'])
    drain(pipeline(spark, broker, place, kind=kind, schema="id bigint"))
    with pytest.raises(OptionError, match=r"a: value.id is bigint in the archive and string in"):
        pipeline(spark, broker, place, kind=kind, schema="id string, name string")
    broker.append("s", 1, body=[b'{"id": 2, "name": "b"}'])
    run = pipeline(spark, broker, place, kind=kind, schema="name string, id long")

    def killed(*arguments):
        raise KeyboardInterrupt

    # The table has the field, and the settings do not.
    with monkeypatch.context() as patch:
        patch.setattr(archive_module, "keep_settings", killed)
        with pytest.raises(KeyboardInterrupt):
            run.step()
    assert values(archived(spark, place)[0]) == [{"id": 1}]
    drain(pipeline(spark, broker, place, kind=kind, schema="name string"))
    expected = [{"id": 1, "name": None}, {"id": 2, "name": "b"}]
    assert values(archived(spark, place)[0]) == expected
    if kind == "delta":
        found = DeltaTable(place).to_pyarrow_table().column("value").to_pylist()
        assert sorted(found, key=lambda row: row["id"]) == expected


def test_without_one_object_nothing_can_be_inferred(spark, broker, tmp_path):
    broker.make("s")
    broker.append("s", 10)
    with pytest.raises(OptionError, match="no schema can be inferred"):
        pipeline(spark, broker, tmp_path / "a", schema=INFER).step()


def test_a_start_at_the_end_stays_where_it_was(spark, broker, tmp_path):
    broker.make("s")
    broker.append("s", 10)
    run = pipeline(spark, broker, tmp_path / "a", start="latest", reader_name="lake")
    assert run.step().rows == 0
    assert broker.readers == {("s", 0, "lake"): 10}
    broker.append("s", 3)
    assert run.step().rows == 3
    assert broker.readers == {("s", 0, "lake"): 13}


def test_an_empty_stream_is_archived_at_once(spark, broker, tmp_path):
    broker.make("s")
    place, options = tmp_path / "a", {"url": broker.url}
    assert archive(spark, "s", place, options=options, reader_name="") == 0
    assert broker.readers == {}
    # Without a name the reader is called after its user and place.
    assert archive(spark, "s", place, options=options) == 0
    assert broker.readers == {("s", 0, f"guest.archive:{place}"): 0}


def test_what_does_not_belong_together_is_refused(spark, broker, tmp_path):
    broker.make("s")
    broker.make("t")
    broker.append("s", 10)
    place = tmp_path / "a"
    drain(pipeline(spark, broker, place))
    with pytest.raises(OptionError, match="the archive of stream 's'"):
        Archive(spark, Origin("t", {"url": broker.url}), Plan(place))
    with pytest.raises(OptionError, match="with no schema"):
        pipeline(spark, broker, place, schema=SCHEMA)
    with locked(place), pytest.raises(ConflictError, match="another process is archiving"):
        pipeline(spark, broker, place).step()


def test_records_that_went_before_they_were_read_are_an_error_or_left_out(spark, broker, tmp_path):
    broker.make("s")
    broker.append("s", 10)
    drain(pipeline(spark, broker, tmp_path / "a"))
    broker.append("s", 10)
    broker.cut("s", 15)
    with pytest.raises(DataLossError, match=r"\[10, 15\)"):
        pipeline(spark, broker, tmp_path / "a").step()
    with pytest.raises(DataLossError, match="do not meet"):
        table(spark, "s", tmp_path / "a", options={"url": broker.url})
    lenient = Origin("s", {"url": broker.url}, fail_on_loss=False)
    assert drain(Archive(spark, lenient, Plan(tmp_path / "a"))) == 5


def test_a_stream_made_anew_is_not_appended(spark, broker, tmp_path):
    broker.make("s")
    broker.append("s", 10)
    drain(pipeline(spark, broker, tmp_path / "a"))
    broker.make("s")
    broker.append("s", 20)
    with pytest.raises(DataLossError, match="made again"):
        pipeline(spark, broker, tmp_path / "a").step()


def test_killed_in_the_middle_the_archive_is_whole_after_another_run(
    broker, spark, tmp_path, choose
):
    """Kill -9 a real run some time after some of its 15 commits; then run it to the end."""
    commits = choose.randint(1, 8)
    broker.make("s", 2)
    broker.append("s", 3000, 0)
    broker.append("s", 3000, 1)
    root = Path(archive_module.__file__).parents[3]
    environment = os.environ | {"LEPORID_URL": broker.url, "PYTHONPATH": str(root)}
    command = [sys.executable, "-m", "leporid.cli.main", "pipeline", "run", "archive"]
    command += ["--stream", "s", "--to", str(tmp_path / "a"), "--master", "local[1]"]
    command += ["--commit-rows", "400"]
    killed = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert killed.stdout is not None
    for line in killed.stdout:
        found = re.search(r"([\d,]+) records", line)
        if found and int(found[1].replace(",", "")) >= commits * 400:
            break
    with contextlib.suppress(subprocess.TimeoutExpired):
        # Somewhere in the next step.
        killed.wait(choose.uniform(0, 0.3))
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    killed.stdout.close()
    assert killed.returncode == -signal.SIGKILL
    before = len(offsets(archived(spark, tmp_path / "a")[0]))
    assert commits * 400 <= before < 6000
    options = {"url": broker.url}
    assert archive(spark, "s", tmp_path / "a", options=options) == 6000 - before
    assert offsets(archived(spark, tmp_path / "a")[0]) == every(3000, 3000)
    # And for a reader that knows only Delta.
    rows = DeltaTable(tmp_path / "a").to_pyarrow_table(columns=["partition", "offset"])
    assert sorted(zip(*rows.to_pydict().values(), strict=True)) == every(3000, 3000)


def test_bodies_in_avro_are_columns_and_those_of_a_new_schema_have_its_fields(
    spark, broker, registry, tmp_path
):
    old = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
    more = {"name": "name", "type": ["null", "string"], "default": None}
    new = {**old, "fields": [*old["fields"], more]}

    def avro(number, schema, value):
        file = io.BytesIO()
        fastavro.schemaless_writer(file, schema, value)
        return b"\0" + number.to_bytes(4, "big") + file.getvalue()

    one = registry.register("s-value", old)
    broker.make("s")
    broker.append("s", 3, body=[avro(one, old, {"id": 1}), b"{}", avro(9, old, {"id": 1})])
    body = Body("avro", schemas=registry.url)
    run = pipeline(spark, broker, tmp_path / "a", body=body)
    assert (run.step().put_aside, run.step().rows) == (2, 0)
    two = registry.register("s-value", new)
    broker.append("s", 2, body=[avro(two, new, {"id": 2, "name": "n"}), avro(one, old, {"id": 3})])
    drain(run)
    broker.append("s", 1, body=[avro(two, new, {"id": 4, "name": None})])
    # The settings know the format, the subject and the registry.
    drain(pipeline(spark, broker, tmp_path / "a"))
    broker.append("s", 2, body=[avro(two, new, {"id": 5, "name": "live"}), b""])
    options = {"url": broker.url}
    rows = values(table(spark, "s", tmp_path / "a", options=options))
    assert [(row["id"], row["name"]) for row in rows] == [
        (1, None), (2, "n"), (3, None), (4, None), (5, "live"),
    ]  # fmt: skip
    whole = table(spark, "s", tmp_path / "a", options=options, include_bad=True)
    found = {row["offset"]: row.bad_reason for row in whole.collect() if row.bad_reason}
    assert found[2] == f"{registry.url} has no schema 9"
    assert (
        found[1]
        == found[7]
        == ("the message names no schema: neither a header schema.id nor an id before the body")
    )
    registry.register("s-value", {**old, "fields": [{"name": "id", "type": "string"}]})
    with pytest.raises(OptionError, match=r"a: value.id is bigint in the archive and string in"):
        pipeline(spark, broker, tmp_path / "a")


def test_each_message_may_be_of_another_format(spark, broker, tmp_path):
    broker.make("s")
    broker.append("s", 2, body=[b"7,seven", b'"broken'])
    place = tmp_path / "a"
    drain(pipeline(spark, broker, place, body=Body("csv"), schema="id bigint, name string"))
    assert values(archived(spark, place)[0]) == [{"id": 7, "name": "seven"}]
    # The broker of these tests says text/plain of all messages.
    drain(pipeline(spark, broker, tmp_path / "b", body=Body("auto"), schema="text string"))
    found = values(archived(spark, tmp_path / "b")[0])
    assert [row["text"] for row in found] == ["7,seven", '"broken']


@pytest.mark.parametrize(
    ("plan", "told"),
    [
        ({"body": Body("avro")}, "bodies in avro need their schemas"),
        ({"body": Body("csv")}, "bodies in csv need a schema such as"),
        ({"body": Body("csv"), "schema": "a array<int>"}, "CSV has no list"),
        ({"body": Body("csv"), "schema": "infer"}, "bodies in csv need a schema such as"),
        ({"body": Body("text"), "schema": "a string"}, "leave the schema out"),
        ({"body": Body("auto"), "schema": "a interval"}, "cannot have the type interval"),
    ],
)
def test_how_bodies_cannot_be_decoded_is_said_before_spark(broker, tmp_path, plan, told):
    broker.make("s")
    with pytest.raises(OptionError, match=told):
        pipeline(None, broker, tmp_path / "a", **plan)
    assert not (tmp_path / "a").exists()


def test_a_type_becomes_wider_in_iceberg_and_is_refused_in_delta(spark, broker, tmp_path):
    needs("iceberg")
    broker.make("s")
    broker.append("s", 1, body=[b'{"id": 1, "x": 0.5, "in": {"n": 7}}'])
    schema = "id int, x float, in struct<n: int>"
    wider = "id bigint, x double, in struct<n: bigint>"
    for kind in KINDS:
        drain(pipeline(spark, broker, tmp_path / kind, kind=kind, schema=schema))
    with pytest.raises(OptionError, match=r"value\.id is int in the archive and bigint .* Delta's"):
        pipeline(spark, broker, tmp_path / "delta", schema=wider)
    large = 2**40
    broker.append("s", 1, body=[b'{"id": %d, "x": 0.1, "in": {"n": %d}}' % (large, large)])
    place = tmp_path / "iceberg"
    drain(pipeline(spark, broker, place, kind="iceberg", schema=wider))
    expected = [
        {"id": 1, "x": 0.5, "in": {"n": 7}},
        {"id": large, "x": 0.1, "in": {"n": large}},
    ]
    assert values(archived(spark, place)[0]) == expected
    store: Any = existing(place)[0]
    found = store.table().scan().to_arrow().sort_by("offset")
    assert found.column("value").to_pylist() == expected
