import json

import pytest

from leporid.spark.pipelines.status import Status, now


def test_the_file_is_json_of_what_is_known(tmp_path):
    path = tmp_path / "new" / "orders.json"
    status = Status("orders", "archive", {"stream": "s"}, records=5, lag=2)
    status.save(path)
    found = json.loads(path.read_text())
    assert found["state"] == "running"
    assert found["exit_code"] is None
    assert (found["name"], found["records"], found["lag"]) == ("orders", 5, 2)
    status.ended("failed", 1, "it broke")
    status.save(path)
    found = json.loads(path.read_text())
    assert (found["state"], found["exit_code"], found["error"]) == ("failed", 1, "it broke")
    assert found["ended_at"].endswith("+00:00")
    assert [each.name for each in path.parent.iterdir()] == ["orders.json"]


def test_times_are_iso_8601_in_utc():
    assert now(lambda: 0.5) == "1970-01-01T00:00:00.500+00:00"
    status = Status("a", "b", {})
    assert status.step_seconds is None
    status.step_at = now(lambda: 12.5)
    assert status.step_seconds == pytest.approx(12.5)
