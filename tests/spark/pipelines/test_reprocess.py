"""Decoding again what was put aside, without Spark: archives are made of files here."""

import json

import pytest

pytest.importorskip("deltalake")

from contextlib import nullcontext
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from tests.spark.pipelines.stores import ends

from leporid.spark.errors import OptionError
from leporid.spark.pipelines import reprocess as reprocess_module
from leporid.spark.pipelines.bodies.decoder import Body
from leporid.spark.pipelines.decoding import REASON
from leporid.spark.pipelines.files import Partitions
from leporid.spark.pipelines.reprocess import Reprocess, batches_of, paths_of, settle
from leporid.spark.pipelines.store import (
    ConflictError,
    StoreError,
    bad_place,
    existing,
    keep_settings,
    open_store,
    settings_of,
)
from leporid.spark.schema import COLUMNS

KINDS = ["delta", "iceberg"]
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SCHEMA = "id bigint, name string"


def rows(first, *bodies, days=0):
    made = [
        {
            "stream": "s",
            "partition": 0,
            "offset": first + at,
            "timestamp": NOON + timedelta(days=days, seconds=at),
            "body": body,
            "properties": {},
            "headers": [],
        }
        for at, body in enumerate(bodies)
    ]
    return pa.RecordBatch.from_pylist(made, schema=COLUMNS)


def append(store, batch, reach, settled="", **column):
    """Write rows with one more column, and move the position."""
    ((name, values),) = column.items()
    store.folder.make()
    days = Partitions(store.folder)
    days.add(batch.append_column(name, values))
    store.commit(days.close(), store.ends(), ends(reach), settled)


@pytest.fixture(params=KINDS)
def place(request, tmp_path):
    """An archive: offset 0 is decoded, 1 to 4 were put aside, on two days."""
    kind = request.param
    if kind == "iceberg":
        pytest.importorskip("pyiceberg")
    place = tmp_path / "a"
    settings = {"stream": "s", "kind": kind, "schema": SCHEMA}
    keep_settings(place, settings)
    keep_settings(bad_place(place), settings | {"schema": "", "bad": "true"})
    value = pa.array(
        [{"id": 0, "name": "n"}], pa.struct([("id", pa.int64()), ("name", pa.string())])
    )
    bad = open_store(bad_place(place), kind)
    append(bad, rows(1, b'{"id": 1}', b"nope"), 5, **{REASON: pa.array(["a", "b"])})
    append(bad, rows(3, b'{"id": 3}', b'{"id": "x"}', days=1), 5, **{REASON: pa.array(["a", "b"])})
    append(open_store(place, kind), rows(0, b'{"id": 0, "name": "n"}'), 5, value=value)
    return place


def found(place):
    """Return the numbers in the archive, and offsets and reasons of the bad records."""
    store, _ = existing(place)
    bad, _ = existing(bad_place(place))
    good = [
        row for path in store.state()[0] for batch in batches_of(path) for row in batch.to_pylist()
    ]
    rest = [
        row
        for path in paths_of(store, bad, bad.state()[0])
        for batch in batches_of(path)
        for row in batch.to_pylist()
    ]
    numbers = sorted((row["offset"], row["value"]["id"]) for row in good)
    return numbers, sorted((row["offset"], row[REASON]) for row in rest)


DECODED = [(0, 0), (1, 1), (3, 3)]
STILL_BAD = [(2, "not JSON"), (4, "does not fit the schema")]


def test_what_can_be_decoded_goes_to_the_archive_and_the_rest_stays(place):
    run = Reprocess(place)
    run.check()
    assert run.describe() == [f"4 records of {bad_place(place)} are decoded again, into {place}"]
    step = run.step()
    assert (step.rows, step.lag, step.put_aside) == (4, 0, 2)
    assert step.note == "2 decoded, 2 still bad"
    assert found(place) == (DECODED, STILL_BAD)
    assert {key.stream: at.offset for key, at in existing(place)[0].ends().items()} == {"s": 5}
    # Once more: nothing is new, so nothing is written.
    before = sorted(path.name for path in place.rglob("*")), found(place)
    assert Reprocess(place).step().note == "0 decoded, 2 still bad"
    assert (sorted(path.name for path in place.rglob("*")), found(place)) == before


