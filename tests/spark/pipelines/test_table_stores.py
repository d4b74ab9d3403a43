"""The stores whose tables are another project's, Delta's and Iceberg's, without Spark."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from tests.spark.pipelines.stores import NOON, committed, ends, files

from leporid.spark.pipelines.store import ConflictError, Store

pytestmark = pytest.mark.slow


@pytest.fixture(params=["delta", "iceberg"])
def make(request, tmp_path) -> Callable[[], Store]:
    """Makes a store of one of the kinds."""
    if request.param == "delta":
        pytest.importorskip("deltalake")
        from leporid.spark.pipelines.delta_store import DeltaStore

        return lambda: DeltaStore(tmp_path / "archive")
    pytest.importorskip("pyiceberg")
    from leporid.spark.pipelines.iceberg_store import IcebergStore

    return lambda: IcebergStore(tmp_path / "archive")


@pytest.fixture
def store(make) -> Store:
    made: Store = make()
    made.commit(files(made, 0, 10), {}, ends(10))
    return made


def test_what_is_committed_is_there_with_its_position(store):
    assert committed(store) == list(range(10))
    assert type(store)(store.root).ends() == ends(10)


def test_nothing_is_there_before_the_first_commit(make):
    empty = make()
    assert empty.ends() == {}
    assert empty.state() == ([], {})


def test_what_is_not_committed_is_not_there(store):
    files(store, 10, 10)
    assert committed(store) == list(range(10))


def test_a_writer_that_knew_another_position_is_refused(store):
    other = type(store)(store.root)
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
