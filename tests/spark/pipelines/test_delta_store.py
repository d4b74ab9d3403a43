"""What Delta itself finds in a table of the Delta store; test_table_stores.py has the rest."""

import pytest

pytest.importorskip("deltalake")

from tests.spark.pipelines.stores import ends, files

from leporid.spark.pipelines.delta_store import DeltaStore

pytestmark = pytest.mark.slow


@pytest.fixture
def store(tmp_path):
    made = DeltaStore(tmp_path / "archive")
    made.commit(files(made, 0, 10), {}, ends(10))
    return made


def test_delta_itself_knows_the_position(store):
    from deltalake import DeltaTable

    assert DeltaTable(store.root).transaction_version("leporid:s:0:i-1") == 10


def test_another_reader_finds_rows_and_days(store):
    from deltalake import DeltaTable

    rows = DeltaTable(store.root).to_pyarrow_table()
    assert sorted(rows.column("offset").to_pylist()) == list(range(10))
    assert {str(day) for day in rows.column("date").to_pylist()} == {"2026-01-01"}