@pytest.mark.parametrize("limit", ["STEP_ROWS", "STEP_FILES"])
def test_a_step_takes_some_files_and_none_twice(place, monkeypatch, limit):
    monkeypatch.setattr(reprocess_module, limit, 1)
    run = Reprocess(place)
    steps = [run.step() for _ in range(2)]
    assert [(step.rows, step.lag) for step in steps] == [(2, 2), (2, 0)]
    assert found(place) == (DECODED, STILL_BAD)


@pytest.mark.parametrize("where", ["add", "replace"])
def test_killed_at_any_point_nothing_is_lost_and_nothing_doubled(place, monkeypatch, where):
    store, _ = existing(place)

    def killed(*args):
        raise KeyboardInterrupt

    for when in ("before", "after"):
        with monkeypatch.context() as patch:
            real = getattr(type(store), where)

            def stop(*args, real=real, when=when):
                if when == "after":
                    real(*args)
                raise KeyboardInterrupt

            patch.setattr(type(store), where, stop)
            with pytest.raises(KeyboardInterrupt):
                Reprocess(place).step()
        numbers, bad = found(place)
        assert sorted([at for at, _ in numbers] + [at for at, _ in bad]) == [0, 1, 2, 3, 4]
        if (where, when) == ("add", "before"):
            assert [at for at, _ in numbers] == [0]
    Reprocess(place).step()
    assert found(place) == (DECODED, STILL_BAD)
    bad = existing(bad_place(place))[0]
    assert paths_of(existing(place)[0], bad, bad.state()[0]) == bad.state()[0]


def test_records_beyond_the_end_of_the_archive_are_left_to_it(place):
    bad, _ = existing(bad_place(place))
    append(bad, rows(5, b'{"id": 5}'), 6, **{REASON: pa.array(["not yet"])})
    Reprocess(place).step()
    numbers, rest = found(place)
    assert numbers == DECODED
    assert rest == [*STILL_BAD, (5, "not yet")]


def test_a_schema_that_has_more_fields_brings_them(place, registry):
    before = settings_of(place)
    schema = {"type": "object", "properties": {"id": {"type": ["integer", "string"]}}}
    registry.register("s-value", json.dumps(schema), "JSON")
    keep_settings(place, before | {"body": "json-schema", "schemas": registry.url})
    with pytest.raises(OptionError, match=f"{registry.url} has no subject 'other'"):
        Reprocess(place, Body("", schemas=registry.url, subject="other")).check()
    schema["properties"] = {"id": {"type": "integer"}, "more": {"type": "boolean"}}
    registry.register("s-value", json.dumps(schema), "JSON")
    bad, _ = existing(bad_place(place))
    framed = b"\0\0\0\0\2" + b'{"id": 4, "more": true}'
    append(bad, rows(5, framed), 6, **{REASON: pa.array(["?"])})
    store, _ = existing(place)
    store.commit([], store.ends(), ends(6))
    assert Reprocess(place, Body("", subject="s-value")).step().note == "1 decoded, 4 still bad"
    assert settings_of(place)["schema"] == "`id` bigint, `name` string, `more` boolean"
    assert found(place)[0] == [(0, 0), (5, 4)]


def test_two_at_once_are_not_both_done(place):
    one, two = (existing(place)[0] for _ in range(2))
    note = one.note()
    one.add([], note, '{"gone": [], "files": []}')
    with pytest.raises(ConflictError, match="another process has reprocessed"):
        two.add([], note, '{"gone": [], "files": []}')
    bad, _ = existing(bad_place(place))
    with pytest.raises(ConflictError, match="is not in the table any more"):
        bad.replace(["none.parquet"], [], "")


def test_of_two_runs_without_a_lock_one_is_refused(place, monkeypatch):
    monkeypatch.setattr(reprocess_module, "locked", nullcontext)
    one, two = Reprocess(place), Reprocess(place)
    decode = one._decode

    def decode_later(*given):
        made = decode(*given)
        assert two.step().note == "2 decoded, 2 still bad"
        return made

    monkeypatch.setattr(one, "_decode", decode_later)
    with pytest.raises(ConflictError, match="another process has reprocessed"):
        one.step()
    assert found(place) == (DECODED, STILL_BAD)


def archive_one(place, at):
    """Commit one record to the archive, and one to the bad ones, as `archive` does."""
    store, bad = existing(place)[0], existing(bad_place(place))[0]
    settled = settle(store, bad)
    value = pa.array([{"id": at, "name": None}], store_type(store))
    append(bad, rows(at + 1, b"no"), at + 2, **{REASON: pa.array(["late"])})
    append(store, rows(at, b"{}"), at + 2, settled, value=value)


