"""What Delta itself finds in a table of the Delta store; test_table_stores.py has the rest."""

import os
import time

import pytest

pytest.importorskip("deltalake")

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from tests.spark.pipelines.stores import NOON, committed, ends, files

from leporid.spark.pipelines import delta_store
from leporid.spark.pipelines.delta_store import DeltaStore
from leporid.spark.pipelines.files import Partitions
from leporid.spark.pipelines.store import KEEP_SECONDS, ConflictError, Layout, StoreError

pytestmark = pytest.mark.slow


@pytest.fixture
def store(tmp_path):
    made = DeltaStore(tmp_path / "archive")
    made.commit(files(made, 0, 10), {}, ends(10))
    return made


def test_delta_itself_knows_the_position(store):
    assert DeltaTable(str(store.root)).transaction_version("leporid:s:0:i-1") == 10


def test_another_reader_finds_rows_and_days(store):
    rows = DeltaTable(str(store.root)).to_pyarrow_table()
    assert sorted(rows.column("offset").to_pylist()) == list(range(10))
    assert {str(day) for day in rows.column("date").to_pylist()} == {"2026-01-01"}


def test_of_two_writers_at_the_same_moment_one_is_refused(store, monkeypatch):
    monkeypatch.setattr(delta_store, "check_position", lambda *position: None)
    other = DeltaStore(store.root)
    stale = other._table()
    monkeypatch.setattr(other, "_table", lambda: stale)
    store.commit(files(store, 10, 5), ends(10), ends(15))
    with pytest.raises(ConflictError, match="another process"):
        other.commit(files(other, 10, 7), ends(10), ends(17))
    assert committed(store) == list(range(15))


def test_of_two_writers_that_make_the_table_one_is_refused(store, monkeypatch):
    other = DeltaStore(store.root)
    monkeypatch.setattr(other, "_table", lambda: None)
    with pytest.raises(ConflictError, match="another process"):
        other.commit(files(other, 0, 7), {}, ends(7))
    assert committed(store) == list(range(10))


def test_of_two_that_merge_the_same_files_one_is_refused(store, monkeypatch):
    store.commit(files(store, 10, 5), ends(10), ends(15))
    other = DeltaStore(store.root)
    stale = other._table()
    monkeypatch.setattr(other, "_table", lambda: stale)
    assert store.compact(2, 10**8) == 2
    with pytest.raises(ConflictError, match="another process merges files"):
        other.compact(2, 10**8)
    store.commit(files(store, 15, 5), ends(15), ends(20))
    store._claim(store._table(), int(time.time()))
    with pytest.raises(ConflictError, match="another process merges files"):
        store.compact(2, 10**8)
    assert committed(store) == list(range(20))


def test_merging_again_and_again_leaves_the_position_of_an_idle_archive(store):
    store.commit(files(store, 10, 5), ends(10), ends(15))
    store.compact(2, 10**8)
    version = DeltaTable(str(store.root)).version()
    for _ in range(3):
        assert store.compact(2, 10**8) == 0
        store.vacuum(KEEP_SECONDS["delta"])
    assert DeltaTable(str(store.root)).version() == version
    assert store.ends() == ends(15)


def test_merging_leaves_the_columns_of_records_that_divide_the_table(tmp_path):
    by = ("exchange", "partition")
    store = DeltaStore(tmp_path / "archive", Layout(by))
    store.folder.make()
    names = ["", "a/b", "..", "ü%2F", None]
    for first in (0, 5):
        made = Partitions(store.folder, by)
        made.add(records_of(range(first, first + 5), names))
        store.commit(made.close(), ends(first) if first else {}, ends(first + 5))
    assert store.compact(2, 10**8) == 10
    rows = pa.concat_tables(
        pq.ParquetFile(path).read(["offset", *by]) for path in store.state()[0]
    ).sort_by("offset")
    assert rows.column("exchange").to_pylist() == names * 2
    assert rows.column("partition").to_pylist() == [0] * 10
    found = DeltaTable(str(store.root)).to_pyarrow_table()
    assert set(found.column("exchange_partition").to_pylist()) == {"a/b", "..", "ü%2F", None}


def records_of(offsets, exchanges):
    stamps = [NOON] * len(offsets)
    return pa.record_batch(
        {
            "offset": pa.array(offsets, pa.int64()),
            "timestamp": pa.array(stamps, pa.timestamp("us", "UTC")),
            "partition": pa.array([0] * len(offsets), pa.int32()),
            "exchange": pa.array(exchanges, pa.string()),
        }
    )


def test_a_commit_that_a_power_cut_emptied_is_made_again(store):
    store.commit(files(store, 10, 5), ends(10), ends(15))
    empty_last_commit(store)
    assert store.ends() == ends(10)
    store.commit(files(store, 10, 7), ends(10), ends(17))
    assert committed(store) == list(range(17))


def test_a_first_commit_that_a_power_cut_emptied_is_made_again(store):
    empty_last_commit(store)
    assert store.ends() == {}
    store.commit(files(store, 0, 7), {}, ends(7))
    assert committed(store) == list(range(7))


def empty_last_commit(store):
    max((store.root.path / "_delta_log").glob("*.json")).write_bytes(b"")


def test_what_a_store_says_is_a_line_with_the_place(store, monkeypatch):
    class Away:
        @staticmethod
        def is_deltatable(*given):
            arrow = "\n   \x1b[31m↳\x1b[0m "
            raise OSError(arrow.join(["Generic S3 error", "Error performing GET", "HTTP error"]))

    monkeypatch.setattr(delta_store, "DeltaTable", Away)
    with pytest.raises(StoreError) as told:
        store.state()
    assert str(told.value) == f"{store.root}: Generic S3 error: Error performing GET: HTTP error"


def test_a_commit_is_on_disk_when_it_returns(store, monkeypatch):
    synced = []
    monkeypatch.setattr(delta_store, "sync", lambda path: synced.append(path.name))
    for at in range(10, 12):
        store.commit(files(store, at, 1), ends(at), ends(at + 1))
    assert synced[::2] == ["00000000000000000002.json", "00000000000000000003.json"]
    assert set(synced[1::2]) == {"_delta_log"}
    synced.clear()
    store.compact(2, 10**8)
    (merged,) = (path for path in store.state()[0])
    assert set(synced) >= {merged.rpartition("/")[2], "00000000000000000005.json"}


def test_vacuum_removes_old_files_of_a_stopped_run(store):
    files(store, 99, 1)
    assert store.vacuum(3600) == 0
    for path in store.folder.path.iterdir():
        os.utime(path, (0, 0))
    assert store.vacuum(3600) == 1
    assert committed(store) == list(range(10))


def test_a_reader_that_is_behind_finds_commits_and_files_as_long_as_they_are_kept(store):
    def kept():
        return DeltaTable(str(store.root)).metadata().configuration["delta.logRetentionDuration"]

    for at in range(10, 13):
        store.commit(files(store, at, 1), ends(at), ends(at + 1))
    assert kept() == "interval 7 days"
    assert store.compact(2, 10**8) == 4
    assert store.vacuum(2 * 86400) == 0
    assert kept() == "interval 2 days"
    assert store.ends() == ends(13)
    before = DeltaTable(str(store.root), version=2).to_pyarrow_table()
    assert sorted(before.column("offset").to_pylist()) == list(range(11))
    for path in store.folder.path.iterdir():
        os.utime(path, (0, 0))
    store.vacuum(3600)
    assert committed(store) == list(range(13))
    assert kept() == "interval 1 days"
