"""What pipelines of an earlier version left behind half-way is gone on with, each record once."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("deltalake")

from tests.spark.pipelines.write_golden_v1 import BAD, GOLDEN, pipelines, streams

from leporid.spark.pipelines.runner import Pipeline, Run, run
from leporid.spark.pipelines.table import archived

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    with tarfile.open(GOLDEN) as kept:
        # Python 3.11.0 to 3.11.3 has no filters; the file is ours.
        if hasattr(tarfile, "data_filter"):
            kept.extractall(tmp_path, filter="data")
        else:
            kept.extractall(tmp_path)
    return tmp_path / "golden"


@pytest.fixture
def made(spark: Any, broker: Any, root: Path) -> dict[str, Pipeline]:
    """The pipelines, ten messages and a task later."""
    streams(broker, 40)
    return pipelines(spark, broker, root, 3)


def done(pipeline: Pipeline) -> int:
    return run(pipeline, Run(once=True, out=io.StringIO())).rows


def test_an_archive_goes_on_where_its_table_ends(spark, made, root):
    assert done(made["archive"]) == 10
    rows, ends, schema = archived(spark, root / "lake")
    assert rows is not None
    assert schema == "id bigint"
    assert [at.offset for at in ends.values()] == [40]
    found = sorted(row.id for row in rows.select("value.id").collect())
    assert found == [at for at in range(40) if at not in BAD]


def test_a_replay_that_is_done_publishes_nothing_again(made, broker):
    assert done(made["replay"]) == 0
    assert broker.posted == []


def test_a_report_counts_what_came_since(made, broker):
    assert done(made["traffic"]) == 10
    asked = [path for _, _, path in broker.calls if "/records" in path]
    assert asked
    assert all("from=30" in path for path in asked)


def test_tasks_in_the_ledger_are_not_published_again(made, broker):
    assert done(made["schedule"]) == 1
    assert broker.streams["work"][0].rows.column("body").to_pylist() == [b"task 2"]