def store_type(store):
    (path, *_), _ = store.state()
    return next(batches_of(path)).schema.field("value").type


def interleaved(monkeypatch, run, between):
    """Have something happen after a run has decoded, and before it commits."""
    monkeypatch.setattr(reprocess_module, "locked", nullcontext)
    decode = run._decode

    def decode_first(*given):
        made = decode(*given)
        between()
        return made

    monkeypatch.setattr(run, "_decode", decode_first)


def test_without_a_lock_the_archive_may_commit_in_the_middle_of_a_step(place, monkeypatch):
    run = Reprocess(place)
    interleaved(monkeypatch, run, lambda: archive_one(place, 5))
    assert run.step().note == "2 decoded, 2 still bad"
    assert found(place) == ([*DECODED, (5, 5)], [*STILL_BAD, (6, "late")])


def test_a_commit_of_the_archive_does_not_hide_a_run_that_was_killed(place, monkeypatch):
    run = Reprocess(place)
    interleaved(monkeypatch, run, lambda: None)
    kind = type(existing(place)[0])
    with monkeypatch.context() as patch:

        def killed(*args):
            raise KeyboardInterrupt

        patch.setattr(kind, "replace", killed)
        # The archive has looked for notes before.
        patch.setattr("tests.spark.pipelines.test_reprocess.settle", lambda *stores: "")
        with pytest.raises(KeyboardInterrupt):
            run.step()
        archive_one(place, 5)
    expected = [*DECODED, (5, 5)], [*STILL_BAD, (6, "late")]
    assert found(place) == expected
    for _ in range(2):
        archive_one(place, max(at for at, _ in found(place)[1]) + 1)
    store, bad = existing(place)[0], existing(bad_place(place))[0]
    assert len(store.note()) < 200
    assert paths_of(store, bad, bad.state()[0]) == bad.state()[0]
    assert found(place)[0] == [*DECODED, (5, 5), (7, 7), (9, 9)]


def test_a_run_that_was_overtaken_by_another_and_the_archive_is_refused(place, monkeypatch):
    def both():
        assert Reprocess(place).step().note == "2 decoded, 2 still bad"
        archive_one(place, 5)

    run = Reprocess(place)
    interleaved(monkeypatch, run, both)
    with pytest.raises(ConflictError, match="another process has reprocessed"):
        run.step()
    assert found(place) == ([*DECODED, (5, 5)], [*STILL_BAD, (6, "late")])


@pytest.mark.parametrize("is_killed", [False, True])
def test_files_that_are_merged_while_a_step_decodes_them_leave_nothing_twice(
    place, monkeypatch, is_killed
):
    bad, _ = existing(bad_place(place))
    append(bad, rows(5, b'{"id": 5}', b"nope"), 7, **{REASON: pa.array(["c", "d"])})
    store, _ = existing(place)
    store.commit([], store.ends(), ends(7))

    def merge():
        assert existing(bad_place(place))[0].compact(2, 10**8) == 2

    run = Reprocess(place)
    interleaved(monkeypatch, run, merge)
    with monkeypatch.context() as patch:
        if is_killed:

            def killed(*args):
                raise KeyboardInterrupt

            patch.setattr(reprocess_module, "carry_out", killed)
            with pytest.raises(KeyboardInterrupt):
                run.step()
        else:
            run.step()
    if is_killed:
        settle(*(existing(each)[0] for each in (place, bad_place(place))))
    numbers, rest = found(place)
    assert numbers == [*DECODED, (5, 5)]
    assert [at for at, _ in rest] == [2, 4, 6]
    assert Reprocess(place).step().note == "0 decoded, 3 still bad"


def test_where_nothing_was_decoded_nothing_is(tmp_path):
    with pytest.raises(StoreError, match="there is no archive"):
        Reprocess(tmp_path / "none").check()
    keep_settings(tmp_path / "raw", {"stream": "s", "kind": "delta", "schema": ""})
    with pytest.raises(StoreError, match="was made without a schema"):
        Reprocess(tmp_path / "raw").check()
    keep_settings(tmp_path / "a", {"stream": "s", "kind": "delta", "schema": SCHEMA})
    assert Reprocess(tmp_path / "a").step().note == "nothing was put aside"
