import json
import os
from datetime import timedelta

import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from tests.spark.pipelines.stores import NOON, committed, ends, files

from leporid.spark.pipelines import parquet_store
from leporid.spark.pipelines.parquet_store import ParquetStore, groups
from leporid.spark.pipelines.store import ConflictError, StoreError


def shown(store):
    """The offsets that a reader of the folder finds."""
    dataset = pyarrow.dataset.dataset(store.root, partitioning="hive")
    return sorted(dataset.to_table(columns=["offset"]).column("offset").to_pylist())


@pytest.fixture
def store(tmp_path):
    made = ParquetStore(tmp_path / "archive")
    made.commit(files(made, 0, 10), {}, ends(10))
    return made


def test_what_is_committed_is_there_for_both_kinds_of_readers(store):
    assert committed(store) == shown(store) == list(range(10))
    assert store.ends() == ends(10)


def test_what_is_not_committed_is_not_there(store):
    files(store, 10, 10)
    assert committed(store) == shown(store) == list(range(10))


def test_of_two_writers_one_wins(store):
    other = ParquetStore(store.root)
    store.commit(files(store, 10, 5), ends(10), ends(15))
    with pytest.raises(ConflictError):
        other.commit(files(other, 10, 7), ends(10), ends(17))
    assert committed(store) == shown(store) == list(range(15))


def test_two_writers_at_the_same_moment_get_different_numbers(store, monkeypatch):
    stale = store.snapshot()
    store.commit(files(store, 10, 5), ends(10), ends(15))
    monkeypatch.setattr(store, "snapshot", lambda: stale)
    with pytest.raises(ConflictError):
        store.commit(files(store, 10, 7), ends(10), ends(17))


def test_stopped_between_commit_and_links_the_next_run_makes_them(store, monkeypatch):
    def killed(*args):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(store, "_link", killed)
        with pytest.raises(KeyboardInterrupt):
            store.commit(files(store, 10, 5), ends(10), ends(15))
    assert shown(store) == list(range(10))
    again = ParquetStore(store.root)
    assert again.ends() == ends(15)
    again.commit(files(again, 15, 1), ends(15), ends(16))
    assert shown(again) == committed(again) == list(range(16))


def test_compaction_changes_files_and_no_rows(store):
    for at in range(10, 20):
        store.commit(files(store, at, 1), ends(at), ends(at + 1))
    before, _ = store.state()
    assert store.compact(4, 10**9) == 11
    after, reached = store.state()
    assert len(after) == 1
    assert reached == ends(20)
    assert committed(store) == shown(store) == list(range(20))
    # A reader that had begun with the old files finishes with them.
    assert sum(pq.read_table(path).num_rows for path in before) == 20


def test_days_are_not_merged_with_one_another(store):
    store.commit(files(store, 10, 2, day=1), ends(10), ends(12))
    store.commit(files(store, 12, 2, day=1), ends(12), ends(14))
    store.compact(2, 10**9)
    assert sorted(path.name for path in store.root.glob("date=*")) == [
        "date=2026-01-01",
        "date=2026-01-02",
    ]
    assert committed(store) == shown(store) == list(range(14))


def test_vacuum_removes_what_nothing_names_and_is_old(store):
    store.commit(files(store, 10, 2), ends(10), ends(12))
    store.compact(2, 10**9)
    files(store, 99, 1)
    assert store.vacuum(3600) == 0
    for path in store.folder.iterdir():
        os.utime(path, (0, 0))
    assert store.vacuum(3600) == 3
    assert committed(store) == shown(store) == list(range(12))


def test_a_long_log_is_read_from_its_last_full_commit(store, monkeypatch):
    monkeypatch.setattr(parquet_store, "FULL_EVERY", 4)
    for at in range(10, 21):
        store.commit(files(store, at, 1), ends(at), ends(at + 1))
    log = store.root / "_leporid" / "log"
    for path in log.iterdir():
        os.utime(path, (0, 0))
    store.vacuum(3600)
    assert sorted(int(path.stem) for path in log.iterdir()) == [8, 9, 10, 11]
    assert committed(ParquetStore(store.root)) == list(range(21))


def test_files_of_another_time_are_left_out(store):
    store.commit(files(store, 10, 5, day=3), ends(10), ends(15))
    later = int((NOON + timedelta(days=1)).timestamp() * 1_000_000)
    assert len(store.state()[0]) == 2
    assert len(store.state(first_us=later)[0]) == len(store.state(last_us=later)[0]) == 1


def test_a_missing_commit_is_an_error(store):
    for at in (10, 11):
        store.commit(files(store, at, 1), ends(at), ends(at + 1))
    (store.root / "_leporid/log/00000000000000000001.json").unlink()
    with pytest.raises(StoreError, match="commit 1 is missing"):
        store.ends()


@pytest.mark.parametrize("content", ["", "{", "[]", '{"version": 99, "ends": {}}'])
def test_a_damaged_or_newer_commit_is_an_error(store, content):
    (store.root / "_leporid/log/00000000000000000001.json").write_text(content)
    with pytest.raises(StoreError, match=r"00000000000000000001\.json"):
        store.ends()


def test_a_commit_holds_position_and_files_together(store):
    content = json.loads((store.root / "_leporid/log/00000000000000000000.json").read_text())
    assert content["ends"]["offsets"] == {"s": {"0": 10}}
    assert [file["rows"] for file in content["added"]] == [10]


def test_groups_have_enough_files_or_are_full(store):
    made = [files(store, at, 1)[0] for at in range(10, 16)]
    size = made[0].bytes
    assert groups(made, 10, 100 * size) == []
    assert [len(group) for group in groups(made, 2, 100 * size)] == [6]
    assert [len(group) for group in groups(made, 10, 4 * size + 10)] == [4]
