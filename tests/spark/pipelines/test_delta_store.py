"""The Delta store, without Spark."""

from datetime import timedelta

import pytest

pytest.importorskip("deltalake")

from tests.spark.pipelines.stores import NOON, committed, ends, files

from leporid.spark.pipelines.delta_store import DeltaStore
from leporid.spark.pipelines.store import ConflictError

pytestmark = pytest.mark.slow


@pytest.fixture
def store(tmp_path):
    made = DeltaStore(tmp_path / "archive")
    made.commit(files(made, 0, 10), {}, ends(10))
    return made


def test_what_is_committed_is_there_with_its_position(store):
    assert committed(store) == list(range(10))
    assert DeltaStore(store.root).ends() == ends(10)


def test_nothing_is_there_before_the_first_commit(tmp_path):
    empty = DeltaStore(tmp_path / "archive")
    assert empty.ends() == {}
    assert empty.state() == ([], {})


def test_what_is_not_committed_is_not_there(store):
    files(store, 10, 10)
    assert committed(store) == list(range(10))


def test_a_writer_that_knew_another_position_is_refused(store):
    other = DeltaStore(store.root)
    store.commit(files(store, 10, 5), ends(10), ends(15))
    with pytest.raises(ConflictError):
        other.commit(files(other, 10, 7), ends(10), ends(17))
    assert committed(store) == list(range(15))


def test_compaction_keeps_rows_and_position(store):
    for at in range(10, 14):
        store.commit(files(store, at, 1), ends(at), ends(at + 1))
    assert store.compact(2, 10**8) == 5
    assert len(store.state()[0]) == 1
    assert committed(store) == list(range(14))
    assert store.ends() == ends(14)
    store.commit(files(store, 14, 1), ends(14), ends(15))
    assert committed(store) == list(range(15))
    store.vacuum(3600)
    assert committed(store) == list(range(15))


def test_files_of_other_days_are_left_out(store):
    store.commit(files(store, 10, 5, day=3), ends(10), ends(15))
    later = int((NOON + timedelta(days=1)).timestamp() * 1_000_000)
    assert committed(store, first_us=later) == list(range(10, 15))
    assert committed(store, last_us=later) == list(range(10))


def test_delta_itself_knows_the_position(store):
    from deltalake import DeltaTable

    assert DeltaTable(store.root).transaction_version("leporid:s:0:i-1") == 10


def test_another_reader_finds_rows_and_days(store):
    from deltalake import DeltaTable

    rows = DeltaTable(store.root).to_pyarrow_table()
    assert sorted(rows.column("offset").to_pylist()) == list(range(10))
    assert {str(day) for day in rows.column("date").to_pylist()} == {"2026-01-01"}
