"""What runs tell the broker of themselves."""

from __future__ import annotations

import io
import threading
from pathlib import Path

import pytest
from tests.spark.pipelines.test_runner import Scripted

from leporid.cli import main
from leporid.spark.errors import OptionError
from leporid.spark.pipelines import runner
from leporid.spark.pipelines.run_reports import EVERY_SECONDS, Reports, reader_name, run_name
from leporid.spark.pipelines.runner import Run, Step, run
from leporid.spark.pipelines.status import Status, now


def test_a_run_is_reported_from_its_beginning_to_its_end(broker, client):
    steps = Step(5, 3, put_aside=2), Step(3, 0)
    how = Run(once=True, out=io.StringIO(), name="mine", reports=Reports(client, "mine", "r"))
    run(Scripted(*steps), how)
    first, *_, last = broker.runs["mine"]
    assert (first["state"], first["records"], "ended_ms" in first) == ("running", 0, False)
    assert last["started_ms"] == first["started_ms"] <= last["step_ms"] <= last["ended_ms"]
    assert {name: last[name] for name in last if not name.endswith("_ms")} == {
        "pipeline": "scripted", "stream": "orders", "target": 'a "b"', "reader": "r",
        "state": "done", "exit_code": 0, "records": 8, "put_aside": 2, "steps": 2, "failures": 0,
        "lag": 0,
    }  # fmt: skip


def test_steps_are_reported_so_often_at_most_and_changes_at_once(broker, client):
    seconds = [0.0]
    reports = Reports(client, "r", clock=lambda: seconds[0])
    status = Status("r", "p", {}, started_at=now())
    for at in (0.0, EVERY_SECONDS - 1, EVERY_SECONDS, EVERY_SECONDS + 1):
        seconds[0] = at
        reports.send(status)
    assert len(broker.runs["r"]) == 2
    status.state, status.error = "retrying", "ü" * 1000
    reports.send(status)
    assert (broker.runs["r"][2]["state"], broker.runs["r"][2]["error"]) == ("retrying", "ü" * 512)


def test_a_report_that_does_not_arrive_costs_a_line_and_not_the_run(broker, client, caplog):
    fault = broker.fail("status", "PUT /api/pipelines", status=503)
    stop = threading.Event()

    def last():
        stop.set()
        return Step(1, 0)

    done = run(Scripted(last), Run(out=io.StringIO(), reports=Reports(client, "away")), stop)
    assert done.rows == 1
    lines = [each.getMessage() for each in caplog.records]
    assert [line for line in lines if "run 'away' is not shown at the broker" in line]
    assert len(lines) == len(set(lines))
    fault.count = 0
    # One that does not know the route is asked once.
    broker.fail("status", "PUT /api/pipelines", status=404)
    before = broker.count("/api/pipelines/")
    run(Scripted(Step(1, 0)), Run(once=True, out=io.StringIO(), reports=Reports(client, "old")))
    assert broker.count("/api/pipelines/") == before + 1


def test_what_is_refused_before_the_run_has_failed(broker, client, tmp_path):
    class Wrong(Scripted):
        def check(self):
            raise OptionError("there is no stream 'order'")

    how = Run(status=tmp_path / "s.json", reports=Reports(client, "wrong"))
    with pytest.raises(OptionError):
        runner.check(Wrong(), how)
    (found,) = broker.runs["wrong"]
    assert (found["state"], found["exit_code"]) == ("failed", 2)
    assert found["error"] == "there is no stream 'order'"
    assert "order" in (tmp_path / "s.json").read_text()
    with pytest.raises(OptionError):
        runner.check(Wrong(), Run(dry_run=True, reports=Reports(client, "dry")))
    assert "dry" not in broker.runs


def test_a_run_without_a_name_has_that_of_its_target_each_time(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    there = {"stream": "s", "target": "lake"}
    assert run_name("archive", there) == f"archive:{tmp_path / 'lake'}"
    assert run_name("archive", {**there, "target": str(tmp_path / "lake")}) == run_name(
        "archive", there
    )
    assert run_name("archive", {**there, "target": "s3://bucket/a"}) == "archive:s3://bucket/a"
    assert run_name("deadletters", {"stream": "letters", "target": ""}) == "deadletters:letters"
    long = [run_name("archive", {"target": f"s3://{'ü' * 200}{end}"}) for end in "ab"]
    assert long[0] != long[1]
    for name in long:
        assert len(name.encode()) <= 255
        assert len(reader_name("ann", name).encode()) <= 255


@pytest.mark.parametrize(
    ("more", "name"), [({}, None), ({"--reader-name": "mine"}, "mine"), ({"--reader-name": ""}, "")]
)
def test_the_command_reports_a_refused_run_with_its_reader(broker, tmp_path, more, name, capsys):
    place = tmp_path / "a"
    given = {"--url": broker.url, "--stream": "none", "--to": str(place), **more}
    words = [word for pair in given.items() for word in pair]
    assert main.main(["pipeline", "run", "archive", *words]) == 2
    (found,) = broker.runs[f"archive:{place}"]
    assert found["state"] == "failed"
    assert found.get("reader", "") == (f"guest.archive:{place}" if name is None else name)


def test_the_runs_of_a_file_go_by_their_tables(broker, tmp_path, capsys):
    broker.make("letters")
    path = Path(tmp_path, "pipelines.toml")
    table = f'pipeline = "deadletters"\nstream = "letters"\nurl = "{broker.url}"\nonce = true\n'
    place = f'pipeline = "archive"\nstream = "none"\nurl = "{broker.url}"\nto = "{tmp_path}/a"\n'
    path.write_text(f"[pipelines.dead]\n{table}[pipelines.lake]\n{place}")
    assert main.main(["pipeline", "run", "--config", str(path)]) == 2
    assert broker.runs["lake"][0]["reader"] == "guest.lake"
    assert main.main(["pipeline", "run", "--config", str(path), "--only", "dead"]) == 0
    assert broker.runs["dead"][-1]["state"] == "done"
