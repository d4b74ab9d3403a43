"""What Iceberg itself finds in a table of the Iceberg store; test_table_stores.py has the rest."""

import pytest

pytest.importorskip("pyiceberg")

from tests.spark.pipelines.stores import ends, files

from leporid.spark.pipelines.iceberg_store import IcebergStore

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
