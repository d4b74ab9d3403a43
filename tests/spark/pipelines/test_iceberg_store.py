"""What Iceberg itself finds in a table of the Iceberg store; test_table_stores.py has the rest."""

import pytest

pytest.importorskip("pyiceberg")

from tests.spark.pipelines.stores import committed, ends, files

from leporid.spark.pipelines.iceberg_store import IcebergStore
from leporid.spark.pipelines.store import ConflictError

pytestmark = pytest.mark.slow


@pytest.fixture
def store(tmp_path):
    made = IcebergStore(tmp_path / "archive")
    made.commit(files(made, 0, 10), {}, ends(10))
    return made


def test_another_reader_finds_rows_and_the_position(store):
    table = store.table()
    assert sorted(table.scan().to_arrow().column("offset").to_pylist()) == list(range(10))
    assert '"0": 10' in table.current_snapshot().summary.additional_properties["leporid.ends"]


@pytest.mark.parametrize("act", ["commit", "add", "replace"])
def test_whoever_commits_second_is_told_so(store, monkeypatch, act):
    other = IcebergStore(store.root)
    stale = other.table()
    assert stale is not None
    (task,) = stale.scan().plan_files()
    name = task.file.file_path.rpartition("/")[2]
    store.commit(files(store, 10, 5), ends(10), ends(15))
    monkeypatch.setattr(other, "table", lambda: stale)
    made = files(other, 10, 7)
    given = {
        "commit": (made, ends(10), ends(17)),
        "add": (made, "", "note"),
        "replace": ([name], made, ""),
    }
    with pytest.raises(ConflictError, match="another process"):
        getattr(other, act)(*given[act])
    assert committed(store) == list(range(15))
