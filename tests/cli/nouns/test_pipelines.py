"""`leporid pipelines` against a broker."""

import pytest

from leporid.spark import options
from leporid.spark.http import Client


@pytest.fixture
def reported(shared_broker, name):
    """A pipeline of guest's with two runs."""
    made = name("p")
    client = Client(options.connection({"url": f"http://127.0.0.1:{shared_broker.http_port}"}, {}))
    client.report_run(made, {"pipeline": "archive", "state": "done", "started_ms": 1})
    wrong = {"pipeline": "archive", "state": "failed", "started_ms": 2, "error": "no such stream"}
    client.report_run(made, {**wrong, "put_aside": 3, "exit_code": 2})
    client.close()
    return made


def test_pipelines(leporid, reported):
    (row,) = [row for row in leporid.rows("pipelines", "list") if row["name"] == reported]
    assert (row["user"], row["state"], row["put_aside"]) == ("guest", "failed", "3")
    assert row["failed_runs"] == "1"
    runs = leporid.rows("pipelines", "show", reported)
    assert [(run["state"], run["error"]) for run in runs] == [
        ("failed", "no such stream"),
        ("done", runs[1]["error"]),
    ]
    assert leporid.json("pipelines", "show", reported, "--of", "guest")["runs"][0]["exit_code"] == 2
    leporid("pipelines", "show", reported, "--of", "nobody", code=3)
    assert leporid("pipelines", "delete", reported, "--yes").endswith("forgotten\n")
    for more in ("--dry-run", "--yes"):
        leporid("pipelines", "delete", reported, more, code=3)
        assert leporid.error == f"leporid: there is no pipeline '{reported}' in '/'\n"
