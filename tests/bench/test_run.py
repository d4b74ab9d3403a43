import json
from pathlib import Path
from typing import Any

import bench.clients
import bench.delays
import bench.run
import bench.table_reader
import bench.tables
import bench.workloads
import pytest
from bench.brokers import own_broker
from bench.run import main
from bench.table_reader import READERS
from bench.workloads import WORKLOADS

# So short that the figures mean nothing, and each workload is gone through all the same.
SHORT = ["--seconds", "0.2", "--runs", "1", "--messages", "2000"]


@pytest.fixture(autouse=True)
def without_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """For figures that mean nothing, the machine need not be quiet, nor a burst be large."""
    monkeypatch.setattr(bench.run, "BUSY_SECONDS", 0.01)
    monkeypatch.setattr(bench.delays, "LEAD_MS", 500)
    monkeypatch.setattr(bench.delays, "BURST", 2_000)
    monkeypatch.setattr(bench.workloads, "BINDINGS", 500)
    monkeypatch.setattr(bench.workloads, "MANY_BINDINGS", 100)
    monkeypatch.setattr(bench.workloads, "COLD_KEYS", 4_000)
    monkeypatch.setattr(bench.workloads, "CONNECTIONS", 20)
    # Each client's figures have a test of their own.
    monkeypatch.setattr(bench.clients, "USUAL", ("leporid",))


@pytest.fixture
def shared_spark(spark_session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's workloads run in this process, where others start one each, and Java with it."""
    monkeypatch.setattr(bench.tables, "measured", lambda what, facts: READERS[what](facts))
    monkeypatch.setattr("leporid.spark.session.session", lambda *_, **__: spark_session)
    monkeypatch.setattr(bench.table_reader, "PASSES", 1)
    monkeypatch.setattr(bench.table_reader, "BATCHES_WARM", 1)


@pytest.mark.timeout(300)
@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.spark if name.startswith("spark") else ())
        for name in WORKLOADS
    ],
)
def test_each_workload_gives_figures(name: str, tmp_path: Path, request: pytest.FixtureRequest):
    if name.startswith("spark"):
        request.getfixturevalue("shared_spark")
    output = tmp_path / "figures.json"
    assert main([*SHORT, "--only", name, "--json", str(output)]) == 0
    figures = json.loads(output.read_text())["medians"]["leporid"][name]
    assert figures
    assert all(value > 0 for title, value in figures.items() if title.endswith("_per_s"))


@pytest.mark.slow
def test_measures_another_broker_beside_ours(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    with own_broker() as other:
        against = ["--against", other.url, "--pid", str(other.pid)]
        assert main([*SHORT, "--only", "transient", *against]) == 0
    head = capsys.readouterr().out.splitlines()[0]
    assert head.split() == ["workload", "figure", "leporid", "spread", "other", "spread", "times"]


@pytest.mark.slow
def test_a_broker_that_is_not_there_fails_and_the_rest_goes_on(
    capsys: pytest.CaptureFixture[str],
):
    arguments = [*SHORT, "--only", "transient", "--against", "amqp://127.0.0.1:1"]
    assert main(arguments) == 1
    printed = capsys.readouterr()
    assert "transient failed on other" in printed.err
    assert "leporid" in printed.out


def test_says_what_there_is_to_measure(capsys: pytest.CaptureFixture[str]):
    assert main(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(WORKLOADS)
    assert all(len(line.split()) > 2 for line in lines)


def test_unknown_workloads_are_refused(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main(["--only", "transient,nonsense"])
    assert "no workload 'nonsense'" in capsys.readouterr().err
